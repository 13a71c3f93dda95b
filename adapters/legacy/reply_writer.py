"""Writer of complete replies for legacy clients."""

from adapters.chat.reply_writer import ReplyWriter
from adapters.chat.wire import Wire, extras_writer
from adapters.dialect import ReplyContext
from adapters.ir.normalize import call_path
from adapters.ir.types import Reply, ToolCall
from adapters.legacy.wire import LABEL, ONE_CALL_REASON, WRITE_FINISH_REASON


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
