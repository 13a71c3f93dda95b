"""One item of a Responses stream on its way in."""

from collections.abc import Iterator

from msgspec import Struct

from adapters.ir.events import Channel
from adapters.ir.types import (
    Annotation,
    Item,
    Logprob,
    Message,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)


class IncomingPart:
    """What has come of one part, for comparison with what the server says of it at the end."""

    __slots__ = ("annotations", "channel", "has_logprobs", "index", "texts")

    def __init__(self, channel: Channel, index: int) -> None:
        self.channel: Channel = channel
        # The server's own number of it.
        self.index = index
        self.texts: list[str] = []
        self.annotations = 0
        self.has_logprobs = False


class BufferedDelta:
    """A delta that came before anybody knew what it belongs to."""

    __slots__ = ("channel", "index", "text")

    def __init__(self, channel: Channel, index: int, text: str) -> None:
        self.channel: Channel = channel
        self.index = index
        self.text = text


class StreamedItem:
    """One item: its ids, its block once it is told, its parts."""

    __slots__ = ("block", "closed", "held", "is_function", "item_id", "kind", "name", "parts")

    def __init__(self, item_id: str | None) -> None:
        self.item_id = item_id
        self.kind: type[Item] | None = None
        self.is_function = False
        # Of a call: how to name it in a loss.
        self.name = ""
        self.block: int | None = None
        self.parts: list[IncomingPart] = []
        self.held: list[BufferedDelta] = []
        self.closed = False

    def current(self, channel: Channel, index: int) -> IncomingPart | None:
        """Give the part that is being filled, if it is this one."""
        if self.parts:
            part = self.parts[-1]
            if part.channel == channel and part.index == index:
                return part
        return None

    def lacks_arguments(self) -> bool:
        """Tell whether it is a call of a function with nothing that could be parsed."""
        return self.is_function and not any(text.strip() for p in self.parts for text in p.texts)

    def find(self, channel: Channel, index: int) -> IncomingPart | None:
        """Give a part that has begun."""
        for part in self.parts:
            if part.channel == channel and part.index == index:
                return part
        return None


class Content(Struct, frozen=True):
    """What a server says of one part when it is whole."""

    channel: Channel
    index: int
    text: str
    annotations: tuple[Annotation, ...] = ()
    logprobs: tuple[Logprob, ...] = ()


def contents(item: Item) -> Iterator[Content]:
    """Give the parts of a whole item."""
    match item:
        case Message():
            for index, part in enumerate(item.content):
                if isinstance(part, Text):
                    yield Content("text", index, part.text, part.annotations, part.logprobs)
                elif isinstance(part, Refusal):
                    yield Content("refusal", index, part.text)
        case ToolCall():
            yield Content("arguments", 0, item.arguments)
        case Reasoning():
            for index, text in enumerate(item.summary):
                yield Content("summary", index, text)
            for index, text in enumerate(item.content):
                yield Content("thought", index, text)
        case _:
            return
