"""Conversion of events to a complete reply and back.

`accumulate(to_events(reply)) == reply` holds for every reply of reasoning, texts, refusals and
calls, so a client that wants a stream can use a backend that sends a complete reply, and vice
versa.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from adapters.ir.events import (
    Channel,
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
)
from adapters.ir.normalize import without_content
from adapters.ir.types import (
    Annotation,
    Choice,
    Error,
    Extras,
    Finish,
    Item,
    Logprob,
    Message,
    Part,
    Reasoning,
    Refusal,
    Reply,
    Status,
    Text,
    ToolCall,
    Usage,
)
from adapters.losses import Losses


class PartBuffer(Struct, eq=False):
    """The deltas of one part of a block, in lists that are joined once."""

    channel: Channel
    texts: list[str] = []
    logprobs: list[Logprob] = []
    annotations: list[Annotation] = []

    def add(self, delta: Delta) -> None:
        """Add a delta."""
        self.texts.append(delta.text)
        if delta.logprobs:
            self.logprobs += delta.logprobs
        if delta.annotations:
            self.annotations += delta.annotations

    def text(self) -> str:
        """Return the text so far."""
        return "".join(self.texts)

    def part(self) -> Text | Refusal:
        """Return the part of a message so far."""
        if self.channel == "refusal":
            return Refusal(self.text())
        return Text(self.text(), tuple(self.annotations), tuple(self.logprobs))


class ItemBuffer:
    """One item and its deltas so far."""

    __slots__ = ("choice", "closed", "encrypted", "extras", "opened_item", "parts", "status")

    def __init__(self, opened: Opened) -> None:
        self.opened_item = opened.item
        self.choice = opened.choice
        self.parts: list[PartBuffer] = []
        # Set by `close`.
        self.closed = False
        self.status: Status | None = None
        self.encrypted: str | None = None
        self.extras: Extras = ()

    def add(self, delta: Delta) -> None:
        """Add a delta; the first one of a part begins the part."""
        parts = self.parts
        if delta.part >= len(parts):
            parts.append(PartBuffer(delta.channel))
        parts[delta.part].add(delta)

    def close(self, closed: Closed) -> None:
        """Store what came with the end of the block."""
        self.closed = True
        self.status = closed.status
        self.encrypted = closed.encrypted
        self.extras = closed.extras

    def texts(self, channel: Channel) -> tuple[str, ...]:
        """Return the texts of the parts of one channel."""
        return tuple(part.text() for part in self.parts if part.channel == channel)

    def item(self) -> Item:
        """Return the item so far."""
        match self.opened_item:
            case Message() as message:
                content = tuple(part.part() for part in self.parts)
                return replace(message, content=content, status=self.status)
            case ToolCall() as call:
                arguments = "".join(self.texts("arguments"))
                extras = call.extras + self.extras
                return replace(call, arguments=arguments, status=self.status, extras=extras)
            case Reasoning() as reasoning:
                return replace(
                    reasoning,
                    summary=self.texts("summary"),
                    content=self.texts("thought"),
                    encrypted=self.encrypted,
                    status=self.status,
                    extras=reasoning.extras + self.extras,
                )
            case complete:
                return complete


class ReplyAccumulator:
    """Accumulates the events of one reply."""

    def __init__(self) -> None:
        self._started = Started()
        self._blocks: dict[int, ItemBuffer] = {}

    def feed(self, event: Event) -> list[Reply]:
        """Add one event; return the reply at the last one."""
        match event:
            case Started():
                self._started = event
            case Opened():
                self._blocks[event.index] = ItemBuffer(event)
            case Delta():
                self._blocks[event.index].add(event)
            case Closed():
                self._blocks[event.index].close(event)
            case Finished():
                return [self._reply(event, event.usage)]
            case Failed():
                return [self._reply(Finished(()), event.usage, event.error)]
        return []

    def flush(self) -> list[Reply]:
        """Return nothing: `feed` returned the reply at the last event."""
        return []

    def _reply(self, finished: Finished, usage: Usage | None, error: Error | None = None) -> Reply:
        started = self._started
        return Reply(
            id=started.id,
            model=started.model,
            created=started.created,
            choices=tuple(self._choices(finished.finishes)),
            usage=usage,
            service_tier=finished.service_tier or started.service_tier,
            error=error,
            extras=started.extras + finished.extras,
        )

    def _choices(self, finishes: tuple[Finish, ...]) -> Iterator[Choice]:
        blocks = self._blocks.values()
        count = max(len(finishes), max((block.choice + 1 for block in blocks), default=0))
        for number in range(count):
            items = tuple(block.item() for block in blocks if block.choice == number)
            yield Choice(items, finishes[number] if number < len(finishes) else None)


def accumulate(events: Iterable[Event]) -> Reply:
    """Return the reply of which these are the events."""
    accumulator = ReplyAccumulator()
    for event in events:
        for reply in accumulator.feed(event):
            return reply
    raise AssertionError("the events end without Finished or Failed")


def to_events(reply: Reply, losses: Losses | None = None) -> Iterator[Event]:
    """Yield the events of a reply, with one delta for each part.

    Content other than text and refusals cannot be streamed and is reported as a loss.
    """
    losses = Losses(None) if losses is None else losses
    yield Started(reply.id, reply.model, reply.created, reply.service_tier, reply.extras)
    index = 0
    for number, choice in enumerate(reply.choices):
        for extra in choice.extras:
            losses.dropped(f"choices[{number}].{extra.name}", "a stream has no place for it")
        for item in choice.items:
            yield from _item_events(index, number, item, losses)
            index += 1
    if reply.error is not None:
        yield Failed(reply.error, reply.usage)
    else:
        finishes = tuple(choice.finish or Finish("stop", "") for choice in reply.choices)
        yield Finished(finishes, reply.usage)


def _item_events(index: int, choice: int, item: Item, losses: Losses) -> Iterator[Event]:
    opened = without_content(item)
    if isinstance(opened, Reasoning):
        # Servers send the extra fields of reasoning with its end.
        opened = replace(opened, extras=())
    yield Opened(index, opened, choice)
    match item:
        case Message():
            yield from _part_deltas(index, item.content, losses)
            yield Closed(index, item.status or "completed")
        case ToolCall():
            yield Delta(index, "arguments", item.arguments)
            yield Closed(index, item.status or "completed")
        case Reasoning():
            for part, text in enumerate(item.summary):
                yield Delta(index, "summary", text, part)
            for part, text in enumerate(item.content, len(item.summary)):
                yield Delta(index, "thought", text, part)
            yield Closed(index, item.status or "completed", item.encrypted, item.extras)
        case _:
            yield Closed(index)


def _part_deltas(index: int, content: tuple[Part, ...], losses: Losses) -> Iterator[Delta]:
    parts = [part for part in content if isinstance(part, Text | Refusal)]
    if len(parts) < len(content):
        losses.dropped("content", "only text can be streamed", "capability")
    for number, part in enumerate(parts):
        if isinstance(part, Text):
            yield Delta(index, "text", part.text, number, part.logprobs, part.annotations)
        else:
            yield Delta(index, "refusal", part.text, number)
