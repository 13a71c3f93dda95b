"""Writes a stream for a legacy client: the name first, then pieces of arguments (P180)."""

from msgspec.structs import replace

from adapters.chat.custom import CUSTOM_CALL
from adapters.chat.frames import Wire
from adapters.chat.write_calls import CallsWriter, Lane
from adapters.chat.write_stream import StreamWriter as ChatStreamWriter
from adapters.conversation import Status
from adapters.events import Delta
from adapters.items import call_path
from adapters.legacy.wire import ONE_CALL, WRITE_REASON
from adapters.template import HOLE, encode


class FirstCallWriter(CallsWriter):
    """Writes the first call; a legacy client can take no more."""

    def _begin(self, lane: Lane) -> list[bytes]:
        if lane.number:
            self._losses.dropped(call_path(lane.call), ONE_CALL, "capability")
            return []
        first: Wire = {"name": lane.call.name, "arguments": ""}
        lane.template = self._frames.template(self._choice, {"function_call": {"arguments": HOLE}})
        begun = [self._frames.chunk(self._choice, {"function_call": first})]
        if lane.call.kind == "custom":
            self._losses.changed(call_path(lane.call), CUSTOM_CALL)
            begun.append(lane.template.fill('{"input":"'))
        return begun

    def fill(self, lane: Lane, delta: Delta) -> list[bytes]:
        """Take more of a call's arguments; the input of a custom call becomes a JSON string."""
        if lane.call.kind == "custom":
            delta = replace(delta, text=encode(delta.text)[1:-1].decode())
        return super().fill(lane, delta)

    def close(self, lane: Lane, status: Status) -> list[bytes]:
        """Learn that a call has ended; one that was cut off must not look whole (P144)."""
        ending: list[bytes] = []
        if lane.call.kind == "custom" and lane.template is not None and status == "completed":
            ending.append(lane.template.fill('"}'))
        return ending + super().close(lane, status)


class StreamWriter(ChatStreamWriter):
    """Events in, frames out."""

    words = WRITE_REASON
    make_calls = FirstCallWriter
