"""Rules to check a recorded stream of Chat Completions.

Tables contain the fields of a chunk, the order of chunks and the order of deltas within a choice.
A legacy stream differs only in its calls: `ToolCalls` are Chat's, `FunctionCall` is legacy.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from adapters.conformance import (
    FILLED,
    INTEGER,
    OBJECT,
    STRING,
    Fields,
    Frame,
    Object,
    Violation,
    integer_at,
    list_of,
    nullable,
    object_at,
    object_of,
    objects_at,
    one_of,
    optional,
    preview,
    shape_errors,
    split,
    text_at,
    validate,
)

USAGE: Fields = {"prompt_tokens": INTEGER, "completion_tokens": INTEGER, "total_tokens": INTEGER}
CALL_TYPES = ("function", "custom")
FUNCTION_BODY = object_of({"name": optional(FILLED), "arguments": optional(STRING)})
TOOL_CALL: Fields = {
    "index": INTEGER,
    "id": optional(FILLED),
    "type": optional(one_of(*CALL_TYPES)),
    "function": optional(FUNCTION_BODY),
    "custom": optional(object_of({"name": optional(FILLED), "input": optional(STRING)})),
}
DELTA: Fields = {
    "role": optional(one_of("assistant")),
    "content": optional(nullable(STRING)),
    "refusal": optional(nullable(STRING)),
}
CHUNK: Fields = {
    "id": FILLED,
    "object": one_of("chat.completion.chunk"),
    "created": INTEGER,
    "model": FILLED,
    "usage": optional(nullable(object_of(USAGE))),
    "system_fingerprint": optional(nullable(STRING)),
    "service_tier": optional(nullable(STRING)),
}
ERROR: Fields = {
    "message": STRING,
    "type": STRING,
    "param": optional(nullable(STRING)),
    "code": optional(nullable(STRING)),
}

# state -> event -> next state. An event that the state does not have is a violation.
STREAM_ORDER = {
    "open": {"chunk": "open", "usage": "counted", "error": "failed", "[DONE]": "ended"},
    "counted": {"error": "failed", "[DONE]": "ended"},
    "failed": {"[DONE]": "ended"},
    "ended": {},
}
STREAM_VIOLATIONS = {
    "counted": "only [DONE] may come after the usage chunk",
    "failed": "only [DONE] may come after an error",
    "ended": "nothing may come after [DONE]",
}
# The openai package for Python concatenates repeated roles ("assistantassistant"), the one for
# JavaScript needs the role first.
CHOICE_ORDER = {
    "new": {"role": "started"},
    "started": {"delta": "started", "finish": "finished"},
    "finished": {},
}
CHOICE_VIOLATIONS = {
    "new": "the first delta has no role",
    "started": "the role is repeated",
    "finished": "only usage may come after finish_reason",
}
FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter", "function_call")


class Calls(ABC):
    """The calls of one choice, with the rules in which Chat and legacy streams differ."""

    # The fields of a delta that contain calls in this dialect, and in the other one.
    fields: ClassVar[Fields]
    foreign_field: ClassVar[str]
    # The finish_reason of a choice with calls.
    finish_reason: ClassVar[str]

    def __init__(self) -> None:
        self.called = False

    @abstractmethod
    def feed(self, delta: Object) -> Iterator[str]:
        """Check the calls in a delta."""


class ToolCalls(Calls):
    """The `tool_calls` of one choice: consecutive indices, one call at a time, one name each."""

    fields: ClassVar[Fields] = {"tool_calls": optional(list_of(object_of(TOOL_CALL)))}
    foreign_field = "function_call"
    finish_reason = "tool_calls"

    def __init__(self) -> None:
        super().__init__()
        self._ids: set[str] = set()
        self._types: list[str | None] = []

    def feed(self, delta: Object) -> Iterator[str]:
        """Check each entry of `tool_calls`."""
        for entry in objects_at(delta, "tool_calls"):
            self.called = True
            index = integer_at(entry, "index")
            if index is not None:
                yield from self._check_entry(index, entry)

    def _check_entry(self, index: int, entry: Object) -> Iterator[str]:
        expected = len(self._types)
        if index >= expected or index < 0:
            if index != expected:
                yield f"tool_calls index is {index}, expected {expected}"
            yield from self._check_first(index, entry)
        elif index < expected - 1:
            # The openai package for JavaScript closes a call when the next one begins.
            yield f"tool call {index} continues after tool call {expected - 1} has started"
        else:
            yield from self._check_further(index, entry)

    def _check_first(self, index: int, entry: Object) -> Iterator[str]:
        kind, call_id = text_at(entry, "type"), text_at(entry, "id")
        self._types.append(kind if kind in CALL_TYPES else None)
        for key in ("id", "type"):
            if key not in entry:
                yield f"the first delta of tool call {index} has no {key}"
        if call_id in self._ids:
            yield f"two tool calls have the id {preview(call_id)}"
        if call_id:
            self._ids.add(call_id)
        body = self._body(entry)
        if body is not None and "name" not in body:
            yield f"the first delta of tool call {index} has no name"
        yield from self._check_body(index, entry)

    def _check_further(self, index: int, entry: Object) -> Iterator[str]:
        keys = {*entry, *(self._body(entry) or {})}
        for key in ("id", "type", "name"):
            if key in keys:
                yield f"tool call {index} repeats its {key}; clients concatenate repeated values"
        yield from self._check_body(index, entry)

    def _body(self, entry: Object) -> Object | None:
        """Return the `function` or `custom` object of the latest call."""
        kind = self._types[-1]
        return object_at(entry, kind) if kind else None

    def _check_body(self, index: int, entry: Object) -> Iterator[str]:
        kind = self._types[-1]
        if kind and kind not in entry:
            yield f"tool call {index} has type {kind}, but its delta has no {kind} object"


class FunctionCall(Calls):
    """The one `function_call` of a choice in a legacy stream: only its first delta has a name."""

    fields: ClassVar[Fields] = {"function_call": optional(FUNCTION_BODY)}
    foreign_field = "tool_calls"
    finish_reason = "function_call"

    def feed(self, delta: Object) -> Iterator[str]:
        """Check `function_call`, if the delta has one."""
        call = object_at(delta, "function_call")
        if call is None:
            return
        if self.called and "name" in call:
            yield "function_call repeats its name; clients concatenate repeated values"
        if not self.called and "name" not in call:
            yield "the first delta of function_call has no name"
        self.called = True


class Choice:
    """One choice of the stream."""

    def __init__(self, index: int, calls: Calls) -> None:
        self.state = "new"
        self._index = index
        self._calls = calls

    def feed(self, choice: Object) -> Iterator[str]:
        """Check a delta of this choice, and the finish_reason beside it."""
        delta = object_at(choice, "delta") or {}
        yield from self._step("delta" if delta.get("role") is None else "role")
        if self._calls.foreign_field in delta:
            yield f"delta.{self._calls.foreign_field} does not exist in this dialect"
        yield from self._calls.feed(delta)
        finish = text_at(choice, "finish_reason")
        if finish is not None and self.state != "finished":
            yield from self._step("finish")
            yield from self._check_finish(finish)

    def _step(self, step: str) -> Iterator[str]:
        following = CHOICE_ORDER[self.state].get(step)
        if following is None:
            yield f"choice {self._index}: {CHOICE_VIOLATIONS[self.state]}"
        # After a missing role, the choice counts as started, so that it is reported only once.
        self.state = following or ("started" if self.state == "new" else self.state)

    def _check_finish(self, finish: str) -> Iterator[str]:
        expected = self._calls.finish_reason if self._calls.called else "stop"
        if finish not in FINISH_REASONS:
            yield f"choice {self._index}: unknown finish_reason {preview(finish)}"
        elif finish not in (expected, "length", "content_filter"):
            streamed = "calls were" if self._calls.called else "no call was"
            error = f"finish_reason is {preview(finish)}, but {streamed} streamed"
            yield f"choice {self._index}: {error}"


class ChatRules:
    """The rules of a Chat stream, or of a legacy one, depending on the rules of its calls."""

    def __init__(self, calls: type[Calls]) -> None:
        self._calls = calls
        choice: Fields = {
            "index": INTEGER,
            "delta": object_of({**DELTA, **calls.fields}),
            "finish_reason": nullable(STRING),
            "logprobs": optional(nullable(OBJECT)),
        }
        self._chunk: Fields = {**CHUNK, "choices": list_of(object_of(choice))}
        self._state = "open"
        self._constants: Object = {}
        self._changed: set[str] = set()
        self._choices: dict[int, Choice] = {}

    def read(self, frame: Frame, value: Object) -> Iterator[str]:
        """Check one chunk."""
        if frame.event is not None:
            yield f"event: lines are not allowed in a chat stream, found {preview(frame.event)}"
        if value.get("error") is not None:
            yield from self._step("error")
            yield from shape_errors(value, {"error": object_of(ERROR)})
            return
        is_usage = value.get("choices") == [] and value.get("usage") is not None
        yield from self._step("usage" if is_usage else "chunk")
        yield from shape_errors(value, self._chunk)
        yield from self._check_constants(value)
        yield from self._check_usage(value)
        for choice in objects_at(value, "choices"):
            yield from self._feed_choice(choice)

    def done(self) -> Iterator[str]:
        """Check `[DONE]`: every choice must be finished, unless an error ended the stream."""
        if self._state in ("open", "counted"):
            if not self._choices:
                yield "[DONE] comes before any choice"
            yield from self._unfinished()
        yield from self._step("[DONE]")

    def flush(self) -> Iterator[str]:
        """Check the end of the file."""
        if self._state in ("open", "counted"):
            yield from self._unfinished()
        if self._state != "ended":
            yield "the stream ends without [DONE]"

    def _step(self, step: str) -> Iterator[str]:
        following = STREAM_ORDER[self._state].get(step)
        if following is None:
            yield STREAM_VIOLATIONS[self._state]
        self._state = following or self._state

    def _unfinished(self) -> Iterator[str]:
        for index, choice in self._choices.items():
            if choice.state != "finished":
                yield f"choice {index} has no finish_reason"

    def _check_constants(self, chunk: Object) -> Iterator[str]:
        for key in ("id", "created", "model"):
            value = chunk.get(key)
            first = self._constants.setdefault(key, value) if value else value
            # Report a changed field only once, not again for every later chunk.
            if value != first and key not in self._changed:
                self._changed.add(key)
                yield f"{key} changes from {preview(first)} to {preview(value)}"

    def _check_usage(self, chunk: Object) -> Iterator[str]:
        if chunk.get("choices") == [] and chunk.get("usage") is None:
            yield "a chunk without choices must contain usage"
        if chunk.get("choices") and chunk.get("usage") is not None:
            yield "usage must be in a chunk with empty choices"

    def _feed_choice(self, choice: Object) -> Iterator[str]:
        index = integer_at(choice, "index")
        if index is not None:
            if index not in self._choices:
                self._choices[index] = Choice(index, self._calls())
            yield from self._choices[index].feed(choice)


def check_stream(data: bytes) -> list[Violation]:
    """Return the violations in a recorded Chat Completions stream."""
    return validate(split(data), ChatRules(ToolCalls))


def check_legacy_stream(data: bytes) -> list[Violation]:
    """Return the violations in a recorded legacy stream."""
    return validate(split(data), ChatRules(FunctionCall))
