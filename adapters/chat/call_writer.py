"""Writes the calls of a Chat stream one after the other.

Blocks may overlap in the hub, but the helper of the openai package for JavaScript breaks on calls
whose pieces alternate. So a later call waits until the earlier one is done: closed, or with
arguments to which nothing can be added.
"""

from msgspec.structs import replace

from adapters.chat.frames import Frames, Wire
from adapters.chat.wire import CALL_FIELDS, call_body
from adapters.ir.events import Delta
from adapters.ir.items import call_path
from adapters.ir.types import Extras, ToolCall
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.template import PLACEHOLDER, FrameTemplate
from adapters.wire.extra_fields import ExtrasWriter


class CallStream:
    """One call on its way out."""

    __slots__ = ("call", "closed", "fragments", "held", "number", "template")

    def __init__(self, call: ToolCall, number: int) -> None:
        self.call = call
        # Its place among the calls of its choice.
        self.number = number
        # What came of its arguments, and what of that still waits.
        self.fragments: list[str] = []
        self.held: list[str] = []
        self.closed = False
        # The frame of its deltas, once it has begun.
        self.template: FrameTemplate | None = None

    def is_done(self) -> bool:
        """Tell whether the next call may begin."""
        if self.closed or self.call.kind == "custom":
            # Of raw text nobody can tell whether it goes on.
            return self.closed
        last = self.fragments[-1].rstrip()[-1:] if self.fragments else ""
        return last in ("}", "]") and is_complete_json("".join(self.fragments))


class CallsWriter:
    """The calls of one choice."""

    def __init__(self, frames: Frames, choice: int, losses: Losses) -> None:
        self._frames = frames
        self._choice = choice
        self._losses = losses
        self._carrier = ExtrasWriter("completions", "Chat Completions", losses)
        self._lanes: list[CallStream] = []
        # How many of the lanes have begun.
        self._begun = 0

    def open(self, call: ToolCall) -> tuple[CallStream, list[bytes]]:
        """Take a new call; begin it, if it need not wait."""
        lane = CallStream(call, len(self._lanes))
        self._lanes.append(lane)
        return lane, self._advance()

    def fill(self, lane: CallStream, delta: Delta) -> list[bytes]:
        """Take more of a call's arguments."""
        if not delta.text:
            return []
        if lane.number < self._begun - 1 and delta.text.isspace():
            # Space behind arguments that are whole, while the next call is under way.
            return []
        lane.fragments.append(delta.text)
        if lane.template is None:
            lane.held.append(delta.text)
            return []
        written = [lane.template.fill(delta.text)]
        return written + self._advance() if self._begun < len(self._lanes) else written

    def close(self, lane: CallStream, extras: Extras) -> list[bytes]:
        """Learn that a call has ended, and what comes with its end."""
        lane.closed = True
        written = self._add(lane, extras) if extras else []
        return written + self._advance()

    def _add(self, lane: CallStream, extras: Extras) -> list[bytes]:
        """Write what comes with a call that has begun, unless another began behind it."""
        if lane.template is None:
            lane.call = replace(lane.call, extras=lane.call.extras + extras)
            return []
        if lane.number < self._begun - 1:
            why = "it came too late to be told: the next call had begun"
            self._carrier.report_dropped(
                tuple(replace(one, why=why) for one in extras), call_path(lane.call)
            )
            return []
        more: Wire = {}
        self._carrier.carry(extras, more, call_path(lane.call))
        return [self._frames.chunk(self._choice, self._piece(lane, more))] if more else []

    def _piece(self, lane: CallStream, more: Wire) -> Wire:
        """Say which call a piece belongs to."""
        return {"tool_calls": [{"index": lane.number, **more}]}

    def _advance(self) -> list[bytes]:
        """Begin the calls that wait for nobody any more."""
        written: list[bytes] = []
        while self._begun < len(self._lanes):
            if self._begun and not self._lanes[self._begun - 1].is_done():
                break
            written += self._begin(self._lanes[self._begun])
            self._begun += 1
        return written

    def _begin(self, lane: CallStream) -> list[bytes]:
        kind = lane.call.kind
        first: Wire = {
            "index": lane.number,
            "id": lane.call.call_id,
            "type": kind,
            kind: call_body(lane.call),
        }
        self._carrier.carry(lane.call.extras, first, call_path(lane.call))
        more: Wire = {"index": lane.number, kind: {CALL_FIELDS[kind]: PLACEHOLDER}}
        lane.template = self._frames.template(self._choice, {"tool_calls": [more]})
        written = [self._frames.chunk(self._choice, {"tool_calls": [first]})]
        if lane.held:
            written.append(lane.template.fill("".join(lane.held)))
            lane.held.clear()
        return written
