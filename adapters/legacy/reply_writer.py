"""Whole replies in the legacy form; reading is Chat's, which understands both."""

from adapters.chat.reply import Wire
from adapters.chat.reply import write_reply as write_chat_reply
from adapters.dialect import ReplyContext
from adapters.ir.normalize import call_path
from adapters.ir.types import Reply, ToolCall
from adapters.legacy.wire import ONE_CALL_REASON, WRITE_FINISH_REASON
from adapters.losses import Losses
from adapters.wire.extra_fields import ExtrasWriter


def write_reply(reply: Reply, around: ReplyContext) -> bytes:
    """Write a whole reply."""
    return write_chat_reply(reply, around, _write_call, WRITE_FINISH_REASON)


def _write_call(calls: tuple[ToolCall, ...], message: Wire, losses: Losses) -> None:
    """Write the first call; a legacy client can take no more."""
    first, *others = calls
    wire: Wire = {"name": first.name, "arguments": first.arguments}
    ExtrasWriter("completions", "the legacy form", losses).carry(
        first.extras, wire, call_path(first)
    )
    message["function_call"] = wire
    for call in others:
        losses.dropped(call_path(call), ONE_CALL_REASON, "capability")
