"""Say whether a recorded Chat Completions stream is legal.

The chunk's shape is one table, the order of chunks another, the order of deltas within a choice a
third; a step that a table does not have is the breach. The legacy dialect is the same stream with
another way of calling, so what differs between the two is handed in as a `Form`.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

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
TOOL_CALL: Fields = {
    "index": INTEGER,
    "id": optional(FILLED),
    "type": optional(one_of(*CALL_TYPES)),
    "function": optional(
        object_of({"name": optional(FILLED), "arguments": optional(STRING)}),
    ),
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
CONSTANT = ("id", "created", "model")

# state -> what comes -> next state. A missing key is the breach.
STREAM_ORDER = {
    "open": {"chunk": "open", "usage": "counted", "error": "failed", "[DONE]": "ended"},
    "counted": {"error": "failed", "[DONE]": "ended"},
    "failed": {"[DONE]": "ended"},
    "ended": {},
}
STREAM_BREACH = {
    "counted": "only [DONE] may come after the usage chunk",
    "failed": "only [DONE] may come after an error",
    "ended": "nothing may come after [DONE]",
}
# The Python helper joins repeated roles to "assistantassistant", the JavaScript one needs the
# role before anything else.
CHOICE_ORDER = {
    "new": {"role": "speaking"},
    "speaking": {"delta": "speaking", "finish": "finished"},
    "finished": {},
}
CHOICE_BREACH = {
    "new": "the first delta has no role",
    "speaking": "the role comes a second time",
    "finished": "only usage may come after finish_reason",
}
FINISH_WORDS = ("stop", "length", "tool_calls", "content_filter", "function_call")


class Calls(Protocol):
    """The calls that one choice makes, in the form of one dialect."""

    called: bool

    def feed(self, delta: Object) -> Iterator[str]:
        """Judge what a delta says of calls."""
        ...


class Form(msgspec.Struct, frozen=True):
    """How a dialect calls."""

    calls: Callable[[], Calls]
    delta: Fields
    foreign: str
    """The delta field that belongs to the other dialect."""
    finish: str
    """The finish_reason of a turn that calls."""


class ToolCalls:
    """The `tool_calls` of one choice: dense indices, one call at a time, named once."""

    def __init__(self) -> None:
        self.called = False
        self._ids: set[str] = set()
        self._types: list[str | None] = []

    def feed(self, delta: Object) -> Iterator[str]:
        """Judge each entry of `tool_calls`."""
        for entry in objects_at(delta, "tool_calls"):
            self.called = True
            index = integer_at(entry, "index")
            if index is not None:
                yield from self._entry(index, entry)

    def _entry(self, index: int, entry: Object) -> Iterator[str]:
        expected = len(self._types)
        if index >= expected or index < 0:
            if index != expected:
                yield f"tool_calls index {index} leaves a gap: the next call is {expected}"
            yield from self._first(index, entry)
        elif index < expected - 1:
            # openai-node closes a call when the next one begins and then throws.
            yield f"tool call {index} goes on after call {expected - 1} has begun"
        else:
            yield from self._further(index, entry)

    def _first(self, index: int, entry: Object) -> Iterator[str]:
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
        yield from self._judge_body(index, entry)

    def _further(self, index: int, entry: Object) -> Iterator[str]:
        said = {*entry, *(self._body(entry) or {})}
        for key in ("id", "type", "name"):
            if key in said:
                yield f"tool call {index} repeats its {key}: clients join repeats"
        yield from self._judge_body(index, entry)

    def _body(self, entry: Object) -> Object | None:
        """Return the object that is named after the type of the latest call."""
        kind = self._types[-1]
        return object_at(entry, kind) if kind else None

    def _judge_body(self, index: int, entry: Object) -> Iterator[str]:
        kind = self._types[-1]
        if kind and kind not in entry:
            yield f"tool call {index} is of type {kind} but its delta has no {kind} object"


class Choice:
    """One choice of the stream."""

    def __init__(self, index: int, form: Form) -> None:
        self.state = "new"
        self._index = index
        self._form = form
        self._calls = form.calls()

    def feed(self, choice: Object) -> Iterator[str]:
        """Judge the next delta of this choice, and its finish_reason."""
        delta = object_at(choice, "delta") or {}
        yield from self._step("delta" if delta.get("role") is None else "role")
        if self._form.foreign in delta:
            yield f"delta.{self._form.foreign} does not exist in this dialect"
        yield from self._calls.feed(delta)
        finish = text_at(choice, "finish_reason")
        if finish is not None and self.state != "finished":
            yield from self._step("finish")
            yield from self._judge_finish(finish)

    def _step(self, step: str) -> Iterator[str]:
        following = CHOICE_ORDER[self.state].get(step)
        if following is None:
            yield f"choice {self._index}: {CHOICE_BREACH[self.state]}"
        # A choice that began without its role is taken to have begun: the breach is told once.
        self.state = following or ("speaking" if self.state == "new" else self.state)

    def _judge_finish(self, finish: str) -> Iterator[str]:
        own = self._form.finish if self._calls.called else "stop"
        if finish not in FINISH_WORDS:
            yield f"choice {self._index}: finish_reason {preview(finish)} is not a known word"
        elif finish not in (own, "length", "content_filter"):
            streamed = "calls were" if self._calls.called else "no call was"
            what = f"finish_reason is {preview(finish)} but {streamed} streamed"
            yield f"choice {self._index}: {what}"


class ChatRules:
    """The rules of a chat stream, in one form of calling or the other."""

    def __init__(self, form: Form) -> None:
        self._form = form
        choice: Fields = {
            "index": INTEGER,
            "delta": object_of({**DELTA, **form.delta}),
            "finish_reason": nullable(STRING),
            "logprobs": optional(nullable(OBJECT)),
        }
        self._chunk: Fields = {**CHUNK, "choices": list_of(object_of(choice))}
        self._state = "open"
        self._constants: Object = {}
        self._changed: set[str] = set()
        self._choices: dict[int, Choice] = {}

    def read(self, frame: Frame, value: Object) -> Iterator[str]:
        """Judge one chunk."""
        if frame.event is not None:
            yield f"a chat stream has no event: lines, but here is {preview(frame.event)}"
        if value.get("error") is not None:
            yield from self._step("error")
            yield from shape_errors(value, {"error": object_of(ERROR)})
            return
        counts = value.get("choices") == [] and value.get("usage") is not None
        yield from self._step("usage" if counts else "chunk")
        yield from shape_errors(value, self._chunk)
        yield from self._judge_constants(value)
        yield from self._judge_usage(value)
        for choice in objects_at(value, "choices"):
            yield from self._feed_choice(choice)

    def done(self) -> Iterator[str]:
        """Judge `[DONE]`: every choice must have finished, unless an error ended the stream."""
        if self._state in ("open", "counted"):
            if not self._choices:
                yield "[DONE] comes before any choice"
            yield from self._unfinished()
        yield from self._step("[DONE]")

    def flush(self) -> Iterator[str]:
        """Judge the end of the file."""
        if self._state in ("open", "counted"):
            yield from self._unfinished()
        if self._state != "ended":
            yield "the stream ends without [DONE]"

    def _step(self, step: str) -> Iterator[str]:
        following = STREAM_ORDER[self._state].get(step)
        if following is None:
            yield STREAM_BREACH[self._state]
        self._state = following or self._state

    def _unfinished(self) -> Iterator[str]:
        for index, choice in self._choices.items():
            if choice.state != "finished":
                yield f"choice {index} has no finish_reason"

    def _judge_constants(self, chunk: Object) -> Iterator[str]:
        for key in CONSTANT:
            now = chunk.get(key)
            first = self._constants.setdefault(key, now) if now else now
            # Told once: a clock that ticks would be told at every chunk that follows.
            if now != first and key not in self._changed:
                self._changed.add(key)
                yield f"{key} changes from {preview(first)} to {preview(now)}"

    def _judge_usage(self, chunk: Object) -> Iterator[str]:
        if chunk.get("choices") == [] and chunk.get("usage") is None:
            yield "a chunk without choices carries no usage"
        if chunk.get("choices") and chunk.get("usage") is not None:
            yield "usage comes in a chunk with choices: its chunk has choices []"

    def _feed_choice(self, choice: Object) -> Iterator[str]:
        index = integer_at(choice, "index")
        if index is not None:
            if index not in self._choices:
                self._choices[index] = Choice(index, self._form)
            yield from self._choices[index].feed(choice)


FORM = Form(
    calls=ToolCalls,
    delta={"tool_calls": optional(list_of(object_of(TOOL_CALL)))},
    foreign="function_call",
    finish="tool_calls",
)


def check_stream(data: bytes) -> list[Violation]:
    """Say what is illegal in a recorded Chat Completions stream; nothing, if it is legal."""
    return validate(split(data), ChatRules(FORM))
