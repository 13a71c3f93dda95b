"""Transforms as users write them."""

from collections.abc import Sequence

from msgspec.structs import replace

from adapters import EventTransform, ItemTransform, Request, Transform, TransformLosses
from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.types import Item, Message, Reasoning, Text, ToolCall
from adapters.transforms import AddSystemMessage, RedactText, RenameTools


class Identity(Transform, frozen=True):
    """Overrides everything and changes nothing."""

    def request(self, request: Request, _losses: TransformLosses) -> Request:
        return request

    def reply(self, _losses: TransformLosses) -> EventTransform:
        return EventTransform()


class HeldIdentity(Transform, frozen=True):
    """Holds each item of a reply, and changes nothing."""

    def reply(self, _losses: TransformLosses) -> EventTransform:
        return ItemTransform()


class DropReasoning(Transform, frozen=True):
    def reply(self, losses: TransformLosses) -> EventTransform:
        return _DroppedReasoning(losses)


class _DroppedReasoning(ItemTransform):
    def __init__(self, losses: TransformLosses) -> None:
        super().__init__()
        self._losses = losses

    def holds(self, item: Item) -> bool:
        return isinstance(item, Reasoning)

    def item(self, item: Item) -> list[Item]:
        self._losses.dropped(getattr(item, "path", ""), "reasoning is not returned")
        return []


class RepeatCalls(Transform, frozen=True):
    """Splits each complete call in two with other arguments."""

    def reply(self, _losses: TransformLosses) -> EventTransform:
        return _RepeatedCalls()


class _RepeatedCalls(ItemTransform):
    def holds(self, item: Item) -> bool:
        return isinstance(item, ToolCall)

    def item(self, item: Item) -> list[Item]:
        assert isinstance(item, ToolCall)
        if item.status == "incomplete":
            # No item may follow a truncated one.
            return [item]
        return [item, replace(item, arguments="{}")]


class Prefix(Transform, frozen=True):
    """Adds a message before the first item of a reply, and a text before each message."""

    text: str

    def reply(self, _losses: TransformLosses) -> EventTransform:
        return _Prefixed(self.text)


class _Prefixed(EventTransform):
    def __init__(self, text: str) -> None:
        self._text = text
        self._is_begun = False

    def feed(self, event: Event) -> Sequence[Event]:
        match event:
            case Opened() if not self._is_begun:
                self._is_begun = True
                block = "prefix"
                delta = Delta(block, "text", self._text)
                added = Opened(block, Message("assistant"), event.choice)
                return [added, delta, Closed(block), event]
            case _:
                return [event]


class Uppercase(Transform, frozen=True):
    """Changes the texts of both directions."""

    def request(self, request: Request, losses: TransformLosses) -> Request:
        losses.changed("items", "texts are in upper case")
        return replace(request, items=tuple(map(_upper, request.items)))

    def reply(self, _losses: TransformLosses) -> EventTransform:
        return _Upper()


def _upper(item: Item) -> Item:
    if not isinstance(item, Message):
        return item
    texts = [
        replace(part, text=part.text.upper()) if isinstance(part, Text) else part
        for part in item.content
    ]
    return replace(item, content=tuple(texts))


class _Upper(ItemTransform):
    def item(self, item: Item) -> list[Item]:
        return [_upper(item)]


# The names and texts that the strategies draw are short.
RENAME = RenameTools({"f": "renamed", "get_weather": "weather"})
REDACT = RedactText(("[aeiou0-9]", r"\w\w$"))
SYSTEM = AddSystemMessage("Answer briefly.")

REPLY_TRANSFORMS: dict[str, tuple[Transform, ...]] = {
    "identity": (Identity(),),
    "held-identity": (HeldIdentity(),),
    "drop-reasoning": (DropReasoning(),),
    "repeat-calls": (RepeatCalls(),),
    "repeat-calls-twice": (RepeatCalls(), RepeatCalls()),
    "prefix": (Prefix("First:"),),
    "prefix-twice": (Prefix("First:"), Prefix("Second:")),
    "uppercase": (Uppercase(),),
    "rename": (RENAME,),
    "redact": (REDACT,),
    "several": (RENAME, DropReasoning(), REDACT, RepeatCalls(), SYSTEM),
}
