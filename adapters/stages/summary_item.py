"""The stages for context compaction: one replaces a reply with an item, one prepends an item.

The gateway creates the item and seals its content, so the client can carry but not read it.
"""

from collections.abc import Callable

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.types import Error, Finish, Message, OpaqueItem, Usage
from adapters.losses import Losses
from adapters.stages.stage import DiscardBlock, Stage

_EMPTY = Error("the backend returned an empty summary", code="empty_summary", status=502)
_DONE = Finish("stop", "stop")
_SUMMARY = "summary"
_PREPENDED = "prepended"


class ReplySummarizer(Stage):
    """A stage that replaces a reply with one item, which contains the text of its messages."""

    def __init__(self, make_item: Callable[[str], OpaqueItem], losses: Losses) -> None:
        super().__init__()
        self._make_item = make_item
        self._losses = losses
        self._messages: list[_TextCollector] = []

    def _open(self, event: Opened) -> list[Event]:
        if isinstance(event.item, Message):
            self._processors[event.index] = message = _TextCollector()
            self._messages.append(message)
        else:
            self._processors[event.index] = DiscardBlock()
        return []

    def _finish(self, event: Finished) -> list[Event]:
        texts = ("".join(message.texts).strip() for message in self._messages)
        summary = "\n\n".join(text for text in texts if text)
        if not summary:
            return [Failed(_EMPTY, event.usage)]
        item = self._make_item(summary)
        if any(finish.reason in ("length", "filter") for finish in event.finishes):
            # Use the truncated summary, because no better one exists.
            self._losses.changed("output[0]", "the backend truncated the summary")
        finished = replace(event, finishes=(_DONE,), choice_extras=())
        return [Opened(_SUMMARY, item), Closed(_SUMMARY), finished]


class _TextCollector(DiscardBlock):
    """Collects the text of a message, and removes the message from the reply."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def feed(self, delta: Delta) -> list[Event]:
        """Collect the text of a delta."""
        if delta.channel == "text":
            self.texts.append(delta.text)
        return []


class ItemPrepender(Stage):
    """A stage that inserts an item before a reply, and adds the usage of creating the item."""

    def __init__(self, item: OpaqueItem, usage: Usage | None) -> None:
        super().__init__()
        self._item = item
        self._usage = usage

    def _start(self, event: Started) -> list[Event]:
        return [event, Opened(_PREPENDED, self._item), Closed(_PREPENDED)]

    def _finish(self, event: Finished) -> list[Event]:
        return [replace(event, usage=add_usage(self._usage, event.usage))]

    def _fail(self, event: Failed) -> list[Event]:
        return [replace(event, usage=add_usage(self._usage, event.usage))]


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Return the sum of two usages; None if one is unknown."""
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
