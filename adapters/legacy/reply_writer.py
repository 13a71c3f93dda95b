"""Writers of complete replies and of streams for legacy clients."""

from adapters.chat.reply_writer import ReplyWriter
from adapters.chat.stream_writer import CallStream, CallsWriter
from adapters.chat.stream_writer import StreamWriter as ChatStreamWriter
from adapters.chat.wire import WRITE_FINISH_REASON as CHAT_FINISH_REASON
from adapters.chat.wire import Wire, extras_writer
from adapters.dialect import ReplyContext
from adapters.ir.normalize import call_path
from adapters.ir.types import FinishReason, Reply, ToolCall
from adapters.legacy.request_writer import LABEL, ONE_CALL_REASON
from adapters.sse import PLACEHOLDER

_CALLS: dict[FinishReason, str] = {"calls": "function_call"}
WRITE_FINISH_REASON = CHAT_FINISH_REASON | _CALLS


class LegacyReplyWriter(ReplyWriter):
    """Writes one reply, with at most one call."""

    finish_reasons = WRITE_FINISH_REASON

    def _write_calls(self, calls: list[ToolCall], message: Wire) -> None:
        first, *others = calls
        wire: Wire = {"name": first.name, "arguments": first.arguments}
        extras_writer(self._losses, LABEL).carry(first.extras, wire, call_path(first))
        message["function_call"] = wire
        for call in others:
            self._losses.dropped(call_path(call), ONE_CALL_REASON, "capability")


def write_reply(reply: Reply, context: ReplyContext) -> Wire:
    """Write a complete reply."""
    return LegacyReplyWriter(context).write(reply)


# Streams


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
