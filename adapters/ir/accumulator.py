"""Conversion of events to a complete reply and back.

`accumulate(to_events(reply)) == reply` holds for every reply in which each item has a status and
each choice has a finish. So a client that requests a stream can use a backend that sends complete
replies, and vice versa. Stages only need to handle events.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from adapters.ir.events import (
    BlockId,
    Channel,
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
)
from adapters.ir.normalize import part_path, without_content
from adapters.ir.types import (
    Annotation,
    Choice,
    Error,
    Finish,
    Item,
    Logprob,
    Message,
    Part,
    Reasoning,
    Refusal,
    Reply,
    Text,
    ToolCall,
    Usage,
)
from adapters.losses import Losses

# Empty parts that can be rebuilt from their deltas alone.
_EMPTY_PARTS = (Text(""), Refusal(""))


class PartBuffer(Struct, eq=False):
    """The deltas of one part of a block, in lists that are joined once."""

    channel: Channel
    fragments: list[str] = []
    logprobs: list[Logprob] = []
    annotations: list[Annotation] = []

    def add(self, delta: Delta) -> None:
        """Add a delta."""
        self.fragments.append(delta.text)
        if delta.logprobs:
            self.logprobs += delta.logprobs
        if delta.annotations:
            self.annotations += delta.annotations

    def text(self) -> str:
        """Return the text so far."""
        return "".join(self.fragments)

    def part(self) -> Text | Refusal:
        """Return the part of a message so far."""
        if self.channel == "refusal":
            return Refusal(self.text())
        return Text(self.text(), tuple(self.annotations), tuple(self.logprobs))


class ItemBuffer(Struct, eq=False):
    """The events of one block so far."""

    opened: Opened
    parts: list[PartBuffer] = []
    closed: Closed | None = None

    def add(self, delta: Delta) -> None:
        """Add a delta; the first one of a part begins the part."""
        parts = self.parts
        if delta.part >= len(parts):
            parts.append(PartBuffer(delta.channel))
        parts[delta.part].add(delta)

    def texts(self, channel: Channel) -> tuple[str, ...]:
        """Return the texts of the parts of one channel."""
        return tuple(part.text() for part in self.parts if part.channel == channel)

    def item(self) -> Item:
        """Return the item so far."""
        closed = self.closed
        status = closed.status if closed else None
        extras = closed.extras if closed else ()
        match self.opened.item:
            case Message() as message:
                return replace(message, content=self._content(), status=status)
            case ToolCall() as call:
                arguments, extras = "".join(self.texts("arguments")), call.extras + extras
                return replace(call, arguments=arguments, status=status, extras=extras)
            case Reasoning() as reasoning:
                return replace(
                    reasoning,
                    summary=self.texts("summary"),
                    content=self.texts("reasoning"),
                    encrypted=closed.encrypted if closed else None,
                    status=status,
                    extras=reasoning.extras + extras,
                )
            case complete:
                return complete

    def _content(self) -> tuple[Part, ...]:
        streamed = (part.part() for part in self.parts)
        if not (self.closed and self.closed.parts):
            return tuple(streamed)
        content = tuple(
            _with_text(part, next(streamed, part)) if isinstance(part, Text | Refusal) else part
            for part in self.closed.parts
        )
        return (*content, *streamed)


def _with_text(part: Text | Refusal, streamed: Text | Refusal) -> Text | Refusal:
    """Return a part of a `Closed` event with the text of its deltas."""
    if isinstance(part, Text) and isinstance(streamed, Text):
        annotations, logprobs = streamed.annotations, streamed.logprobs
        return replace(part, text=streamed.text, annotations=annotations, logprobs=logprobs)
    return replace(part, text=streamed.text)


class ReplyAccumulator:
    """Builds a complete reply from its events, one at a time."""

    def __init__(self) -> None:
        self._started = Started()
        self._blocks: dict[BlockId, ItemBuffer] = {}
        # Set by the last event.
        self.reply: Reply | None = None

    def feed(self, event: Event) -> None:
        """Add one event."""
        match event:
            case Started():
                self._started = event
            case Opened():
                self._blocks[event.index] = ItemBuffer(event)
            case Delta():
                self._blocks[event.index].add(event)
            case Closed():
                self._blocks[event.index].closed = event
            case Finished():
                self.reply = self._reply(event, event.usage)
            case Failed():
                self.reply = self._reply(Finished(()), event.usage, event.error)

    def _reply(self, finished: Finished, usage: Usage | None, error: Error | None = None) -> Reply:
        started = self._started
        return Reply(
            id=started.id,
            model=started.model,
            created=started.created,
            choices=tuple(self._choices(finished)),
            usage=usage,
            service_tier=finished.service_tier or started.service_tier,
            error=error,
            extras=started.extras + finished.extras,
        )

    def _choices(self, finished: Finished) -> Iterator[Choice]:
        finishes, extras = finished.finishes, finished.choice_extras
        blocks = self._blocks.values()
        count = max(len(finishes), max((block.opened.choice + 1 for block in blocks), default=0))
        for number in range(count):
            items = tuple(block.item() for block in blocks if block.opened.choice == number)
            yield Choice(
                items,
                finishes[number] if number < len(finishes) else None,
                extras[number] if number < len(extras) else (),
            )


def accumulate(events: Iterable[Event]) -> Reply:
    """Build a reply from its events."""
    accumulator = ReplyAccumulator()
    for event in events:
        accumulator.feed(event)
    if accumulator.reply is None:
        raise AssertionError("the events end without Finished or Failed")
    return accumulator.reply


def to_events(reply: Reply, losses: Losses | None = None) -> Iterator[Event]:
    """Yield the events of a reply, with one delta for each part.

    Events can represent every reply, but the streams of the dialects cannot. If `losses` is given,
    the content that a stream cannot contain is reported.
    """
    if losses is not None:
        _report_unstreamable(reply, losses)
    yield Started(reply.id, reply.model, reply.created, reply.service_tier, reply.extras)
    index = 0
    for number, choice in enumerate(reply.choices):
        for item in choice.items:
            yield from item_events(index, number, item)
            index += 1
    if reply.error is not None:
        yield Failed(reply.error, reply.usage)
    else:
        finishes = tuple(choice.finish or Finish("stop", "") for choice in reply.choices)
        extras = tuple(choice.extras for choice in reply.choices)
        yield Finished(finishes, reply.usage, choice_extras=extras if any(extras) else ())


def _report_unstreamable(reply: Reply, losses: Losses) -> None:
    for number, choice in enumerate(reply.choices):
        for extra in choice.extras:
            losses.dropped(f"choices[{number}].{extra.name}", "streams do not support this field")
        for item in choice.items:
            for part_number, part in enumerate(item.content if isinstance(item, Message) else ()):
                if isinstance(item, Message) and not isinstance(part, Text | Refusal):
                    path = part_path(item, part_number)
                    losses.dropped(path, "streams support only text", "capability")


def item_events(index: BlockId, choice: int, item: Item) -> Iterator[Event]:
    """Yield the events of one item."""
    opened = without_content(item)
    if isinstance(opened, Reasoning):
        # The `Closed` event has the extra fields of reasoning, because servers send them last.
        opened = replace(opened, extras=())
    yield Opened(index, opened, choice)
    match item:
        case Message():
            yield from _part_deltas(index, item.content)
            yield Closed(index, item.status or "completed", parts=_closed_parts(item.content))
        case ToolCall():
            yield Delta(index, "arguments", item.arguments)
            yield Closed(index, item.status or "completed")
        case Reasoning():
            for part, text in enumerate(item.summary):
                yield Delta(index, "summary", text, part)
            for part, text in enumerate(item.content, len(item.summary)):
                yield Delta(index, "reasoning", text, part)
            yield Closed(index, item.status or "completed", item.encrypted, item.extras)
        case _:
            yield Closed(index)


def _part_deltas(index: BlockId, content: tuple[Part, ...]) -> Iterator[Delta]:
    streamable = (part for part in content if isinstance(part, Text | Refusal))
    for number, part in enumerate(streamable):
        match part:
            case Text():
                yield Delta(index, "text", part.text, number, part.logprobs, part.annotations)
            case Refusal():
                yield Delta(index, "refusal", part.text, number)


def _closed_parts(content: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts without their deltas; () if the deltas are enough to rebuild them."""
    parts = tuple(map(_without_deltas, content))
    return () if all(part in _EMPTY_PARTS for part in parts) else parts


def _without_deltas(part: Part) -> Part:
    match part:
        case Text(extras=(), cache_breakpoint=None):
            return _EMPTY_PARTS[0]
        case Text():
            return replace(part, text="", annotations=(), logprobs=())
        case Refusal():
            return replace(part, text="")
        case _:
            return part
