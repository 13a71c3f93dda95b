"""Assembles the tool calls of a Chat stream, although servers omit or repeat their fields.

Servers omit the index or use one for all calls, send no id, send the id and the name with every
piece, send the name late, or send the complete arguments twice. The rules, with bug reports:

- An index has priority over an id. An empty string counts as missing
  (https://github.com/openai/openai-python/issues/3246,
  https://github.com/langchain-ai/langchain/issues/39335).
- A different id at a known index begins another call, and so does a name with arguments after
  complete arguments (https://github.com/ollama/ollama/issues/15457).
- Arguments without an id and a name at an unknown index continue the latest call
  (https://github.com/sgl-project/sglang/issues/6310).
- Repeated names, ids and complete arguments are ignored
  (https://github.com/vllm-project/vllm/issues/13078). If the name is repeated after complete
  arguments, other arguments after it belong to another call of the same tool.
- The id of a known call continues that call, whatever the index is.
- Pieces of a name are joined only before the arguments, and only to the name of a declared tool.
- A call is opened when its name is known (https://github.com/anomalyco/opencode/issues/24137). A
  call without a name is dropped (https://github.com/BerriAI/litellm/issues/9127).
"""

from collections.abc import Iterator, Sequence

from msgspec import Raw, Struct

from adapters.chat.wire import FAMILY, CallDelta
from adapters.ids import IdSource
from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.normalize import (
    EMPTY_ARGUMENTS,
    EMPTY_ARGUMENTS_REASON,
    MISSING_CALL_ID_REASON,
    MISSING_NAME_REASON,
    UniqueCallIds,
)
from adapters.ir.types import CallKind, ExtraField, Extras, Status, ToolCall
from adapters.json_text import JsonCompleteness, is_complete_json
from adapters.wire.json_object import is_present, string_or_raw_json

# The type of a call that was received as `function_call`; no server sends this type.
LEGACY_TYPE = "function_call"

# How complete arguments begin. Other fragments cannot be repetitions of them.
COMPLETE_ARGUMENTS_START = ("{", "[")


class PartialCall(Struct, eq=False):
    """A call, as far as it was received."""

    call_id: str = ""
    name: str = ""
    # All pieces of the name, which may add up to the name of a declared tool.
    name_pieces: str = ""
    kind: CallKind = "function"
    fragments: list[str] = []
    # The number of fragments that were emitted.
    emitted: int = 0
    # Whether the name was repeated, without arguments, after the complete arguments.
    named_again: bool = False
    extras: Extras = ()
    # Whether the extra fields were received after the call was opened; then `Closed` contains them.
    has_late_extras: bool = False
    # Legacy calls have no id.
    is_legacy: bool = False
    # Created when completeness is checked for the first time.
    completeness: JsonCompleteness | None = None
    # The block and the id in the reply; unset until the call is opened.
    block: int | None = None
    unique_id: str = ""
    closed: bool = False

    def arguments(self) -> str:
        """Return the arguments so far."""
        return "".join(self.fragments)

    def is_complete(self) -> bool:
        """Whether the arguments are complete JSON; never true for a custom call."""
        if self.kind != "function":
            return False
        if self.completeness is None:
            self.completeness = JsonCompleteness(self.fragments)
        return self.completeness.is_complete()

    def is_truncated(self) -> bool:
        """Whether the arguments are not complete JSON; never true for a custom call."""
        return self.kind == "function" and not is_complete_json(self.arguments())

    def is_repetition(self, fragment: str) -> bool:
        """Whether a fragment repeats the complete arguments."""
        return (
            fragment.startswith(COMPLETE_ARGUMENTS_START)
            and self.kind == "function"
            and bool(self.fragments)
            and fragment.startswith(self.fragments[0])
            and is_complete_json(fragment)
            and fragment == self.arguments()
        )

    def close(self, block: int, status: Status = "completed") -> Closed:
        """Close the block of this call."""
        self.closed = True
        return Closed(block, status, extras=self.extras if self.has_late_extras else ())


class ToolCallAssembler:
    """Assembles the calls of one choice."""

    def __init__(
        self,
        choice: int,
        blocks: Iterator[int],
        declared: frozenset[str],
        ids: IdSource,
        unique: UniqueCallIds,
    ) -> None:
        self._choice = choice
        # The ids of new blocks, which all choices share.
        self._blocks = blocks
        # Names of the declared tools; empty if they are not known.
        self._declared = declared
        self._ids = ids
        self._unique = unique
        self._losses = unique.losses
        self._calls: list[PartialCall] = []
        # The number of calls that were opened.
        self._opened = 0
        self._by_index: dict[int, PartialCall] = {}
        # The block of the latest call.
        self.last_block = -1
        # The call that the latest delta continued; None if the delta had an id or a name.
        self.continued: PartialCall | None = None
        # Whether arguments in the latest chunk were repeated, or received after their end.
        self.has_dropped = False

    @property
    def has_unopened(self) -> bool:
        """Whether a call was received that is not opened yet."""
        return len(self._calls) > self._opened

    def is_latest_complete(self) -> bool:
        """Whether the latest call, if there is one, has complete arguments."""
        latest = self._latest()
        return latest is None or latest.is_complete()

    def feed(self, deltas: Sequence[CallDelta]) -> list[Event]:
        """Read the deltas of one chunk."""
        self.has_dropped = False
        events: list[Event] = []
        for position, delta in enumerate(deltas):
            # Several deltas without an index belong to different calls.
            use_position = delta.index is None and len(deltas) > 1
            events += self._feed_one(delta, position if use_position else delta.index)
        return events

    def _feed_one(self, delta: CallDelta, index: int | None) -> list[Event]:
        name, fragment = name_and_fragment(delta)
        call_id = "" if delta.id is None else str(delta.id)
        call = self._find(call_id, name, fragment, index)
        if call.named_again and fragment.strip() and not call.is_repetition(fragment):
            name = name or call.name
            call = self._add(PartialCall(), index)
        elif name and call.fragments and not fragment.strip():
            call.named_again = name == call.name and call.is_complete()
        self.continued = call if fragment and not call_id and not name else None
        if delta.type == "custom" or delta.custom is not None:
            call.kind = "custom"
        call.is_legacy = delta.type == LEGACY_TYPE
        if call_id or name:
            self._set_identity(call, call_id, name)
        if delta.extra_content:
            self._add_extra(call, delta.extra_content)
        if fragment:
            if call.closed or call.is_repetition(fragment):
                if fragment.strip() and fragment != call.arguments():
                    reason = "received after the end of the arguments"
                    self._losses.dropped(f"{self._path(call)}.arguments", reason)
                self.has_dropped = True
                return []
            call.fragments.append(fragment)
        events = self._emit(call)
        block = call.block
        if block is not None and block < self.last_block and not call.closed and call.is_complete():
            # Later calls wait for the end of this one.
            events.append(call.close(block))
        return events

    # The call of a delta

    def _find(self, call_id: str, name: str, fragment: str, index: int | None) -> PartialCall:
        if index is None:
            known = self._find_without_index(call_id, name, fragment)
        else:
            known = self._by_index.get(index)
            if known is None:
                if not name:
                    known = self._with_id(call_id) if call_id else self._latest()
            elif call_id or name:
                known = self._continued_call(known, call_id, name, fragment)
            else:
                return known
        return self._add(known or PartialCall(), index)

    def _add(self, call: PartialCall, index: int | None) -> PartialCall:
        """Add a call, if it is new, and its latest index."""
        if call not in self._calls:
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def _continued_call(
        self, at_index: PartialCall, call_id: str, name: str, fragment: str
    ) -> PartialCall | None:
        """Return the call that a delta continues: the one with its id, or the one at its index.

        Return None if the delta begins another call.
        """
        with_id = self._with_id(call_id) if call_id else None
        for call in (with_id, at_index):
            if call is not None and self._is_same(call, call_id, name, fragment):
                return call
        return None

    def _find_without_index(self, call_id: str, name: str, fragment: str) -> PartialCall | None:
        latest = self._latest()
        if call_id:
            if latest is not None and not latest.call_id and not name:
                return latest
            known = self._with_id(call_id)
            same = known is not None and self._is_same(known, call_id, name, fragment)
            return known if same else None
        if name and latest is not None:
            same = latest.name in ("", name) or self._is_name_prefix(latest.name_pieces + name)
            return latest if same and self._is_same(latest, "", name, fragment) else None
        return latest

    def _is_name_prefix(self, pieces: str) -> bool:
        return any(declared.startswith(pieces) for declared in self._declared)

    def _latest(self) -> PartialCall | None:
        return self._calls[-1] if self._calls else None

    def _with_id(self, call_id: str) -> PartialCall | None:
        return next((call for call in self._calls if call.call_id == call_id), None)

    def _is_same(self, call: PartialCall, call_id: str, name: str, fragment: str) -> bool:
        """Whether a delta with an id or a name continues the call at its index."""
        if call_id and call.call_id and call_id != call.call_id:
            # A different id begins another call, unless it has no name and the call is incomplete.
            return not (name or call.is_complete())
        if not name or not call.name or self._completes_name(call, name):
            return True
        if name != call.name and (name in self._declared or is_complete_json(fragment)):
            return False
        if not call.fragments or not call.is_complete():
            return True
        return name == call.name and (not fragment.strip() or fragment == call.arguments())

    def _completes_name(self, call: PartialCall, name: str) -> bool:
        """Whether a name is the rest of that of a declared tool."""
        declared = self._declared
        is_known = call.name in declared and name in declared
        return not call.fragments and not is_known and call.name_pieces + name in declared

    def _path(self, call: PartialCall) -> str:
        """Return the path of a call in the complete reply."""
        message = f"choices[{self._choice}].message"
        if call.is_legacy:
            return f"{message}.function_call"
        return f"{message}.tool_calls[{self._calls.index(call)}]"

    # The identity and the extra fields of a call

    def _set_identity(self, call: PartialCall, call_id: str, name: str) -> None:
        """Set the id and the name, or add a piece of the name; ignore repetitions."""
        if call_id and not call.call_id:
            if call.block is None:
                call.call_id = call_id
            else:
                reason = "the id was received after the start of the call; it keeps another one"
                self._losses.changed(self._path(call), reason)
        if name and not call.name:
            call.name = call.name_pieces = name
        elif name and name != call.name and not call.fragments:
            call.name_pieces += name
            if call.name_pieces in self._declared:
                call.name = call.name_pieces
            elif not self._is_name_prefix(call.name_pieces):
                self._losses.dropped(self._path(call), f"a second name was received: {name}")

    def _add_extra(self, call: PartialCall, value: Raw) -> None:
        """Set the extra content of a call; report a second one."""
        extras = (ExtraField(FAMILY, "extra_content", value),)
        if not is_present(value) or call.extras == extras:
            return
        if call.extras or call.closed:
            reason = "received after the start of the call"
            self._losses.dropped(f"{self._path(call)}.extra_content", reason)
        else:
            call.extras, call.has_late_extras = extras, call.block is not None

    # Events

    def _emit(self, call: PartialCall) -> list[Event]:
        """Return the events for the parts of a call that were not emitted yet."""
        block = call.block
        if block is None:
            return self._open_until(call) if self._is_identified(call) else []
        if call.emitted == len(call.fragments):
            return []
        call.emitted = len(call.fragments)
        return [Delta(block, "arguments", call.fragments[-1])]

    def _is_identified(self, call: PartialCall) -> bool:
        """Whether the name and the id of a call are final."""
        name, declared = call.name, self._declared
        if not name or call.fragments:
            return bool(name)
        if not call.call_id or (declared and name not in declared):
            return False
        return not self._may_grow(call)

    def _may_grow(self, call: PartialCall) -> bool:
        """Whether the name of a call may still become a longer declared name."""
        name = call.name
        return not call.fragments and any(
            declared != name and declared.startswith(name) for declared in self._declared
        )

    def _open_until(self, call: PartialCall) -> list[Event]:
        """Open a call, after those before it and before those that waited for it."""
        events: list[Event] = []
        place = self._calls.index(call)
        for number, other in enumerate(self._calls):
            if other.block is not None or not other.name:
                continue
            if self._may_grow(other) or (number > place and not self._is_identified(other)):
                break
            events += self._emit_opening(other)
        return events

    def _emit_opening(self, call: PartialCall) -> list[Event]:
        events: list[Event] = list(self.close_complete())
        if not call.call_id:
            call.call_id = self._ids.id("call_")
            if not call.is_legacy:
                self._losses.invented(self._path(call), MISSING_CALL_ID_REASON)
        call.unique_id = self._unique.unique(call.call_id, call.name, self._path(call))
        call.block = self.last_block = block = next(self._blocks)
        self._opened += 1
        call.emitted = len(call.fragments)
        item = ToolCall(
            call.unique_id, call.name, kind=call.kind, extras=call.extras, path=self._path(call)
        )
        events.append(Opened(block, item, self._choice))
        if call.fragments:
            events.append(Delta(block, "arguments", call.arguments()))
        return events

    def close_complete(self) -> Iterator[Event]:
        """Close the calls with complete arguments, so that a client can run them at once.

        Other calls stay open, because some servers interleave calls; each is closed as soon as its
        arguments are complete.
        """
        for call in self._calls:
            if call.block is not None and not call.closed and call.is_complete():
                yield call.close(call.block)

    def open_remaining(self) -> Iterator[Event]:
        """Open the remaining calls at the end of the stream; drop calls without a name."""
        for call in self._calls:
            if call.block is None and call.name:
                yield from self._emit_opening(call)
            elif call.block is None:
                self._losses.dropped(self._path(call), MISSING_NAME_REASON, "capability")
                call.closed = True

    def close(self, last_block: int, *, truncated: bool) -> Iterator[Event]:
        """Close all calls; in a truncated reply, the last and the truncated ones are incomplete."""
        for call in self._calls:
            if call.block is None or call.closed:
                continue
            incomplete = truncated and (call.block == last_block or call.is_truncated())
            if call.kind == "function" and not incomplete and not call.arguments().strip():
                self._losses.changed(self._path(call), EMPTY_ARGUMENTS_REASON)
                yield Delta(call.block, "arguments", EMPTY_ARGUMENTS)
            yield call.close(call.block, "incomplete" if incomplete else "completed")


def name_and_fragment(delta: CallDelta) -> tuple[str, str]:
    """Return the name and the fragment of arguments in a delta."""
    if delta.custom is not None:
        return delta.custom.name or "", delta.custom.input or ""
    if delta.function is not None:
        return delta.function.name or "", string_or_raw_json(delta.function.arguments)
    return "", ""
