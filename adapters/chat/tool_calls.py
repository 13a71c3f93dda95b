"""Tells apart the calls of a Chat stream, whatever its server leaves out or repeats.

Servers differ in every way they can: no index, one index for all, no id, the id and the name on
every piece, the name late, the arguments whole and then again. The rules, and the reports behind
them:

- an index that is given wins, then an id (P097); an empty string is nothing (P101);
- another id at a known index is another call, and so is a name with arguments after arguments that
  are already complete (P098);
- arguments alone, under an index that nobody opened, go on with the latest call (P099);
- what is repeated is a repeat and not a continuation (P102): the name, the id, the whole arguments;
- a name in pieces is joined only while no argument has come, and only to a declared tool;
- a call is told only when its name is known (P104); one that never gets a name is dropped (P105).
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Raw

from adapters.chat.wire import MISSING_CALL_ID_REASON, CallDelta
from adapters.ids import IdSource
from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.normalize import (
    EMPTY_ARGUMENTS,
    EMPTY_ARGUMENTS_REASON,
    MISSING_NAME_REASON,
    UniqueCallIds,
)
from adapters.ir.types import CallKind, ExtraField, Extras, Item, Status, ToolCall
from adapters.json_text import is_complete_json
from adapters.wire.json_object import is_present, string_or_raw_json

# Opens a block for an item and gives the event that says so.
Open = Callable[[Item], Opened]


# Marks a call that came in the legacy form; no server sends this word.
LEGACY = "function_call"


class PartialCall:
    """One call, as far as it has come."""

    __slots__ = (
        "block",
        "call_id",
        "closed",
        "extras",
        "fragments",
        "is_legacy",
        "kind",
        "late",
        "name",
        "pieces",
        "told",
        "told_id",
    )

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        # All that came as its name, which may yet become the name of a declared tool.
        self.pieces = ""
        self.kind: CallKind = "function"
        # What its server wants to see again with it.
        self.extras: Extras = ()
        # They came when it had been told, and are told with its end.
        self.late = False
        self.fragments: list[str] = []
        # In the legacy form a call has no id, and nobody misses it.
        self.is_legacy = False
        # Its block and its id, once it has been told.
        self.told_id = ""
        self.block: int | None = None
        # How many of the fragments have been told.
        self.told = 0
        self.closed = False

    def arguments(self) -> str:
        """Give the arguments so far."""
        return "".join(self.fragments)

    def lacks_arguments(self) -> bool:
        """Tell whether there is nothing that could be parsed."""
        return self.kind == "function" and not self.arguments().strip()

    def is_complete(self) -> bool:
        """Tell whether nothing can follow the arguments; of raw text nobody can tell."""
        # Looked at often, joined seldom: only after a fragment that could be the last.
        last = self.fragments[-1].rstrip()[-1:] if self.fragments else ""
        return self.kind == "function" and last in ("}", "]") and is_complete_json(self.arguments())

    def end(self, block: int, status: Status = "completed") -> Closed:
        """End its block."""
        self.closed = True
        return Closed(block, status, extras=self.extras if self.late else ())

    def breaks_off(self) -> bool:
        """Tell whether the arguments are no whole JSON."""
        return self.kind == "function" and not is_complete_json(self.arguments())


class ToolCallAssembler:
    """The calls of one choice."""

    def __init__(
        self, open_block: Open, declared: frozenset[str], mint: IdSource, ids: UniqueCallIds
    ) -> None:
        self._open_block = open_block
        # Names of the declared tools; empty where nobody knows them.
        self._declared = declared
        self._mint = mint
        self._losses = ids.losses
        self._slots: list[PartialCall] = []
        self._by_index: dict[int, PartialCall] = {}
        self._ids = ids
        # The block that was opened last.
        self.last_block = -1
        # The call that the latest piece went on with, if it said nothing but arguments.
        self.continued: PartialCall | None = None

    def feed(self, deltas: Sequence[CallDelta]) -> list[Event]:
        """Take the pieces of calls that one chunk brought."""
        if len(deltas) == 1:
            return self._feed_one(deltas[0], deltas[0].index)
        events: list[Event] = []
        for position, delta in enumerate(deltas):
            # Several pieces without an index: their places tell them apart.
            index = position if delta.index is None else delta.index
            events += self._feed_one(delta, index)
        return events

    def _feed_one(self, delta: CallDelta, index: int | None) -> list[Event]:
        name, fragment = _pieces(delta)
        slot = self._find(str(delta.id or ""), name, fragment, index)
        self.continued = slot if fragment and not delta.id and not name else None
        if delta.type == "custom" or delta.custom is not None:
            slot.kind = "custom"
        slot.is_legacy = delta.type == LEGACY
        if delta.id or name:
            self._identify(slot, str(delta.id or ""), name)
        if delta.extra_content:
            self._add_extra(slot, delta.extra_content)
        if fragment:
            if slot.closed or self._is_repeat(slot, fragment):
                self._report_late(slot, fragment)
                return []
            slot.fragments.append(fragment)
        return self._emit(slot)

    def _is_repeat(self, slot: PartialCall, fragment: str) -> bool:
        """Tell whether a fragment is all of the arguments again, which were complete."""
        return (
            fragment.startswith(("{", "["))
            and slot.kind == "function"
            and bool(slot.fragments)
            and fragment.startswith(slot.fragments[0])
            and is_complete_json(fragment)
            and fragment == slot.arguments()
        )

    # Which call is meant?

    def _find(self, call_id: str, name: str, fragment: str, index: int | None) -> PartialCall:
        if index is not None:
            known = self._by_index.get(index)
            if known is None:
                known = None if name else self._named_elsewhere(call_id)
            elif (call_id or name) and not self._is_same(known, call_id, name, fragment):
                known = None
            else:
                return known
        else:
            known = self._find_without_index(call_id, name, fragment)
        return self._keep(index, known or PartialCall())

    def _named_elsewhere(self, call_id: str) -> PartialCall | None:
        """Find the call of a piece under an index that nobody opened, and without a name."""
        return self._with_id(call_id) if call_id else self._latest()

    def _find_without_index(self, call_id: str, name: str, fragment: str) -> PartialCall | None:
        latest = self._latest()
        if call_id:
            if latest is not None and not latest.call_id and not name:
                return latest
            known = self._with_id(call_id)
            same = known is not None and self._is_same(known, call_id, name, fragment)
            return known if same else None
        if name and latest is not None:
            same = latest.name in ("", name) or self._may_become(latest.pieces + name)
            return latest if same and self._is_same(latest, "", name, fragment) else None
        return latest

    def _may_become(self, pieces: str) -> bool:
        return any(declared.startswith(pieces) for declared in self._declared)

    def _keep(self, index: int | None, slot: PartialCall) -> PartialCall:
        if slot not in self._slots:
            self._slots.append(slot)
        if index is not None:
            self._by_index[index] = slot
        return slot

    def _latest(self) -> PartialCall | None:
        return self._slots[-1] if self._slots else None

    def _with_id(self, call_id: str) -> PartialCall | None:
        return next((slot for slot in self._slots if slot.call_id == call_id), None)

    def _is_same(self, slot: PartialCall, call_id: str, name: str, fragment: str) -> bool:
        """Tell whether a piece with an id or a name goes on with the call in its place."""
        if call_id and slot.call_id and call_id != slot.call_id:
            # Another id is another call, unless it has no name and this one is not whole.
            return not (name or slot.is_complete())
        if not name or not slot.name:
            return True
        if name != slot.name and (name in self._declared or is_complete_json(fragment)):
            return False
        if not slot.fragments or not slot.is_complete():
            return True
        return name == slot.name and (not fragment.strip() or fragment == slot.arguments())

    # What does the piece say of it?

    def _identify(self, slot: PartialCall, call_id: str, name: str) -> None:
        """Take an id and a name, or a piece of a name; a repeat changes nothing."""
        if call_id and not slot.call_id:
            if slot.block is None:
                slot.call_id = call_id
            else:
                self._losses.changed(f"call {slot.name}", "its id came too late to be used")
        if name and not slot.name:
            slot.name = slot.pieces = name
        elif name and name != slot.name and not slot.fragments:
            slot.pieces += name
            if slot.pieces in self._declared:
                slot.name = slot.pieces
            elif not self._may_become(slot.pieces):
                self._losses.dropped(f"call {slot.name}", f"its name was said again, as {name}")

    def _add_extra(self, slot: PartialCall, value: Raw) -> None:
        """Take what comes with a call; the first counts."""
        extras = (ExtraField("completions", "extra_content", value),)
        if not is_present(value) or slot.extras == extras:
            return
        if slot.extras or slot.closed:
            self._losses.dropped(f"call {slot.name}.extra_content", "it came too late to be used")
        else:
            slot.extras, slot.late = extras, slot.block is not None

    def _report_late(self, slot: PartialCall, fragment: str) -> None:
        if fragment.strip() and fragment != slot.arguments():
            self._losses.dropped(
                f"call {slot.name}.arguments", "more came after the arguments were complete"
            )

    # What can be told of it?

    def _emit(self, slot: PartialCall) -> list[Event]:
        """Tell what is new, once it is known whom the model calls."""
        block = slot.block
        if block is None:
            return self._emit_opening(slot) if self._is_known(slot) else []
        if slot.told == len(slot.fragments):
            return []
        slot.told = len(slot.fragments)
        return [Delta(block, "arguments", slot.fragments[-1])]

    def _is_known(self, slot: PartialCall) -> bool:
        """Tell whether the name is whole and the id will not change any more."""
        if not slot.name:
            return False
        if slot.fragments:
            return True
        return bool(slot.call_id) and self._is_whole(slot.name)

    def _is_whole(self, name: str) -> bool:
        """Tell whether a name is not just the beginning of another; with none declared, it is."""
        longer = any(one != name and one.startswith(name) for one in self._declared)
        return not self._declared or (name in self._declared and not longer)

    def _emit_opening(self, slot: PartialCall) -> list[Event]:
        events = [
            event for earlier in self._untold_before(slot) for event in self._emit_opening(earlier)
        ]
        events += self.close_complete()
        slot.told_id = self._unique(slot)
        call = ToolCall(slot.told_id, slot.name, kind=slot.kind, extras=slot.extras)
        opened = self._open_block(call)
        slot.block = self.last_block = opened.index
        slot.told = len(slot.fragments)
        events.append(opened)
        if slot.fragments:
            events.append(Delta(opened.index, "arguments", slot.arguments()))
        return events

    def _untold_before(self, slot: PartialCall) -> list[PartialCall]:
        """Give the calls that came before and wait for nothing but an id or arguments."""
        before = self._slots[: self._slots.index(slot)]
        return [one for one in before if one.block is None and one.name]

    def _unique(self, slot: PartialCall) -> str:
        """Give the call an id of its own: clients stop at two calls with one id."""
        if not slot.call_id:
            slot.call_id = self._mint.id("call_")
            if not slot.is_legacy:
                self._losses.invented(f"call {slot.name}", MISSING_CALL_ID_REASON)
        return self._ids.unique(slot.call_id, slot.name)

    def close_complete(self) -> Iterator[Event]:
        """Close, as something else begins, the calls to which nothing can be added.

        A client may run them at once. A call whose arguments could go on stays open, for some
        servers interleave.
        """
        for slot in self._slots:
            if slot.block is not None and not slot.closed and slot.is_complete():
                yield slot.end(slot.block)

    def finish(self) -> Iterator[Event]:
        """Tell, at the end, what was held back; drop what never got a name."""
        for slot in self._slots:
            if slot.block is None and slot.name:
                yield from self._emit_opening(slot)
            elif slot.block is None:
                self._losses.dropped("call", MISSING_NAME_REASON)
                slot.closed = True

    def close(self, last_block: int, *, cut: bool) -> Iterator[Event]:
        """Close what is open; of an answer that was cut off, what breaks off is incomplete."""
        for slot in self._slots:
            if slot.block is not None and not slot.closed:
                half = slot.block == last_block or slot.breaks_off()
                ended: Status = "incomplete" if cut and half else "completed"
                if slot.lacks_arguments() and ended == "completed":
                    self._losses.changed(
                        f"call {slot.name} ({slot.told_id})", EMPTY_ARGUMENTS_REASON
                    )
                    yield Delta(slot.block, "arguments", EMPTY_ARGUMENTS)
                yield slot.end(slot.block, ended)


def _pieces(delta: CallDelta) -> tuple[str, str]:
    """Give the name and the fragment of arguments that a piece carries."""
    if delta.custom is not None:
        return delta.custom.name or "", delta.custom.input or ""
    if delta.function is not None:
        return delta.function.name or "", string_or_raw_json(delta.function.arguments)
    return "", ""
