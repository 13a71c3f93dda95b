"""The dictionaries with attributes that version 0.28 returned."""

from typing import Any


class OpenAIObject(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(*error.args) from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def to_dict_recursive(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in self.items()}


def _plain(value: Any) -> Any:
    match value:
        case OpenAIObject():
            return value.to_dict_recursive()
        case list():
            return [_plain(one) for one in value]  # pyright: ignore[reportUnknownVariableType] - JSON
        case _:
            return value
