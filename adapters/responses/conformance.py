"""Say whether a recorded Responses stream is legal.

Here is what concerns the stream as a whole: the order of its events, their numbers, their fields.
What the events may say is in check_tables.py, what they do to an item in check_items.py.
"""

from collections.abc import Iterator

from adapters.conformance import (
    INTEGER,
    Frame,
    Object,
    Violation,
    integer_at,
    object_at,
    preview,
    shape_errors,
    split,
    text_at,
    validate,
)
from adapters.responses.conformance_output import Output
from adapters.responses.conformance_tables import ERROR_FORMS, EVENTS, SNAPSHOTS, Event

_OVER = {"completed": "over", "incomplete": "over", "failed": "over"}
_RUNNING = {"item": "running", "error": "failing", "keepalive": "running", **_OVER}
# state -> what comes -> next state. A missing key is the breach. `item` stands for all that is
# said of the output.
STREAM_ORDER: dict[str, dict[str, str]] = {
    "start": {"created": "created", "keepalive": "start"},
    "created": {**_RUNNING, "queued": "queued", "in_progress": "running", "keepalive": "created"},
    "queued": {**_RUNNING, "in_progress": "running", "keepalive": "queued"},
    # Said again in a silence, it shows that the response lives (P147).
    "running": {**_RUNNING, "in_progress": "running"},
    # Open Responses: an error is followed by response.failed.
    "failing": {"failed": "over", "keepalive": "failing"},
    "over": {"[DONE]": "closed"},
    "closed": {},
}
STREAM_BREACH = {
    "start": "the stream must begin with response.created, not {}",
    "created": "{} is out of order: the response has only been created",
    "queued": "{} is out of order: the response is queued",
    "running": "{} is out of order: the response is running",
    "failing": "only response.failed may come after an error, not {}",
    "over": "{} comes after the terminal event",
    "closed": "{} comes after [DONE]",
}
_LIFECYCLE = ("created", "queued", "in_progress", "completed", "incomplete", "failed")
_OUTSIDE_ITEMS = (*_LIFECYCLE, "error", "keepalive")


class ResponsesRules:
    """The rules of a Responses stream."""

    def __init__(self) -> None:
        self._state = "start"
        self._next_number = 0
        self._response_id: str | None = None
        self._output = Output()

    def read(self, frame: Frame, value: Object) -> Iterator[str]:
        """Judge one event."""
        yield from shape_errors(value, {"sequence_number": INTEGER})
        yield from self._judge_number(value)
        event_type = text_at(value, "type")
        if event_type is None:
            yield "type is missing or not a string"
            return
        yield from _judge_event_line(frame, event_type)
        event = EVENTS.get(event_type)
        if event is None:
            yield f"there is no event of type {preview(event_type)}"
            return
        over = self._state in ("over", "closed")
        yield from self._step(event.step if event.step in _OUTSIDE_ITEMS else "item", event_type)
        if not over:
            yield from shape_errors(value, event.fields)
            yield from self._follow(event_type, event, value)

    def done(self) -> Iterator[str]:
        """Judge `[DONE]`."""
        if self._state in ("over", "closed"):
            yield from self._step("[DONE]", "[DONE]")
        else:
            yield "[DONE] comes before a terminal event"
            self._state = "closed"

    def flush(self) -> Iterator[str]:
        """Judge the end of the file. `[DONE]` may be missing: OpenAI does not send it."""
        if self._state not in ("over", "closed"):
            yield "the stream ends without response.completed, .incomplete or .failed"

    def _step(self, step: str, event_type: str) -> Iterator[str]:
        following = STREAM_ORDER[self._state].get(step)
        if following is None:
            yield STREAM_BREACH[self._state].format(event_type)
            # Whatever came, the stream has begun and may be over: told once, not at every event.
            following = _OVER.get(step, "running" if self._state == "start" else self._state)
        self._state = following

    def _judge_number(self, value: Object) -> Iterator[str]:
        number = integer_at(value, "sequence_number")
        if number is not None and number != self._next_number:
            yield f"sequence_number is {number}, expected {self._next_number}"
        self._next_number = (self._next_number if number is None else number) + 1

    def _follow(self, event_type: str, event: Event, value: Object) -> Iterator[str]:
        if event_type in SNAPSHOTS:
            yield from self._judge_snapshot(event_type, value)
        elif event.step == "error":
            yield from _judge_error(value)
        elif event.step not in ("keepalive", "heard"):
            yield from self._output.feed(event_type, event, value)

    def _judge_snapshot(self, event_type: str, value: Object) -> Iterator[str]:
        response = object_at(value, "response") or {}
        response_id = text_at(response, "id")
        self._response_id = self._response_id or response_id
        if response_id != self._response_id and response_id:
            yield f"response.id changes from {preview(self._response_id)} to {preview(response_id)}"
        if event_type.removeprefix("response.") in _OVER:
            yield from self._output.close(event_type, response)


def _judge_event_line(frame: Frame, event_type: str) -> Iterator[str]:
    if frame.event is None:
        yield f"there is no event: line beside type {preview(event_type)}"
    elif frame.event != event_type:
        yield f"event: is {preview(frame.event)}, but type is {preview(event_type)}"


def _judge_error(value: Object) -> Iterator[str]:
    if all(any(shape_errors(value, form)) for form in ERROR_FORMS):
        yield "error has neither code, message and param nor an error object with them and type"


def check_stream(data: bytes) -> list[Violation]:
    """Say what is illegal in a recorded Responses stream; nothing, if it is legal."""
    recording = split(data)
    breaches = validate(recording, ResponsesRules())
    # Open Responses: a stream is not resumed by SSE ids, so they should not be there.
    breaches += [Violation(line, "id: lines are not used") for line in recording.id_lines]
    return sorted(breaches, key=lambda breach: breach.line)
