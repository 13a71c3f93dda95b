"""Whole replies in the legacy form; reading is Chat's, which understands both."""

from adapters.chat.reply import Wire, report_namespace
from adapters.chat.reply import write_reply as write_chat_reply
from adapters.conversation import Call, Reply
from adapters.dialect import Surroundings
from adapters.legacy.wire import CUSTOM_CALL, ONE_CALL, WRITE_REASON
from adapters.loss import Losses
from adapters.template import encode


def wrapped(call: Call, losses: Losses) -> str:
    """Give the arguments of a call; the raw input of a custom one as JSON, which legacy wants."""
    if call.kind == "function":
        return call.arguments
    losses.changed(f"call {call.name}", CUSTOM_CALL)
    return encode({"input": call.arguments}).decode()


def write_reply(reply: Reply, around: Surroundings) -> bytes:
    """Write a whole reply."""
    return write_chat_reply(reply, around, _write_call, WRITE_REASON)


def _write_call(calls: tuple[Call, ...], message: Wire, losses: Losses) -> None:
    """Write the first call; a legacy client can take no more."""
    first, *others = calls
    report_namespace(first, losses)
    message["function_call"] = {"name": first.name, "arguments": wrapped(first, losses)}
    for call in others:
        losses.dropped(f"call {call.name}", ONE_CALL, "capability")
