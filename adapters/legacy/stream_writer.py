"""Writer of the stream for a legacy client."""

from adapters.chat.stream_writer import CallStream, CallsWriter
from adapters.chat.stream_writer import StreamWriter as ChatStreamWriter
from adapters.chat.wire import Wire
from adapters.ir.normalize import call_path
from adapters.legacy.wire import ONE_CALL_REASON, WRITE_FINISH_REASON
from adapters.sse import PLACEHOLDER


class FirstCallWriter(CallsWriter):
    """Writes the first call: its name, then its arguments. A legacy reply has only one."""

    def _begin(self, stream: CallStream) -> list[bytes]:
        path = call_path(stream.call)
        if stream.number:
            self._losses.dropped(path, ONE_CALL_REASON, "capability")
            return []
        first: Wire = {"name": stream.call.name, "arguments": ""}
        self._extras.carry(stream.call.extras, first, path)
        arguments = self._delta(stream, {"arguments": PLACEHOLDER})
        stream.template = self._frames.template(self._choice, arguments)
        return [self._frames.chunk(self._choice, self._delta(stream, first))]

    def _delta(self, stream: CallStream, fields: Wire) -> Wire:  # noqa: ARG002 - there is only one call
        return {"function_call": fields}


class StreamWriter(ChatStreamWriter):
    """Writes events as frames."""

    finish_reasons = WRITE_FINISH_REASON
    calls_writer = FirstCallWriter
