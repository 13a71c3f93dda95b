"""The check whether a Chat or legacy client can receive a backend's chunks and replies as they are.

Clients concatenate repeated values, fail at missing ids and indices, and mix up calls whose pieces
alternate. Fields that the specification does not have, and null where a field may be absent, harm
no client.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from adapters.chat.tool_calls import ToolCallAssembler, name_and_fragment
from adapters.chat.wire import CallDelta, Chunk, ChunkChoice, FunctionDelta, MessageDelta
from adapters.dialect import ReplyContext, Verdict
from adapters.ir.events import Event
from adapters.json_text import is_complete_json
from adapters.wire.json_object import is_present, string_or_raw_json

CallStyle = Literal["tools", "functions"]

# Finish reasons of choices with and without calls.
TRUNCATED_REASONS = ("length", "content_filter")
# The finish reason of a choice with calls.
CALL_REASONS: dict[CallStyle, str] = {"tools": "tool_calls", "functions": "function_call"}


class _Choice(Struct, eq=False):
    """What has been received of one choice."""

    began: bool = False
    finished: bool = False
    # The number of its calls.
    calls: int = 0
    # Whether the latest call is a custom call, whose end is not known before that of the choice.
    is_custom: bool = False
    # The arguments of a call that began in the current chunk.
    latest: str | None = None


class ChunkCheck:
    """Checks the chunks of one stream, and reports what has to be changed in them."""

    def __init__(self, context: ReplyContext, style: CallStyle) -> None:
        self._losses = context.losses
        self._style: CallStyle = style
        self._expected = context.request.choices or 1
        self._head: tuple[str | None, str | None] | None = None
        self._choices: dict[int, _Choice] = {}
        # The ids of all calls.
        self._ids: set[str] = set()
        # Whether a chunk that differs only in its text would have the same verdict.
        self.repeatable = False
        self._invalid = False
        # Whether a call was received that its reader has not opened.
        self._holds = False
        # Whether a call began before the end of the call before it, which may still continue.
        self._interleaves = False
        # The choices that have begun.
        self.begun: tuple[int, ...] = ()

    @property
    def _all_finished(self) -> bool:
        choices = self._choices.values()
        return len(choices) >= self._expected and all(choice.finished for choice in choices)

    def begin(self, chunk: Chunk, *, valid: bool) -> None:
        """Begin a chunk; `valid` is whether its fields have the specified types."""
        self.repeatable, self._invalid, self._holds = True, False, False
        if not valid:
            self._report("stream", "fields of a wrong type are converted")
        if chunk.choices is None:
            self._report("choices", "the chunk has no choices; added as an empty list")
        elif chunk.choices or is_present(chunk.usage):
            self._check_head(chunk)
        if not chunk.choices:
            self.repeatable = False

    def check_events(
        self, choice: ChunkChoice, events: list[Event], calls: ToolCallAssembler
    ) -> None:
        """Check one choice of a chunk after it was read as these events."""
        delta = choice.delta
        if delta is None or not (delta.tool_calls or delta.function_call):
            return
        if calls.has_unopened:
            # The call is opened with a later chunk.
            self._holds = True
        elif not events and _has_fragment(delta):
            self._report("tool_calls", "the arguments are repeated, or received after their end")

    def verdict(self) -> Verdict:
        """Return the verdict on a chunk after all of it was checked."""
        if self._invalid:
            return "write"
        # A backend may send more text or another finish reason after the first one.
        if self._holds or self._interleaves or self._all_finished:
            self.repeatable = False
            return "hold"
        return "pass"

    def _report(self, path: str, reason: str) -> None:
        self._invalid, self.repeatable = True, False
        self._losses.changed(path, reason)

    def _check_head(self, chunk: Chunk) -> None:
        if not chunk.id or not chunk.model:
            self._report("id" if chunk.model else "model", "missing in a chunk; added")
        elif chunk.object != "chat.completion.chunk":
            self._report("object", "missing or wrong in a chunk; replaced")
        elif chunk.created is None or chunk.created != int(chunk.created):
            self._report("created", "missing or not an integer in a chunk; replaced")
        elif self._head is None:
            self._head = (chunk.id, chunk.model)
        elif self._head != (chunk.id, chunk.model):
            self._report("id", "the id or the model changed within the stream; the first is used")
        if self._head is None:
            # The client receives what the gateway has added in every chunk.
            self._head = (None, None)

    # Choices

    def check_choice(self, choice: ChunkChoice, calls: ToolCallAssembler) -> None:
        """Check one choice of a chunk before it is read."""
        path = f"choices[{choice.index or 0}]"
        number = choice.index or 0
        known = self._choices.get(number)
        state = known or _Choice()
        self._choices[number] = state
        if choice.index is None:
            self._report(f"{path}.index", "missing; added")
        elif not 0 <= number < self._expected:
            self._report(path, "one choice was requested; further choices are merged into it")
        delta = choice.delta
        if delta is None:
            self._report(f"{path}.delta", "missing; added")
            delta = choice.message or MessageDelta()
        self._check_order(choice, delta, state, path)
        if isinstance(delta.content, list):
            self._report(f"{path}.delta.content", "the text was received as a list of parts")
        state.latest = None
        if delta.tool_calls:
            self._check_calls(delta.tool_calls, state, calls, f"{path}.delta")
        if delta.function_call is not None:
            self._check_function(delta.function_call, state, f"{path}.delta")
        if choice.finish_reason is not None:
            self._check_finish(choice.finish_reason, state, path)
        if state.began and number not in self.begun:
            self.begun += (number,)

    def _check_order(
        self, choice: ChunkChoice, delta: MessageDelta, state: _Choice, path: str
    ) -> None:
        if state.finished:
            self._report(f"{path}.finish_reason", "received before the end of the choice; moved")
        if delta.role is not None:
            self.repeatable = False
        if not state.began:
            state.began = True
            if delta.role != "assistant":
                self._report(f"{path}.delta.role", "missing in the first chunk; added")
        elif delta.role is not None:
            self._report(f"{path}.delta.role", "repeated; only the first chunk has it")
        if choice.finish_reason:
            self.repeatable = False

    def _check_finish(self, reason: str, state: _Choice, path: str) -> None:
        state.finished = bool(reason)
        expected = CALL_REASONS[self._style] if state.calls else "stop"
        if reason not in (expected, *TRUNCATED_REASONS):
            self._report(f"{path}.finish_reason", f"{reason!r} contradicts the reply")

    # Calls

    def _check_calls(
        self, deltas: Sequence[CallDelta], state: _Choice, calls: ToolCallAssembler, path: str
    ) -> None:
        if self._style == "functions":
            state.calls += 1
            self._report(f"{path}.tool_calls", "sent as function_call, as the client expects")
            return
        for number, delta in enumerate(deltas):
            at = f"{path}.tool_calls[{number if delta.index is None else delta.index}]"
            if delta.index is None:
                self._report(f"{at}.index", "missing; added")
                state.calls = max(state.calls, 1)
            elif delta.index == state.calls - 1:
                self._check_continued(delta, state, at)
            elif delta.index == state.calls:
                self._check_new(delta, state, calls, at)
            else:
                state.calls = max(state.calls, 1)
                self._report(f"{at}.index", "not the next index, or calls are interleaved")

    def _check_continued(self, delta: CallDelta, state: _Choice, at: str) -> None:
        body = delta.custom if state.is_custom else delta.function
        if delta.id is not None or delta.type is not None or (body is not None and body.name):
            self._report(at, "the id, type or name is repeated; only the first delta has it")
        elif body is None:
            self._report(at, "a delta of a call has no arguments")
        elif isinstance(body, FunctionDelta) and not bytes(body.arguments).startswith(b'"'):
            self._report(f"{at}.function.arguments", "not a string; sent as a string")
        elif state.latest is not None:
            state.latest += string_or_raw_json(getattr(body, "arguments", None))

    def _check_new(
        self, delta: CallDelta, state: _Choice, calls: ToolCallAssembler, at: str
    ) -> None:
        self.repeatable = False
        if state.calls and (state.is_custom or not self._is_complete(state, calls)):
            self._interleaves = True
        state.is_custom = delta.type == "custom"
        body = delta.custom if state.is_custom else delta.function
        if not delta.id or not isinstance(delta.id, str) or delta.id in self._ids:
            # The reader reports the new id.
            self._invalid = True
        elif delta.type not in ("function", "custom"):
            self._report(f"{at}.type", "missing or unknown; replaced")
        elif body is None or not body.name:
            self._report(f"{at}.name", "missing in the first delta of the call")
        elif isinstance(body, FunctionDelta):
            state.latest = self._check_arguments(body, f"{at}.function.arguments")
        elif body.input is None:
            self._report(f"{at}.custom.input", "missing; added")
        self._ids.add(str(delta.id))
        state.calls += 1

    def _check_arguments(self, body: FunctionDelta, at: str) -> str:
        if not bytes(body.arguments).startswith(b'"'):
            self._report(at, "not a string; sent as a string")
        return string_or_raw_json(body.arguments)

    def _is_complete(self, state: _Choice, calls: ToolCallAssembler) -> bool:
        """Whether the latest call is complete."""
        if state.latest is not None:
            return is_complete_json(state.latest)
        return calls.is_latest_complete()

    def _check_function(self, body: FunctionDelta, state: _Choice, path: str) -> None:
        at = f"{path}.function_call"
        if self._style == "tools":
            state.calls = max(state.calls, 1)
            self._report(at, "sent as a tool call, as the client expects")
        elif not state.calls:
            state.calls = 1
            self.repeatable = False
            if not body.name:
                self._report(f"{at}.name", "missing in the first delta of the call")
            else:
                self._check_arguments(body, f"{at}.arguments")
        elif body.name:
            self._report(f"{at}.name", "repeated; only the first delta has it")
        else:
            self._check_arguments(body, f"{at}.arguments")


def _has_fragment(delta: MessageDelta) -> bool:
    """Whether a delta has a piece of a call's arguments."""
    if delta.function_call is not None:
        return bool(string_or_raw_json(delta.function_call.arguments))
    return any(name_and_fragment(call)[1] for call in delta.tool_calls or ())
