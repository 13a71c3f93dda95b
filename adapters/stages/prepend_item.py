"""Puts an item before an answer, and adds what the item cost to what the answer cost."""

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.types import OpaqueItem, Reply, Usage


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
