"""The life of one output item: its parts open, are written and close; then the item is done.

An item has lanes, each a text that is streamed on its own: "content" and "summary" are lists of
parts, "body" is the one text of a call.
"""

from collections.abc import Iterator

from adapters.conformance import (
    Json,
    Object,
    integer_at,
    object_at,
    objects_at,
    preview,
    same,
    shape_errors,
    text_at,
)
from adapters.responses.conformance_tables import ADDED_PARTS, DONE_PARTS, PART_TEXT, Event

# lane state -> step -> next state. A missing key is the breach.
LANE_ORDER = {
    "shut": {"opened": "open"},
    "open": {"delta": "open", "annotated": "open", "written": "written"},
    "written": {"closed": "shut"},
}
LANE_BREACH = {
    "shut": "no part is open",
    "open": "the text is not done yet",
    "written": "the text is done already",
}
# Which lanes an item type has, and what may be written there.
LANES: dict[str, dict[str, tuple[str, ...]]] = {
    "message": {"content": ("output_text", "refusal")},
    "reasoning": {"content": ("reasoning_text",), "summary": ("summary_text",)},
    "function_call": {"body": ("function_call",)},
    "custom_tool_call": {"body": ("custom_tool_call",)},
    "mcp_call": {"body": ("mcp_call",)},
    "code_interpreter_call": {"body": ("code_interpreter_call",)},
}
BODY_FIELD = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "mcp_call": "arguments",
    "code_interpreter_call": "code",
}
# Built-in tools may come without the events of their text: what ran is no client's business.
MUST_BE_WRITTEN = ("function_call", "custom_tool_call")
UNCHANGED = ("id", "type", "call_id", "name")


class Lane:
    """One text of an item. A text that was already reported as wrong is unknown from then on."""

    def __init__(self, name: str, kinds: tuple[str, ...]) -> None:
        self.closed: list[tuple[str | None, str | None]] = []
        """Type and text of each part that is closed."""
        self.state = "open" if name == "body" else "shut"
        self.text: str | None = ""
        self._name = name
        self._kinds = kinds
        self._kind: str | None = kinds[0] if name == "body" else None
        self._index = -1
        self._annotations = 0
        self._announced = True

    def feed(self, event_type: str, event: Event, value: Object) -> Iterator[str]:
        """Judge one event of this lane."""
        following = LANE_ORDER[self.state].get(event.step)
        if following is None:
            before = "the part before it is still open"
            why = before if event.step == "opened" else LANE_BREACH[self.state]
            yield f"{event_type} is out of order: {why}"
            if self._recover(event):
                yield from self._take(event, value)
        else:
            self.state = following
            yield from self._judge_index(event, value)
            yield from self._judge_kind(event)
            yield from self._take(event, value)

    def unrest(self) -> str | None:
        """Say why the item may not be done yet."""
        if self._name != "body":
            resting = self.state == "shut" or not self._announced
            return None if resting else f"its {self._name} part {self._index} is still open"
        if self.state == "written" or self._kind not in MUST_BE_WRITTEN:
            return None
        return "the event that ends its text did not come"

    def _recover(self, event: Event) -> bool:
        """Go on as if nothing were wrong, if that can be, so that one fault is told once."""
        match self.state, event.step:
            case "shut", "delta" | "annotated" | "written":
                self._begin(self._index + 1, event.owner)
                self._announced = False
                self.state = "written" if event.step == "written" else "open"
            case "open", "closed":
                self.state = "shut"
            case _, "opened":
                self.closed.append((self._kind, self.text))
                self.state = "open"
            case _:
                return False
        return True

    def _take(self, event: Event, value: Object) -> Iterator[str]:
        match event.step:
            case "opened":
                yield from self._open(value)
            case "delta":
                delta = text_at(value, "delta")
                self.text = None if self.text is None or delta is None else self.text + delta
            case "annotated":
                yield from self._annotate(value)
            case "written":
                yield from self._judge_text(event.text, value)
            case _:
                yield from self._close(value)

    def _judge_index(self, event: Event, value: Object) -> Iterator[str]:
        key = f"{self._name}_index"
        index = integer_at(value, key)
        expected = self._index + (event.step == "opened")
        if index is not None and index != expected:
            yield f"{key} is {index}, expected {expected}"

    def _judge_kind(self, event: Event) -> Iterator[str]:
        if event.owner and self._kind and event.owner != self._kind:
            yield f"an event of {event.owner} in a part of type {self._kind}"

    def _begin(self, index: int, kind: str | None) -> None:
        self._index, self._kind = index, kind
        self.text, self._annotations, self._announced = "", 0, True

    def _open(self, value: Object) -> Iterator[str]:
        part = object_at(value, "part") or {}
        kind = text_at(part, "type")
        stated = integer_at(value, f"{self._name}_index")
        known = kind if kind in self._kinds else None
        self._begin(self._index + 1 if stated is None else stated, known)
        if known is None:
            yield f"part.type must be {' or '.join(self._kinds)}, not {preview(part.get('type'))}"
        else:
            yield from shape_errors(part, ADDED_PARTS[known], "part")

    def _annotate(self, value: Object) -> Iterator[str]:
        index = integer_at(value, "annotation_index")
        if index is not None and index != self._annotations:
            yield f"annotation_index is {index}, expected {self._annotations}"
        self._annotations += 1

    def _judge_text(self, key: str, value: Object) -> Iterator[str]:
        whole = text_at(value, key)
        if whole is None or self.text is None:
            self.text = None
        elif whole != self.text:
            values = f"{preview(whole)} for {preview(self.text)}"
            yield f"{key} is not what the deltas joined to: {values}"
            self.text = None

    def _close(self, value: Object) -> Iterator[str]:
        part = object_at(value, "part") or {}
        kind = text_at(part, "type")
        if self._kind and kind != self._kind:
            yield f"part.type is {preview(kind)}, but the part began as {self._kind}"
            self.text = None
        elif self._kind:
            yield from shape_errors(part, DONE_PARTS[self._kind], "part")
            yield from self._judge_text(PART_TEXT[self._kind], part)
        self.closed.append((self._kind, self.text))
        self._announced = True


class Item:
    """One output item, from `response.output_item.added` on."""

    def __init__(self, index: int, item: Object) -> None:
        self.index = index
        self.kind = text_at(item, "type") or ""
        self.added = item
        self.done: Object | None = None
        self.trusted = True
        """Whether `done` is what was streamed, so that the final snapshot can be held to it."""
        self._lanes = {name: Lane(name, kinds) for name, kinds in LANES.get(self.kind, {}).items()}

    @property
    def name(self) -> str:
        """How sentences call this item."""
        return f"{self.kind} {preview(self.added.get('id'))}"

    def feed(self, event_type: str, event: Event, value: Object) -> Iterator[str]:
        """Judge an event that speaks of this item."""
        if self.done is not None:
            yield f"{event_type} comes after {self.name} is done"
            return
        lane = self._lanes.get(event.lane)
        fits = event.owner == self.kind if event.lane in ("", "body") else lane is not None
        if not fits:
            yield f"{event_type} does not belong to an item of type {self.kind}"
        elif lane:
            yield from lane.feed(event_type, event, value)
            yield from self._judge_name(value)

    def finish(self, item: Object) -> Iterator[str]:
        """Judge the item as `response.output_item.done` gives it."""
        if self.done is not None:
            yield f"{self.name} is done a second time"
            return
        self.done = item
        yield from differences(self.added, item, UNCHANGED, "item", "response.output_item.added")
        for name, lane in self._lanes.items():
            unrest = lane.unrest()
            if unrest:
                yield f"{self.name} is done too early: {unrest}"
            elif name == "body":
                yield from self._judge_body(lane, item)
            else:
                yield from self._judge_parts(name, lane, item)

    def _judge_name(self, value: Object) -> Iterator[str]:
        """Judge the name that a call may repeat where its text ends."""
        name, known = text_at(value, "name"), text_at(self.added, "name")
        if name is not None and known is not None and name != known:
            yield f"name is {preview(name)}, but {self.name} is called {preview(known)}"

    def _judge_body(self, lane: Lane, item: Object) -> Iterator[str]:
        key = BODY_FIELD[self.kind]
        body = text_at(item, key)
        if lane.state == "written" and None not in (lane.text, body) and lane.text != body:
            yield f"item.{key} is not what was streamed: {preview(body)} for {preview(lane.text)}"

    def _judge_parts(self, name: str, lane: Lane, item: Object) -> Iterator[str]:
        parts = objects_at(item, name)
        if len(parts) != len(lane.closed):
            yield f"item.{name} has {len(parts)} parts, but {len(lane.closed)} were streamed"
            return
        for number, (part, (kind, text)) in enumerate(zip(parts, lane.closed, strict=True)):
            path = f"item.{name}[{number}]"
            given: Json = part.get(PART_TEXT.get(kind or "", ""))
            if kind and part.get("type") != kind:
                yield f"{path}.type is {preview(part.get('type'))}, but {kind} was streamed"
            elif kind and text is not None and given != text:
                yield f"{path} is not what was streamed: {preview(given)} for {preview(text)}"


def differences(
    before: Object, after: Object, keys: tuple[str, ...], where: str, source: str
) -> Iterator[str]:
    """Say which fields are not what they were before."""
    for key in keys:
        if not same(before.get(key), after.get(key)):
            now, then = preview(after.get(key)), preview(before.get(key))
            yield f"{where}.{key} is {now}, but was {then} in {source}"
