"""The check whether a Chat or legacy client can receive a backend's chunks and replies as they are.

Clients concatenate repeated values, fail at missing ids and indices, and mix up calls whose pieces
alternate. Fields that the specification does not have, and null where a field may be absent, harm
no client.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from msgspec import Raw, Struct
from msgspec.json import Decoder

from adapters.chat.tool_calls import ToolCallAssembler, name_and_fragment
from adapters.chat.wire import (
    LABEL,
    CallDelta,
    Chunk,
    ChunkChoice,
    FunctionDelta,
    MessageDelta,
    has_counts,
)
from adapters.dialect import ReplyContext, Verdict
from adapters.ir.events import Event
from adapters.ir.normalize import INCOMPLETE_USAGE_REASON
from adapters.json_text import DECODE_ERRORS, is_complete_json
from adapters.wire.json_object import is_present, string_or_raw_json

# The reason for a field that is added.
MISSING_REASON = "missing; added"

CallStyle = Literal["tools", "functions"]

# Finish reasons of choices with and without calls.
TRUNCATED_REASONS = ("length", "content_filter")
# The finish reason of a choice with calls.
CALL_REASONS: dict[CallStyle, str] = {"tools": "tool_calls", "functions": "function_call"}
_FINISH_REASONS = frozenset(("stop", *TRUNCATED_REASONS, *CALL_REASONS.values()))


def wrong_finish(reason: str) -> str:
    """Return why a finish reason is replaced."""
    if reason in _FINISH_REASONS:
        return f"{reason!r} contradicts the reply"
    return f"{reason!r} is not a finish reason of {LABEL}"


class _Output(Struct, gc=False):
    tool_call_id: str | None = None


_OUTPUTS = Decoder(list[_Output])


def find_call_ids(messages: Raw) -> frozenset[str]:
    """Return the ids of the calls with an output in the messages of a request."""
    if b"tool_call_id" in bytes(messages):
        with suppress(*DECODE_ERRORS):
            outputs = _OUTPUTS.decode(messages)
            return frozenset([one.tool_call_id for one in outputs if one.tool_call_id])
    return frozenset()


class _Choice(Struct, eq=False):
    """What has been received of one choice."""

    number: int
    began: bool = False
    finished: bool = False
    # The number of its calls.
    calls: int = 0
    # Whether the latest call is a custom call, whose end is not known before that of the choice.
    is_custom: bool = False
    # Whether the current chunk has several deltas of calls, and the arguments so far of a call that
    # began in it.
    has_more: bool = False
    latest: str | None = None


_OBJECT_TYPE = "chat.completion.chunk"
_ARGUMENTS = "delta.tool_calls[{call}].function.arguments"
_FUNCTION_CALL = "delta.function_call"
_EMPTY_CHUNK_REASON = (
    "a chunk without choices lacks required fields; its other fields are sent with the next chunk"
)
_OTHER_HEAD_REASON = "the id or the model changed within the stream; the first is used"
_NOT_A_STRING = "not a string; sent as a string"


class ChunkCheck:
    """Checks the chunks of one stream, and reports what has to be changed in them."""

    def __init__(self, context: ReplyContext, style: CallStyle) -> None:
        self._losses = context.losses
        self._style: CallStyle = style
        self._expected = context.request.choices or 1
        # The id, the model and the time of the first chunk; the ids that were added have no value.
        self._head: tuple[str | None, str | None] | None = None
        self._created: float | None = None
        self._choices: dict[int, _Choice] = {}
        # The choice and the index of the call that are being checked.
        self._number = 0
        self._call = 0
        # The ids of all calls, and of those in the history.
        self._ids = {*context.call_ids}
        # Whether a chunk that differs only in its text would have the same verdict.
        self.repeatable = False
        self._invalid = False
        # The choices with a call that its reader has not opened.
        self._unopened: set[int] = set()
        # Whether the rest of the stream is held: a call began before the end of the call before
        # it, which may still continue, or the reply is finished.
        self._holds_rest = False
        # Whether the usage was received before the end of a choice.
        self._has_early_usage = False
        # The choices that have begun.
        self.begun: tuple[int, ...] = ()

    def begin(self, chunk: Chunk, *, valid: bool) -> None:
        """Begin a chunk; `valid` is whether its fields have the specified types."""
        self.repeatable, self._invalid = True, False
        if not valid:
            self._report_chunk("stream", "fields of a wrong type are converted")
        if chunk.usage and is_present(chunk.usage) and not has_counts(chunk.usage):
            self._report_chunk("usage", INCOMPLETE_USAGE_REASON)
        if not chunk.choices:
            self.repeatable = False
            if not is_present(chunk.usage):
                self._check_empty(chunk)
                return
            if not self._are_finished():
                # It is the end of the usage only if no choice follows.
                self._has_early_usage = True
            if chunk.choices is None:
                self._report_missing("choices")
        elif self._has_early_usage:
            self._has_early_usage = False
            self._report_chunk("usage", "received before the end of the reply; moved")
        if (
            chunk.object != _OBJECT_TYPE
            or chunk.created is None
            or (chunk.created != self._created and not is_integer(chunk.created))
            or self._head != (chunk.id, chunk.model)
        ):
            self._check_head(chunk)
        self._created = chunk.created

    def _check_empty(self, chunk: Chunk) -> None:
        """Check a chunk without choices and usage, such as Azure's first one."""
        required = (chunk.id, chunk.model, chunk.object, chunk.choices)
        if None in required or not is_integer(chunk.created):
            self._report_chunk("stream", _EMPTY_CHUNK_REASON)
        elif self._head not in (None, (chunk.id, chunk.model)):
            self._report_chunk("id", _OTHER_HEAD_REASON)

    def verdict(self) -> Verdict:
        """Return the verdict on a chunk after all of it was checked."""
        if self._invalid:
            return "write"
        # A backend may send more text or another finish reason after the first one.
        if self._unopened or self._holds_rest or self._has_early_usage:
            self.repeatable = False
            return "hold"
        return "pass"

    def _report_chunk(self, path: str, reason: str) -> None:
        self._invalid, self.repeatable = True, False
        self._losses.changed(path, reason)

    def _report(self, field: str, reason: str) -> None:
        """Report what has to be changed in a field of the current choice."""
        self._report_chunk(self._path(field), reason)

    def _path(self, field: str) -> str:
        name = field.format(call=self._call)
        return f"choices[{self._number}].{name}".rstrip(".")

    def _report_missing(self, path: str) -> None:
        """Report a field that has to be added."""
        self._invalid, self.repeatable = True, False
        self._losses.invented(path, MISSING_REASON)

    def _check_head(self, chunk: Chunk) -> None:
        head = (chunk.id, chunk.model)
        if not chunk.id or not chunk.model:
            self._report_missing("model" if chunk.id else "id")
        elif chunk.object != _OBJECT_TYPE:
            self._report_chunk("object", "missing or wrong in a chunk; replaced")
        elif not is_integer(chunk.created):
            self._report_chunk("created", "missing or not an integer in a chunk; replaced")
        elif self._head is None:
            self._head = head
        elif self._head != head:
            self._report_chunk("id", _OTHER_HEAD_REASON)
        if self._head is None:
            # The client receives what the gateway has added in every chunk.
            self._head = (None, None)

    # Choices

    def check_choice(self, choice: ChunkChoice, calls: ToolCallAssembler) -> None:
        """Check one choice of a chunk before it is read."""
        state = self._choices.get(choice.index or 0)
        delta = choice.delta
        if (
            state is not None
            and choice.index is not None
            and delta is not None
            and delta.role is None
            and choice.finish_reason is None
            and not state.finished
            and not delta.tool_calls
            and delta.function_call is None
            and not isinstance(delta.content, list)
        ):
            # The usual case.
            return
        state = state or self._begin_choice(choice.index or 0)
        self._number = state.number
        if choice.index is None:
            self._report_missing(self._path("index"))
        elif not 0 <= choice.index < self._expected:
            reason = "one choice was requested; further choices are merged into it"
            self._report_chunk("choices", reason)
        if delta is None:
            self._report_missing(self._path("delta"))
            delta = choice.message or MessageDelta()
        self._check_order(delta, state)
        if isinstance(delta.content, list):
            self._report("delta.content", "the text was received as a list of parts")
        if delta.tool_calls:
            self._check_calls(delta.tool_calls, state, calls)
        if delta.function_call is not None:
            self._check_function(delta.function_call, state)
        if choice.finish_reason is not None:
            self._check_finish(choice.finish_reason, state)

    def _begin_choice(self, number: int) -> _Choice:
        self._number = number
        if len(self._choices) < number < self._expected:
            self._report("index", "begins before an earlier choice; the choices begin in order")
        state = self._choices[number] = _Choice(number)
        return state

    def _check_order(self, delta: MessageDelta, state: _Choice) -> None:
        if state.finished:
            self._report("finish_reason", "received before the end of the choice; moved")
        if delta.role is not None:
            self.repeatable = False
        if not state.began:
            state.began = True
            self.begun += (state.number,)
            if delta.role is None:
                self._report_missing(self._path("delta.role"))
            elif delta.role != "assistant":
                self._report("delta.role", "not assistant; replaced")
        elif delta.role is not None:
            self._report("delta.role", "repeated; only the first chunk has it")

    def _check_finish(self, reason: str, state: _Choice) -> None:
        self.repeatable = False
        state.finished = state.finished or bool(reason)
        if self._are_finished():
            self._holds_rest = True
        expected = CALL_REASONS[self._style] if state.calls else "stop"
        if reason != expected and reason not in TRUNCATED_REASONS:
            self._report("finish_reason", wrong_finish(reason))

    def _are_finished(self) -> bool:
        """Whether every choice has a finish reason."""
        choices = self._choices.values()
        return len(choices) >= self._expected and all(one.finished for one in choices)

    # Calls

    def _check_calls(
        self, deltas: Sequence[CallDelta], state: _Choice, calls: ToolCallAssembler
    ) -> None:
        if self._style == "functions":
            state.calls += 1
            self._report(_FUNCTION_CALL, "sent as function_call, as the client expects")
            return
        state.latest, state.has_more = None, len(deltas) > 1
        for number, delta in enumerate(deltas):
            self._call = number if delta.index is None else delta.index
            if delta.index is not None and delta.index == state.calls - 1:
                self._check_continued(delta, state)
            elif delta.index is not None and delta.index == state.calls:
                self._check_new(delta, state, calls)
            else:
                state.calls = max(state.calls, 1)
                field = "delta.tool_calls[{call}].index"
                if delta.index is None:
                    self._report_missing(self._path(field))
                else:
                    self._report(field, "not the next index, or calls are interleaved")

    def _check_continued(self, delta: CallDelta, state: _Choice) -> None:
        body = delta.custom if state.is_custom else delta.function
        is_named = body is not None and body.name is not None
        if delta.id is not None or delta.type is not None or is_named:
            reason = "the id, type or name is repeated; only the first delta has it"
            self._report("delta.tool_calls[{call}]", reason)
        elif body is None:
            self._report("delta.tool_calls[{call}]", "a delta of a call has no arguments")
        elif isinstance(body, FunctionDelta):
            if not _is_string(body):
                self._report(_ARGUMENTS, _NOT_A_STRING)
            if state.latest is not None:
                state.latest += string_or_raw_json(body.arguments)

    def _check_new(self, delta: CallDelta, state: _Choice, calls: ToolCallAssembler) -> None:
        self.repeatable = False
        if state.calls and (state.is_custom or not _is_complete(state, calls)):
            self._holds_rest = True
        state.is_custom = delta.type == "custom"
        body = delta.custom if state.is_custom else delta.function
        if isinstance(delta.id, int):
            self._report("delta.tool_calls[{call}].id", _NOT_A_STRING)
        elif not delta.id or delta.id in self._ids:
            # The reader reports the new id.
            self._invalid = True
        if delta.type not in ("function", "custom"):
            self._report("delta.tool_calls[{call}].type", "missing or unknown; replaced")
        elif body is None or not body.name:
            self._report("delta.tool_calls[{call}].function.name", "missing in the first delta")
        elif not isinstance(body, FunctionDelta):
            if body.input is None:
                self._report_missing(self._path("delta.tool_calls[{call}].custom.input"))
        elif not _is_string(body):
            self._report(_ARGUMENTS, _NOT_A_STRING)
        elif state.has_more:
            state.latest = string_or_raw_json(body.arguments)
        self._ids.add(str(delta.id))
        state.calls += 1

    def _check_function(self, body: FunctionDelta, state: _Choice) -> None:
        is_first = not state.calls
        state.calls = max(state.calls, 1)
        if self._style == "tools":
            self._report("delta.tool_calls", "sent as a tool call, as the client expects")
        elif is_first and not body.name:
            self._report(f"{_FUNCTION_CALL}.name", "missing in the first delta of the call")
        elif body.name is not None and not is_first:
            self._report(f"{_FUNCTION_CALL}.name", "repeated; only the first delta has it")
        elif not _is_string(body):
            self._report(f"{_FUNCTION_CALL}.arguments", _NOT_A_STRING)
        if is_first:
            self.repeatable = False

    def check_events(
        self, choice: ChunkChoice, events: list[Event], calls: ToolCallAssembler
    ) -> None:
        """Check one choice of a chunk after it was read as these events."""
        delta = choice.delta
        if delta is None or not (delta.tool_calls or delta.function_call):
            return
        self._unopened.discard(self._number)
        if calls.has_unopened:
            # The call is opened with a later chunk.
            self._unopened.add(self._number)
        elif calls.has_dropped or (not events and _has_fragment(delta)):
            reason = "the arguments are repeated, or received after their end"
            self._report("delta.tool_calls", reason)


def is_integer(number: float | None) -> bool:
    """Whether a number is there and has no fraction."""
    return number is not None and number == int(number)


def _is_string(body: FunctionDelta) -> bool:
    """Whether the arguments of a call are a string."""
    return bytes(body.arguments)[:1] == b'"'


def _is_complete(state: _Choice, calls: ToolCallAssembler) -> bool:
    """Whether the latest call is complete."""
    if state.latest is None:
        return calls.is_latest_complete()
    return is_complete_json(state.latest)


def _has_fragment(delta: MessageDelta) -> bool:
    """Whether a delta has a piece of a call's arguments."""
    if delta.function_call is not None:
        return bool(string_or_raw_json(delta.function_call.arguments))
    return any(name_and_fragment(call)[1] for call in delta.tool_calls or ())
