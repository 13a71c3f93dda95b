"""Writes a stream for a legacy client: the name first, then pieces of arguments (P180)."""

from adapters.chat.stream_writer import CallStream, CallsWriter
from adapters.chat.stream_writer import StreamWriter as ChatStreamWriter
from adapters.chat.wire import Wire
from adapters.ir.normalize import call_path
from adapters.legacy.wire import ONE_CALL_REASON, WRITE_FINISH_REASON
from adapters.sse import PLACEHOLDER


class FirstCallWriter(CallsWriter):
    """Writes the first call; a legacy client can take no more."""

    def _begin(self, lane: CallStream) -> list[bytes]:
        if lane.number:
            self._losses.dropped(call_path(lane.call), ONE_CALL_REASON, "capability")
            return []
        first: Wire = {"name": lane.call.name, "arguments": ""}
        self._carrier.carry(lane.call.extras, first, call_path(lane.call))
        lane.template = self._frames.template(
            self._choice, {"function_call": {"arguments": PLACEHOLDER}}
        )
        return [self._frames.chunk(self._choice, {"function_call": first})]

    def _piece(self, lane: CallStream, more: Wire) -> Wire:  # noqa: ARG002 - there is only one call
        return {"function_call": more}


class StreamWriter(ChatStreamWriter):
    """Events in, frames out."""

    words = WRITE_FINISH_REASON
    make_calls = FirstCallWriter
