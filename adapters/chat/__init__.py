"""Chat Completions: `tools`, `tool_calls`, `role: tool`."""

from adapters.chat.conformance import check_stream
from adapters.chat.parts import write_reasoning
from adapters.chat.repair_check import find_call_ids
from adapters.chat.reply_reader import read_reply
from adapters.chat.reply_repair import check_reply, keep_reply_fields
from adapters.chat.reply_writer import write_reply
from adapters.chat.request_reader import is_legacy, read_request
from adapters.chat.request_writer import supports_tool, write_request
from adapters.chat.stream_reader import StreamReader
from adapters.chat.stream_repair import write_stream
from adapters.chat.wire import (
    FAMILY,
    LOSS_NAMES,
    NAMES,
    REPLY_NAMES,
    UNSUPPORTED_FIELDS,
    read_usage,
)
from adapters.dialect import Dialect
from adapters.wire.error_body import read_error, write_error

CHAT = Dialect(
    name="chat",
    family=FAMILY,
    path="/chat/completions",
    matches=lambda body: not is_legacy(body),
    stateful=False,
    reasoning="message_field",
    names=NAMES,
    reply_names=REPLY_NAMES,
    unsupported_fields=UNSUPPORTED_FIELDS,
    has_call_ids=True,
    predates_tools=False,
    has_allowed_tools=False,
    nests_tools=True,
    has_strict=True,
    supports_tool=supports_tool,
    max_tool_name_length=64,
    call_kinds=frozenset(("function", "custom")),
    stores_by_default=False,
    server_state_fields=frozenset(),
    read_request=read_request,
    write_request=write_request,
    read_reply=read_reply,
    write_reply=write_reply,
    read_usage=read_usage,
    read_stream=StreamReader,
    write_stream=write_stream,
    read_error=read_error,
    write_error=write_error,
    check_stream=check_stream,
    write_reasoning=write_reasoning,
    repairs=True,
    find_call_ids=find_call_ids,
    reply_fields=frozenset(("n", "parallel_tool_calls", "tool_choice", "function_call")),
    check_reply=check_reply,
    keep_reply_fields=keep_reply_fields,
    loss_names=LOSS_NAMES,
)
