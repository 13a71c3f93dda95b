"""Rules for the events of one output item.

An item has streamed fields: "content" and "summary" are lists of parts, each of which is opened,
written and closed. "body" stands for the field of a call that has its text.
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

# state -> step -> next state; any other step is a violation.
FIELD_ORDER = {
    "shut": {"opened": "open"},
    "open": {"delta": "open", "annotated": "open", "written": "written"},
    "written": {"closed": "shut"},
}
FIELD_VIOLATIONS = {
    "shut": "no part is open",
    "open": "the text is not done yet",
    "written": "the text is done already",
}
# The streamed fields of each type of item, and the types of their parts.
STREAMED_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "message": {"content": ("output_text", "refusal")},
    "reasoning": {"content": ("reasoning_text",), "summary": ("summary_text",)},
    "function_call": {"body": ("function_call",)},
    "custom_tool_call": {"body": ("custom_tool_call",)},
    "mcp_call": {"body": ("mcp_call",)},
    "code_interpreter_call": {"body": ("code_interpreter_call",)},
}
BODY_FIELDS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "mcp_call": "arguments",
    "code_interpreter_call": "code",
}
# Types whose body must be streamed; servers need not stream the text of built-in tools.
MUST_BE_STREAMED = ("function_call", "custom_tool_call")
ADDED = "response.output_item.added"
CONSTANT_FIELDS = ("id", "type", "call_id", "name")


class StreamedField:
    """One streamed field of an item; a text with a violation is not compared again."""

    def __init__(self, name: str, kinds: tuple[str, ...]) -> None:
        # The type and the text of each closed part; a text with a violation is None.
        self.closed: list[tuple[str | None, str | None]] = []
        self.state = "open" if name == "body" else "shut"
        self.text: str | None = ""
        self._name = name
        self._kinds = kinds
        self._kind: str | None = kinds[0] if name == "body" else None
        self._index = -1
        self._annotations = 0
        self._was_added = True

    def feed(self, event_type: str, event: Event, value: Object) -> Iterator[str]:
        """Check one event of this field."""
        following = FIELD_ORDER[self.state].get(event.step)
        if following is None:
            reason = FIELD_VIOLATIONS[self.state]
            if event.step == "opened":
                reason = "the part before it is still open"
            yield f"{event_type} is out of order: {reason}"
            if self._recover(event):
                yield from self._apply(event, value)
        else:
            self.state = following
            yield from self._check_index(event, value)
            if event.owner and self._kind and event.owner != self._kind:
                yield f"an event of {event.owner} in a part of type {self._kind}"
            yield from self._apply(event, value)

    def incomplete_reason(self) -> str | None:
        """Return the reason why the field is incomplete, or None if it is complete."""
        if self._name != "body":
            is_closed = self.state == "shut" or not self._was_added
            return None if is_closed else f"its {self._name} part {self._index} is still open"
        if self.state == "written" or self._kind not in MUST_BE_STREAMED:
            return None
        return "the done event of its text is missing"

    def _recover(self, event: Event) -> bool:
        """Continue as if the order were valid, if possible, to report a violation only once."""
        match self.state, event.step:
            case "shut", "delta" | "annotated" | "written":
                self._begin(self._index + 1, event.owner)
                self._was_added = False
                self.state = "written" if event.step == "written" else "open"
            case "open", "closed":
                self.state = "shut"
            case _, "opened":
                self.closed.append((self._kind, self.text))
                self.state = "open"
            case _:
                return False
        return True

    def _apply(self, event: Event, value: Object) -> Iterator[str]:
        match event.step:
            case "opened":
                yield from self._open(value)
            case "delta":
                delta = text_at(value, "delta")
                self.text = None if self.text is None or delta is None else self.text + delta
            case "annotated":
                number = integer_at(value, "annotation_index")
                if number is not None and number != self._annotations:
                    yield f"annotation_index is {number}, expected {self._annotations}"
                self._annotations += 1
            case "written":
                yield from self._check_text(event.text, value)
            case _:
                yield from self._close(value)

    def _check_index(self, event: Event, value: Object) -> Iterator[str]:
        key = f"{self._name}_index"
        index = integer_at(value, key)
        expected = self._index + (event.step == "opened")
        if index is not None and index != expected:
            yield f"{key} is {index}, expected {expected}"

    def _begin(self, index: int, kind: str | None) -> None:
        self._index, self._kind = index, kind
        self.text, self._annotations, self._was_added = "", 0, True

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

    def _check_text(self, key: str, value: Object) -> Iterator[str]:
        whole = text_at(value, key)
        if whole is None or self.text is None:
            self.text = None
        elif whole != self.text:
            values = f"{preview(whole)}, not {preview(self.text)}"
            yield f"{key} differs from the joined deltas: {values}"
            self.text = None

    def _close(self, value: Object) -> Iterator[str]:
        part = object_at(value, "part") or {}
        kind = text_at(part, "type")
        if self._kind and kind != self._kind:
            yield f"part.type is {preview(kind)}, but the part began as {self._kind}"
            self.text = None
        elif self._kind:
            yield from shape_errors(part, DONE_PARTS[self._kind], "part")
            yield from self._check_text(PART_TEXT[self._kind], part)
        self.closed.append((self._kind, self.text))
        self._was_added = True


class Item:
    """One output item, from `response.output_item.added` on."""

    def __init__(self, index: int, item: Object) -> None:
        self.index = index
        self.kind = text_at(item, "type") or ""
        self.added = item
        self.done: Object | None = None
        # Whether `done` equals the streamed content; only then the final response must equal it.
        self.is_consistent = True
        fields = STREAMED_FIELDS.get(self.kind, {})
        self._fields = {name: StreamedField(name, kinds) for name, kinds in fields.items()}

    @property
    def name(self) -> str:
        """The type and the id of this item in messages."""
        return f"{self.kind} {preview(self.added.get('id'))}"

    def feed(self, event_type: str, event: Event, value: Object) -> Iterator[str]:
        """Check an event of this item."""
        if self.done is not None:
            yield f"{event_type} comes after {self.name} is done"
            return
        field = self._fields.get(event.field)
        belongs = event.owner == self.kind if event.field in ("", "body") else field is not None
        if not belongs:
            yield f"{event_type} does not belong to an item of type {self.kind}"
        elif field:
            yield from field.feed(event_type, event, value)
            yield from self._check_name(value)

    def finish(self, item: Object) -> Iterator[str]:
        """Check the item of `response.output_item.done`."""
        if self.done is not None:
            yield f"{self.name} is done a second time"
            return
        self.done = item
        yield from differences(self.added, item, CONSTANT_FIELDS, "item", ADDED)
        for name, field in self._fields.items():
            reason = field.incomplete_reason()
            if reason:
                yield f"{self.name} is done too early: {reason}"
            elif name == "body":
                yield from self._check_body(field, item)
            else:
                yield from self._check_parts(name, field, item)

    def _check_name(self, value: Object) -> Iterator[str]:
        """Check the name of a call, which the event at the end of its arguments may repeat."""
        name, known = text_at(value, "name"), text_at(self.added, "name")
        if name is not None and known is not None and name != known:
            yield f"name is {preview(name)}, but {self.name} is named {preview(known)}"

    def _check_body(self, field: StreamedField, item: Object) -> Iterator[str]:
        key = BODY_FIELDS[self.kind]
        body = text_at(item, key)
        if field.state == "written" and None not in (field.text, body) and field.text != body:
            yield f"item.{key} differs from the stream: {preview(body)}, not {preview(field.text)}"

    def _check_parts(self, name: str, field: StreamedField, item: Object) -> Iterator[str]:
        parts = objects_at(item, name)
        if len(parts) != len(field.closed):
            yield f"item.{name} has {len(parts)} parts, but {len(field.closed)} were streamed"
            return
        for number, (part, (kind, text)) in enumerate(zip(parts, field.closed, strict=True)):
            path = f"item.{name}[{number}]"
            given: Json = part.get(PART_TEXT.get(kind or "", ""))
            if kind and part.get("type") != kind:
                yield f"{path}.type is {preview(part.get('type'))}, but {kind} was streamed"
            elif kind and text is not None and given != text:
                yield f"{path} differs from the stream: {preview(given)}, not {preview(text)}"


def differences(
    before: Object, after: Object, keys: tuple[str, ...], path: str, source: str
) -> Iterator[str]:
    """Yield a message for each field that has changed."""
    for key in keys:
        if not same(before.get(key), after.get(key)):
            now, then = preview(after.get(key)), preview(before.get(key))
            yield f"{path}.{key} is {now}, but was {then} in {source}"
