"""The wire format of legacy functions, where it differs from Chat."""

from adapters.chat.wire import NAMES as CHAT_NAMES
from adapters.chat.wire import WRITE_FINISH_REASON as CHAT_FINISH_REASON
from adapters.ir.types import FinishReason

# How messages to clients name the dialect.
LABEL = "the legacy API"

NAMES = CHAT_NAMES | {
    "max_output_tokens": "max_tokens",
    "tool_choice": "function_call",
    "tool_choice.name": "function_call.name",
    "tools": "functions",
}

_CALLS: dict[FinishReason, str] = {"calls": "function_call"}
WRITE_FINISH_REASON = CHAT_FINISH_REASON | _CALLS

# Reason for losses
ONE_CALL_REASON = "the legacy API supports only one call per reply"
