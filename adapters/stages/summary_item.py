"""The stages for context compaction: one replaces a reply with an item, one prepends an item.

The gateway creates the item and seals its content, so the client can carry but not read it.
"""

import re
from collections.abc import Callable, Iterator

from msgspec import Raw
from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.types import Error, ExtraField, Extras, Finish, Message, OpaqueItem, Usage
from adapters.losses import Losses
from adapters.stages.stage import DiscardBlock, Stage

_EMPTY = Error("the backend returned an empty summary", code="empty_summary", status=502)
_DONE = Finish("stop", "stop")
_SUMMARY = "summary"
_PREPENDED = "prepended"
# A count of tokens among the extra fields of a usage.
_COUNT = re.compile(rb"\d{1,15}")
_NO_VALUE = Raw(b"null")


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
    missing = {one.missing, other.missing}
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        total_tokens=one.total_tokens + other.total_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
        extras=tuple(_add_extras(one.extras, other.extras)),
        missing="counts" if "counts" in missing else "details" if "details" in missing else None,
    )


def _add_extras(one: Extras, other: Extras) -> Iterator[ExtraField]:
    """Yield the extra fields of both usages, with the sums of counts that both have."""
    counts = {extra.name: extra.value for extra in one}
    for extra in other:
        yield replace(extra, value=_add_counts(counts.pop(extra.name, _NO_VALUE), extra.value))
    yield from (extra for extra in one if extra.name in counts)


def _add_counts(one: Raw, other: Raw) -> Raw:
    """Return the sum of two counts; the second value if one is no count."""
    are_counts = _COUNT.fullmatch(one) and _COUNT.fullmatch(other)
    return Raw(b"%d" % (int(bytes(one)) + int(bytes(other)))) if are_counts else other
