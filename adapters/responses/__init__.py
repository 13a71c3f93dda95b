"""The Responses API: `function_call` and `function_call_output` items, typed events."""

from adapters.dialect import Dialect, matches_any
from adapters.responses.conformance import check_stream
from adapters.responses.repair_reader import read_stream
from adapters.responses.repair_writer import write_stream
from adapters.responses.reply_reader import read_reply
from adapters.responses.reply_repair import check_reply, find_call_ids, keep_reply_fields
from adapters.responses.reply_writer import write_reply
from adapters.responses.request_reader import read_request
from adapters.responses.request_writer import supports_tool, write_request
from adapters.responses.wire import (
    ALL_CALL_NAMES,
    FAMILY,
    NAMES,
    REPLY_NAMES,
    UNSUPPORTED_FIELDS,
    read_usage,
)
from adapters.wire.error_body import read_error, write_error

RESPONSES = Dialect(
    name="responses",
    family=FAMILY,
    path="/responses",
    matches=matches_any,
    stateful=True,
    reasoning="items",
    names=NAMES,
    reply_names=REPLY_NAMES,
    unsupported_fields=UNSUPPORTED_FIELDS,
    has_call_ids=True,
    predates_tools=False,
    has_allowed_tools=True,
    nests_tools=False,
    has_strict=True,
    supports_tool=supports_tool,
    max_tool_name_length=128,
    call_kinds=frozenset(ALL_CALL_NAMES),
    stores_by_default=True,
    server_state_fields=frozenset(("previous_response_id", "conversation")),
    read_request=read_request,
    write_request=write_request,
    read_reply=read_reply,
    write_reply=write_reply,
    read_usage=read_usage,
    read_stream=read_stream,
    write_stream=write_stream,
    read_error=read_error,
    write_error=write_error,
    check_stream=check_stream,
    repairs=True,
    check_reply=check_reply,
    find_call_ids=find_call_ids,
    reply_fields=frozenset(("parallel_tool_calls", "tool_choice")),
    keep_reply_fields=keep_reply_fields,
)
