"""Checker of a recorded Responses stream.

This module checks the stream as a whole: the order, the numbers and the fields of its events, and
the output in the final response. `conformance_items` checks the events of one item, and
`conformance_tables` has the fields.
"""

from collections.abc import Iterator

from adapters.conformance import (
    INTEGER,
    Fields,
    Frame,
    Object,
    Violation,
    integer_at,
    object_at,
    objects_at,
    preview,
    shape_errors,
    split,
    text_at,
    validate,
)
from adapters.responses.conformance_items import ADDED, Item, differences
from adapters.responses.conformance_tables import (
    ADDED_ITEMS,
    DONE_ITEMS,
    ERROR_FORMS,
    EVENTS,
    FOREIGN_ITEM,
    SNAPSHOTS,
    Event,
)

# The fields of an item that the final response must repeat.
REPEATED_FIELDS = ("id", "type", "call_id", "name", "arguments", "input", "summary", "content")


class Output:
    """The received items of a stream."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._call_ids: set[str] = set()
        # Whether an incomplete item before other items was reported, which is done only once.
        self._reported_incomplete = False

    def feed(self, event_type: str, event: Event, value: Object) -> Iterator[str]:
        """Check an event of an item."""
        match event.step:
            case "added":
                yield from self._add(value)
            case "done":
                yield from self._finish(value)
            case _:
                item_id = text_at(value, "item_id")
                yield from self._check_index(value, item_id)
                item = self._find(value, item_id)
                if item:
                    yield from item.feed(event_type, event, value)

    def close(self, event_type: str, response: Object) -> Iterator[str]:
        """Check the final response: all items are closed, and it repeats them."""
        for item in self._items:
            # The calls of a failed response stay open, so that clients do not run them.
            may_stay_open = event_type == "response.failed" and item.kind.endswith("_call")
            if item.done is None and not may_stay_open:
                yield f"{item.name} is left open"
        if isinstance(response.get("output"), list):
            yield from self._check_repeated(objects_at(response, "output"))

    def _add(self, value: Object) -> Iterator[str]:
        given = object_at(value, "item")
        if given is None:
            return
        yield from _check_item(given, ADDED_ITEMS, "item")
        index, expected = integer_at(value, "output_index"), len(self._items)
        if index is not None and index != expected:
            yield f"output_index is {index}, expected {expected}"
        item = Item(expected if index is None else index, given)
        yield from self._check_unique(item)
        if self._items and _is_incomplete(self._items[-1]):
            earlier = self._items[-1].name
            self._reported_incomplete = True
            yield f"{item.name} comes after {earlier}, which is incomplete and must be last"
        self._items.append(item)
        self._by_id[text_at(given, "id") or ""] = item

    def _check_unique(self, item: Item) -> Iterator[str]:
        item_id, call_id = text_at(item.added, "id"), text_at(item.added, "call_id")
        if item_id in self._by_id:
            yield f"two items have the id {preview(item_id)}"
        # Outputs are not checked: they have the call_id of their call.
        if call_id and not item.kind.endswith("_output"):
            if call_id in self._call_ids:
                yield f"two calls have the call_id {preview(call_id)}"
            self._call_ids.add(call_id)

    def _finish(self, value: Object) -> Iterator[str]:
        given = object_at(value, "item")
        if given is None:
            return
        yield from _check_item(given, DONE_ITEMS, "item")
        index, item_id = integer_at(value, "output_index"), text_at(given, "id")
        item = self._find(value, item_id)
        if item is None:
            yield f"no item was added at output_index {index}"
            return
        if index is not None and item.index != index:
            yield f"output_index is {index}, but {item.name} was added at {item.index}"
        errors = list(item.finish(given))
        yield from errors
        item.is_consistent = not errors
        yield from self._check_order()

    def _check_order(self) -> Iterator[str]:
        """Check that no complete item comes after an incomplete one."""
        done = [item for item in self._items if item.done is not None]
        for item in sorted(done, key=lambda item: item.index, reverse=True):
            if not _is_incomplete(item):
                broken = [one for one in done if _is_incomplete(one) and one.index < item.index]
                if broken and not self._reported_incomplete:
                    self._reported_incomplete = True
                    yield f"{broken[0].name} is incomplete, but {item.name} after it is not"
                return

    def _find(self, value: Object, item_id: str | None) -> Item | None:
        """Return the item with this id, or else the item at the index of the event."""
        if item_id in self._by_id:
            return self._by_id[item_id]
        index = integer_at(value, "output_index")
        return next((item for item in self._items if item.index == index), None)

    def _check_index(self, value: Object, item_id: str | None) -> Iterator[str]:
        index, item = integer_at(value, "output_index"), self._find(value, item_id)
        if item is None:
            yield f"no item was added at output_index {index}"
        elif item_id is not None and item_id != item.added.get("id"):
            yield f"item_id is {preview(item_id)}, but output_index {index} is {item.name}"
        elif index is not None and index != item.index:
            yield f"output_index is {index}, but {item.name} was added at {item.index}"

    def _check_repeated(self, output: list[Object]) -> Iterator[str]:
        ids = {text_at(entry, "id") for entry in output}
        expected = [
            item
            for item in sorted(self._items, key=lambda item: item.index)
            if item.done is not None or text_at(item.added, "id") in ids
        ]
        if len(output) != len(expected):
            yield f"response.output has {len(output)} items, but {len(expected)} were streamed"
            return
        for number, (entry, item) in enumerate(zip(output, expected, strict=True)):
            yield from _check_repeat(f"response.output[{number}]", entry, item)


def _check_repeat(path: str, entry: Object, item: Item) -> Iterator[str]:
    if item.done is None:
        yield from differences(item.added, entry, ("id", "type", "call_id"), path, ADDED)
        return
    errors = list(_check_item(entry, DONE_ITEMS, path))
    yield from errors
    if item.is_consistent and not errors:
        yield from differences(item.done, entry, REPEATED_FIELDS, path, "response.output_item.done")


def _check_item(item: Object, table: dict[str, Fields], path: str) -> Iterator[str]:
    kind = text_at(item, "type")
    fields = FOREIGN_ITEM if kind and ":" in kind else table.get(kind or "")
    if fields is None:
        yield f"{path}.type {preview(item.get('type'))} is not an item type"
    else:
        yield from shape_errors(item, fields, path)


def _is_incomplete(item: Item) -> bool:
    return item.done is not None and item.done.get("status") == "incomplete"


_OVER = {"completed": "over", "incomplete": "over", "failed": "over"}
_RUNNING = {"item": "running", "error": "failing", "keepalive": "running", **_OVER}
# state -> event -> next state; any other event is a violation. `item` stands for all events of the
# output.
STREAM_ORDER: dict[str, dict[str, str]] = {
    "start": {"created": "created", "keepalive": "start"},
    "created": {**_RUNNING, "queued": "queued", "in_progress": "running", "keepalive": "created"},
    "queued": {**_RUNNING, "in_progress": "running", "keepalive": "queued"},
    # `in_progress` may be repeated as a heartbeat.
    "running": {**_RUNNING, "in_progress": "running"},
    # Open Responses: an error is followed by response.failed.
    "failing": {"failed": "over", "keepalive": "failing"},
    "over": {"[DONE]": "closed"},
    "closed": {},
}
STREAM_VIOLATIONS = {
    "start": "the stream must begin with response.created, not {}",
    "created": "{} is out of order: the response has only been created",
    "queued": "{} is out of order: the response is queued",
    "running": "{} is out of order: the response is running",
    "failing": "only response.failed may come after an error, not {}",
    "over": "{} comes after the terminal event",
    "closed": "{} comes after [DONE]",
}
_OUTSIDE_ITEMS = ("created", "queued", "in_progress", *_OVER, "error", "keepalive")


class ResponsesRules:
    """The rules of a Responses stream."""

    def __init__(self) -> None:
        self._state = "start"
        self._next_number = 0
        self._response_id: str | None = None
        self._output = Output()

    def read(self, frame: Frame, value: Object) -> Iterator[str]:
        """Check one event."""
        yield from shape_errors(value, {"sequence_number": INTEGER})
        yield from self._check_sequence_number(value)
        event_type = text_at(value, "type")
        if event_type is None:
            yield "type is missing or not a string"
            return
        if frame.event is None:
            yield f"the event of type {preview(event_type)} has no event: line"
        elif frame.event != event_type:
            yield f"event: is {preview(frame.event)}, but type is {preview(event_type)}"
        event = EVENTS.get(event_type)
        if event is None:
            yield f"unknown event type {preview(event_type)}"
            return
        over = self._state in ("over", "closed")
        yield from self._step(event.step if event.step in _OUTSIDE_ITEMS else "item", event_type)
        if not over:
            yield from shape_errors(value, event.fields)
            yield from self._follow(event_type, event, value)

    def done(self) -> Iterator[str]:
        """Check `[DONE]`."""
        if self._state in ("over", "closed"):
            yield from self._step("[DONE]", "[DONE]")
        else:
            yield "[DONE] comes before a terminal event"
            self._state = "closed"

    def flush(self) -> Iterator[str]:
        """Check the end of the file; OpenAI does not send `[DONE]`."""
        if self._state not in ("over", "closed"):
            yield "the stream ends without response.completed, .incomplete or .failed"

    def _step(self, step: str, event_type: str) -> Iterator[str]:
        following = STREAM_ORDER[self._state].get(step)
        if following is None:
            yield STREAM_VIOLATIONS[self._state].format(event_type)
            # Report it once: continue as if the stream had begun, or ended with a terminal event.
            following = _OVER.get(step, "running" if self._state == "start" else self._state)
        self._state = following

    def _check_sequence_number(self, value: Object) -> Iterator[str]:
        number = integer_at(value, "sequence_number")
        if number is not None and number != self._next_number:
            yield f"sequence_number is {number}, expected {self._next_number}"
        self._next_number = (self._next_number if number is None else number) + 1

    def _follow(self, event_type: str, event: Event, value: Object) -> Iterator[str]:
        if event_type in SNAPSHOTS:
            yield from self._check_snapshot(event_type, value)
        elif event.step == "error":
            if all(any(shape_errors(value, form)) for form in ERROR_FORMS):
                names = "code, message and param"
                yield f"error has neither {names} nor an error object with them and type"
        elif event.step not in ("keepalive", "audio"):
            yield from self._output.feed(event_type, event, value)

    def _check_snapshot(self, event_type: str, value: Object) -> Iterator[str]:
        response = object_at(value, "response") or {}
        response_id = text_at(response, "id")
        self._response_id = self._response_id or response_id
        if response_id != self._response_id and response_id:
            yield f"response.id changes from {preview(self._response_id)} to {preview(response_id)}"
        if event_type.removeprefix("response.") in _OVER:
            yield from self._output.close(event_type, response)


def check_stream(data: bytes) -> list[Violation]:
    """Return the violations in a recorded Responses stream."""
    parsed = split(data)
    violations = validate(parsed, ResponsesRules())
    # Open Responses does not use SSE ids: they are not needed to resume a stream.
    violations += [Violation(line, "id: lines are not used") for line in parsed.id_lines]
    return sorted(violations, key=lambda violation: violation.line)
