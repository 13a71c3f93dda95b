"""Makes of an answer, which sums up a conversation, one item that holds the summary.

Whoever serves makes the item: it is sealed, so that a client carries what it cannot read.
"""

from collections.abc import Callable

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.types import Choice, Error, Finish, Message, OpaqueItem, Reply, Text, Usage
from adapters.losses import Losses

_EMPTY = Error(
    "the backend was asked for a summary and said nothing", code="empty_summary", status=502
)
_DONE = Finish("stop", "stop")


class SummarizeReply:
    """Gathers what is said, whole or streamed; thoughts and calls are no part of a summary."""

    def __init__(self, condense: Callable[[str], OpaqueItem], losses: Losses) -> None:
        self._condense = condense
        self._losses = losses
        # What each message says, by the number of its block.
        self._said: dict[int, list[str]] = {}

    def reply(self, reply: Reply) -> Reply:
        """Condense a whole reply."""
        if reply.error is not None:
            return reply
        said = [_said(item) for choice in reply.choices for item in choice.items]
        item = self._item([text for text in said if text is not None])
        if item is None:
            return replace(reply, choices=(), error=_EMPTY)
        self._note_limit(tuple(one.finish for one in reply.choices if one.finish is not None))
        return replace(reply, choices=(Choice((item,), _DONE),))

    def feed(self, event: Event) -> list[Event]:
        """Take an event; the item comes with the last one."""
        match event:
            case Opened():
                if isinstance(event.item, Message):
                    self._said[event.index] = []
                return []
            case Delta():
                if event.channel == "text" and event.index in self._said:
                    self._said[event.index].append(event.text)
                return []
            case Closed():
                return []
            case Finished():
                return self._finish(event)
            case _:
                return [event]

    def flush(self) -> list[Event]:
        """Give nothing more: the last event gave the item."""
        return []

    def _finish(self, event: Finished) -> list[Event]:
        item = self._item(["".join(texts) for texts in self._said.values()])
        if item is None:
            return [Failed(_EMPTY, event.usage)]
        self._note_limit(event.finishes)
        return [Opened(0, item), Closed(0), replace(event, finishes=(_DONE,))]

    def _item(self, said: list[str]) -> OpaqueItem | None:
        summary = "\n\n".join(text.strip() for text in said if text.strip())
        return self._condense(summary) if summary else None

    def _note_limit(self, finishes: tuple[Finish, ...]) -> None:
        """Say so if a summary was cut off: it serves all the same, and there is no better one."""
        if any(finish.reason in ("length", "filter") for finish in finishes):
            self._losses.changed("output[0]", "the summary was cut off by the backend")


def _said(item: object) -> str | None:
    if not isinstance(item, Message):
        return None
    return "".join(part.text for part in item.content if isinstance(part, Text))


# Puts an item before an answer, and adds what the item cost to what the answer cost.


class PrependItem:
    """Begins an answer, whole or streamed, with an item that its backend did not make."""

    def __init__(self, item: OpaqueItem, usage: Usage | None) -> None:
        self._item = item
        self._usage = usage

    def reply(self, reply: Reply) -> Reply:
        """Put it before a whole reply."""
        usage = add_usage(self._usage, reply.usage)
        if not reply.choices:
            return replace(reply, usage=usage)
        first, *others = reply.choices
        first = replace(first, items=(self._item, *first.items))
        return replace(reply, choices=(first, *others), usage=usage)

    def feed(self, event: Event) -> list[Event]:
        """Put it behind the first event; the numbers of all blocks then move up by one."""
        match event:
            case Started():
                return [event, Opened(0, self._item), Closed(0)]
            case Opened() | Delta() | Closed():
                return [replace(event, index=event.index + 1)]
            case Finished() | Failed():
                return [replace(event, usage=add_usage(self._usage, event.usage))]

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Add up what two answers cost; where one did not say, nobody knows the sum."""
    if one is None or other is None:
        return None
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        total_tokens=one.total_tokens + other.total_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
        extras=other.extras,
    )
