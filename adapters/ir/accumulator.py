"""From events to a whole reply and back.

`fold(replay(reply)) == reply` for every reply of thoughts, texts, refusals and calls, so a client
that wants the one can sit before a backend that gives the other.
"""

from collections.abc import Iterable, Iterator

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


class PartBuffer:
    """One part of a block, gathered: lists that are joined once, so long streams stay linear."""

    __slots__ = ("annotations", "channel", "logprobs", "texts")

    def __init__(self, channel: Channel) -> None:
        self.channel: Channel = channel
        self.texts: list[str] = []
        self.logprobs: list[Logprob] = []
        self.annotations: list[Annotation] = []

    def add(self, delta: Delta) -> None:
        """Take one more delta."""
        self.texts.append(delta.text)
        if delta.logprobs:
            self.logprobs += delta.logprobs
        if delta.annotations:
            self.annotations += delta.annotations

    def text(self) -> str:
        """Give the text so far."""
        return "".join(self.texts)

    def part(self) -> Text | Refusal:
        """Give the part so far, of a message."""
        if self.channel == "refusal":
            return Refusal(self.text())
        return Text(self.text(), tuple(self.annotations), tuple(self.logprobs))


class ItemBuffer:
    """One item on its way, gathered."""

    __slots__ = ("bare", "choice", "closed", "encrypted", "extras", "pieces", "status")

    def __init__(self, opened: Opened) -> None:
        self.bare = opened.item
        self.choice = opened.choice
        self.pieces: list[PartBuffer] = []
        self.closed = False
        self.status: Status | None = None
        self.encrypted: str | None = None
        # What came with its end.
        self.extras: Extras = ()

    def add(self, delta: Delta) -> None:
        """Take one more delta; the first of a part begins it."""
        pieces = self.pieces
        if delta.part >= len(pieces):
            pieces.append(PartBuffer(delta.channel))
        pieces[delta.part].add(delta)

    def close(self, closed: Closed) -> None:
        """Learn how it ended."""
        self.closed = True
        self.status = closed.status
        self.encrypted = closed.encrypted
        self.extras = closed.extras

    def texts(self, channel: Channel) -> tuple[str, ...]:
        """Give the texts of the parts of one channel."""
        return tuple(piece.text() for piece in self.pieces if piece.channel == channel)

    def item(self) -> Item:
        """Give the item so far."""
        match self.bare:
            case Message():
                content = tuple(piece.part() for piece in self.pieces)
                return replace(self.bare, content=content, status=self.status)
            case ToolCall():
                arguments = "".join(self.texts("arguments"))
                extras = self.bare.extras + self.extras
                return replace(self.bare, arguments=arguments, status=self.status, extras=extras)
            case Reasoning():
                return replace(
                    self.bare,
                    summary=self.texts("summary"),
                    content=self.texts("thought"),
                    encrypted=self.encrypted,
                    status=self.status,
                    extras=self.bare.extras + self.extras,
                )
            case whole:
                return whole


class ReplyAccumulator:
    """Gathers the events of one reply."""

    def __init__(self) -> None:
        self._started = Started()
        self._blocks: dict[int, ItemBuffer] = {}
        self._finished = Finished(())
        self._error: Error | None = None
        self._usage: Usage | None = None

    def feed(self, event: Event) -> list[Reply]:
        """Take one event; the last gives the reply."""
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
                self._finished = event
                self._usage = event.usage
                return [self._reply()]
            case Failed():
                self._error = event.error
                self._usage = event.usage
                return [self._reply()]
        return []

    def flush(self) -> list[Reply]:
        """Give nothing more: the last event gave the reply."""
        return []

    def _reply(self) -> Reply:
        started, finished = self._started, self._finished
        return Reply(
            id=started.id,
            model=started.model,
            created=started.created,
            choices=tuple(self._choices(finished.finishes)),
            usage=self._usage,
            service_tier=finished.service_tier or started.service_tier,
            error=self._error,
            extras=started.extras + finished.extras,
        )

    def _choices(self, finishes: tuple[Finish, ...]) -> Iterator[Choice]:
        blocks = self._blocks.values()
        count = max(len(finishes), max((block.choice + 1 for block in blocks), default=0))
        for number in range(count):
            items = tuple(block.item() for block in blocks if block.choice == number)
            yield Choice(items, finishes[number] if number < len(finishes) else None)


def accumulate(events: Iterable[Event]) -> Reply:
    """Gather the events of one reply into the whole."""
    gathered = ReplyAccumulator()
    for event in events:
        for reply in gathered.feed(event):
            return reply
    raise AssertionError("the events end without Finished or Failed")


def to_events(reply: Reply, losses: Losses | None = None) -> Iterator[Event]:
    """Tell a whole reply as events, one delta for each part.

    Only text and refusals can be streamed; that anything else was said goes to the losses.
    """
    quiet = Losses(None) if losses is None else losses
    yield Started(reply.id, reply.model, reply.created, reply.service_tier, reply.extras)
    index = 0
    for number, choice in enumerate(reply.choices):
        for extra in choice.extras:
            quiet.dropped(f"choices[{number}].{extra.name}", "a stream has no place for it")
        for item in choice.items:
            yield from _replay_item(index, number, item, quiet)
            index += 1
    if reply.error is not None:
        yield Failed(reply.error, reply.usage)
    else:
        finishes = tuple(choice.finish or Finish("stop", "") for choice in reply.choices)
        yield Finished(finishes, reply.usage)


def _replay_item(index: int, choice: int, item: Item, losses: Losses) -> Iterator[Event]:
    opened = without_content(item)
    if isinstance(opened, Reasoning):
        # Told with its end, as servers tell it.
        opened = replace(opened, extras=())
    yield Opened(index, opened, choice)
    match item:
        case Message():
            yield from _replay_parts(index, item.content, losses)
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


def _replay_parts(index: int, content: tuple[Part, ...], losses: Losses) -> Iterator[Delta]:
    """Tell the parts of an answer; a model says only text and refusals."""
    said = [part for part in content if isinstance(part, Text | Refusal)]
    if len(said) < len(content):
        losses.dropped("content", "only text can be streamed", "capability")
    for number, part in enumerate(said):
        if isinstance(part, Text):
            yield Delta(index, "text", part.text, number, part.logprobs, part.annotations)
        else:
            yield Delta(index, "refusal", part.text, number)
