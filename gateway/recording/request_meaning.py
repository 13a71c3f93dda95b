"""The meaning of a request, by which a replay finds the recording that belongs to it."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from adapters import Dialect, DragomanError, Request, parse_body
from adapters.comparison import Difference, NormalBody, compare_normal
from adapters.conformance import Json, Object
from adapters.ir.types import Item, Message, Reasoning, Text
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses

# Fields that do not change what the model is asked, or that some dialects cannot express. Requests
# that differ in them match, but a recording in which they are equal is preferred.
MINOR_FIELDS: Final = frozenset(
    (
        *("stream", "include_usage", "include_obfuscation", "store", "metadata", "user", "hints"),
        *("safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        *("prompt_cache_options", "service_tier", "parallel_tool_calls", "moderation"),
    )
)
# Fields of items and tools that depend on the dialect of the client.
_IGNORED_FIELDS: Final = ("extras", "strict", "continues", "path")
_MINOR_SEVERITIES: Final = (None, "adapted", "hint")
# The first field of a path, the index or name of an entry, and the rest.
_PATH: Final = re.compile(r"(\w+)(?:\[([^\]]*)\])?(.*)", re.DOTALL)


# Dates, times and random ids in texts, which programs write into prompts.
_VOLATILE_TEXT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(?:Z|[+-]\d{2}:?\d{2})?"
    r"|(?:[A-Z][a-z]{2,8}day,? )?(?:\d{1,2} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    r"[a-z]{0,6} (?:\d{1,2},? )?\d{4}"
    r"|\d{1,2}/\d{1,2}/\d{4}|\d{1,2}:\d{2}:\d{2}"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)


def without_volatile_text(text: str) -> str:
    """Return a text without the dates, times and random ids in it."""
    return _VOLATILE_TEXT.sub("", text)


class RequestMeaning:
    """A request in a form that does not depend on how its dialect writes it."""

    def __init__(self, dialect: Dialect, value: Object, paths: tuple[str, ...] = ()) -> None:
        self.dialect = dialect
        self._value = value
        # The path of each item in the request.
        self.paths = paths
        model = value.get("model")
        self.model = model if isinstance(model, str) else ""
        self.body = NormalBody(value)
        major = {
            name: field
            for name, field in value.items()
            if name.partition(".")[0] not in MINOR_FIELDS
        }
        # Equal for requests that match, unless one has redactions.
        self.fingerprint = NormalBody(major).fingerprint()

    @property
    def items(self) -> list[Json]:
        """The items of the conversation; none if the request could not be read."""
        items = self._value.get("items")
        return items if isinstance(items, list) else []

    def with_items(self, order: Iterable[int]) -> "RequestMeaning":
        """Return the request with some of its items, by their indices."""
        chosen = [*order]
        value: Object = {**self._value, "items": [self.items[index] for index in chosen]}
        return RequestMeaning(self.dialect, value, tuple(self.paths[index] for index in chosen))


class RequestComparison(Struct, frozen=True):
    """How a request differs from a recorded one."""

    # With the paths of the recorded request, or those of the other one for what only that has.
    differences: list[Difference]
    # The number of differences that do not prevent a match.
    minor: int


def read_meaning(data: bytes, dialect: Dialect) -> RequestMeaning:
    """Return the meaning of a request; of one that cannot be read, only its JSON or its text."""
    try:
        return meaning_of(dialect.read_request(parse_body(data), Losses(None)), dialect)
    except DragomanError:
        return RequestMeaning(dialect, {"body": _decode(data)})


def meaning_of(request: Request, dialect: Dialect) -> RequestMeaning:
    """Return the meaning of a request that was read."""
    items = request.items_with_paths()
    if request.instructions is not None:
        items.insert(0, (Message("system", (Text(request.instructions),)), "instructions"))
    # Clients of some dialects do not send reasoning back.
    items = [(_normal(item), path) for item, path in items if not isinstance(item, Reasoning)]
    rest = replace(
        request, instructions=None, items=(), paths=(), tools=(), tool_paths=(), extras=()
    )
    value = _to_object(rest)
    value["items"] = [_without_ignored(_to_object(item)) for item, _ in items]
    tools = [_without_ignored(_to_object(tool)) for tool in request.tools]
    value["tools"] = sorted(tools, key=msgspec.json.encode)
    for extra in request.extras:
        group = "hints" if extra.severity in _MINOR_SEVERITIES else "extras"
        value[f"{group}.{extra.name}"] = _decode(bytes(extra.value))
    return RequestMeaning(dialect, value, tuple(path for _, path in items))


def compare_requests(recorded: RequestMeaning, received: RequestMeaning) -> RequestComparison:
    """Compare a request with a recorded one."""
    differences: list[Difference] = []
    minor = 0
    for difference in compare_normal(recorded.body, received.body):
        match = _PATH.match(difference.path)
        if match is None:
            differences.append(difference)
        elif match[1] in MINOR_FIELDS:
            minor += 1
        else:
            # An item that only the received request has, itself, has the index there.
            added = difference.kind == "extra" and not match[3]
            path = _request_path(match, received if added else recorded)
            differences.append(replace(difference, path=path))
    return RequestComparison(differences, minor)


def is_volatile(difference: Difference) -> bool:
    """Whether two values differ only in dates, times and random ids."""
    left, right = map(str, (difference.left, difference.right))
    return difference.kind == "changed" and without_volatile_text(left) == without_volatile_text(
        right
    )


def _request_path(match: re.Match[str], request: RequestMeaning) -> str:
    """Return a path in the request itself."""
    field, key, rest = match.groups()
    if field == "items" and key is not None:
        return request.paths[int(key)] + rest
    if field == "extras":
        return rest.removeprefix(".")
    return request.dialect.names.get(field, field) + ("" if key is None else f"[{key}]") + rest


def _normal(item: Item) -> Item:
    """Return an item whose role does not depend on what a dialect calls the developer."""
    if isinstance(item, Message) and item.role == "developer":
        return replace(item, role="system")
    return item


def _to_object(struct: Struct) -> Object:
    value: Object = msgspec.json.decode(msgspec.json.encode(struct))
    return value


def _without_ignored(value: Json) -> Json:
    if isinstance(value, list):
        return [_without_ignored(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        key: field if key == "parameters" else _without_ignored(field)
        for key, field in value.items()
        if key not in _IGNORED_FIELDS
    }


def _decode(data: bytes) -> Json:
    try:
        value: Json = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return data.decode(errors="replace")
    return value
