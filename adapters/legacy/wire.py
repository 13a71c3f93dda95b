"""The legacy form on the wire: Chat's words, but for what is about calls."""

from adapters.chat.wire import NAMES as CHAT_NAMES
from adapters.ir.types import FinishReason

NAMES = CHAT_NAMES | {
    "max_output_tokens": "max_tokens",
    "tool_choice": "function_call",
    "tool_choice.name": "function_call.name",
    "tools": "functions",
}

WRITE_FINISH_REASON: dict[FinishReason, str] = {
    "stop": "stop",
    "calls": "function_call",
    "length": "length",
    "filter": "content_filter",
}

ONE_CALL_REASON = "a legacy answer holds one call; the model can call again"
