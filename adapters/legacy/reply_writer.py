"""Writers of complete replies and of streams for legacy clients."""

from adapters.chat.reply_writer import ReplyWriter
from adapters.chat.stream_repair import RepairWriter as ChatRepairWriter
from adapters.chat.stream_writer import CallStream, CallsWriter
from adapters.chat.stream_writer import StreamWriter as ChatStreamWriter
from adapters.chat.wire import WRITE_FINISH_REASON as CHAT_FINISH_REASON
from adapters.chat.wire import Wire, extras_writer
from adapters.dialect import BaseStreamWriter, ReplyContext
from adapters.ir.normalize import (
    MISSING_CALL_ID_REASON,
    REPEATED_CALL_ID_REASON,
    call_path,
)
from adapters.ir.types import FinishReason, Reply, ToolCall
from adapters.legacy.request_writer import LABEL, ONE_CALL_REASON
from adapters.sse import PLACEHOLDER

# Reports of call ids, which legacy clients do not receive.
_CALL_ID_REASONS = (MISSING_CALL_ID_REASON, REPEATED_CALL_ID_REASON)
# The path of the call of the first choice in the complete reply.
CALL_PLACE = "choices[{choice}].message.function_call"
WRITE_FINISH_REASON: dict[FinishReason, str] = {**CHAT_FINISH_REASON, "calls": "function_call"}


class LegacyReplyWriter(ReplyWriter):
    """Writes complete replies with at most one call."""

    finish_reasons = WRITE_FINISH_REASON

    def _write_calls(self, calls: list[ToolCall], message: Wire, path: str) -> None:
        first, *others = calls
        wire: Wire = {"name": first.name, "arguments": first.arguments}
        extras_writer(self._losses, LABEL).carry(first.extras, wire, call_path(first))
        message["function_call"] = wire
        self._losses.place(call_path(first), f"{path}.function_call")
        self._losses.withdraw(call_path(first), _CALL_ID_REASONS)
        for call in others:
            self._losses.dropped(call_path(call), ONE_CALL_REASON, "capability")


def write_reply(reply: Reply, context: ReplyContext) -> Wire:
    """Write a complete reply."""
    return LegacyReplyWriter(context).write(reply)


# Streams


class FirstCallWriter(CallsWriter):
    """Writes the first call, because a legacy reply has at most one; reports the others."""

    def _begin(self, stream: CallStream) -> list[bytes]:
        path = call_path(stream.call)
        if stream.number:
            self._losses.dropped(path, ONE_CALL_REASON, "capability")
            return []
        self._losses.withdraw(path, _CALL_ID_REASONS)
        first: Wire = {"name": stream.call.name, "arguments": ""}
        self._extras.carry(stream.call.extras, first, path)
        arguments = self._delta(stream, {"arguments": PLACEHOLDER})
        stream.template = self._frames.template(self._choice, arguments)
        return [self._frames.chunk(self._choice, self._delta(stream, first))]

    def _no_arguments(self, stream: CallStream) -> Wire:  # noqa: ARG002 - as in the base class
        return {"arguments": ""}

    def _delta(self, stream: CallStream, fields: Wire) -> Wire:  # noqa: ARG002 - a single call has no index
        return {"function_call": fields}


class StreamWriter(ChatStreamWriter):
    """Writes events as chunks with at most one call."""

    finish_reasons = WRITE_FINISH_REASON
    calls_writer = FirstCallWriter
    _call_place = CALL_PLACE


class RepairWriter(ChatRepairWriter):
    """Writes the chunks that replace invalid ones, with at most one call."""

    finish_reasons = WRITE_FINISH_REASON
    calls_writer = FirstCallWriter
    _call_place = CALL_PLACE


def write_stream(context: ReplyContext) -> BaseStreamWriter:
    """Return the writer of a stream."""
    return RepairWriter(context) if context.repairs else StreamWriter(context)
