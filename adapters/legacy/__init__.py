"""The legacy form: `functions`, `function_call`, `role: function`. One call to an answer.

It is Chat with other words for calls, at the same address, so it stands on `adapters.chat`: the
readers there understand both forms, for clients and servers mix them, and only writing differs.
"""

from adapters.chat.reply_reader import read_reply
from adapters.chat.request_reader import read_request
from adapters.chat.stream_reader import StreamReader
from adapters.chat.wire import FAMILY, UNSUPPORTED_FIELDS, read_usage
from adapters.dialect import Dialect
from adapters.legacy.conformance import check_stream
from adapters.legacy.reply_writer import write_reply
from adapters.legacy.request_writer import supports_tool, write_request
from adapters.legacy.stream_writer import StreamWriter
from adapters.legacy.wire import NAMES
from adapters.wire.error_body import write_error

LEGACY = Dialect(
    name="legacy",
    family=FAMILY,
    names=NAMES,
    unsupported_fields=UNSUPPORTED_FIELDS,
    has_call_ids=False,
    nests_tools=False,
    has_strict=False,
    supports_tool=supports_tool,
    longest_name=64,
    call_kinds=frozenset(("function",)),
    stores_by_default=False,
    server_state_fields=frozenset(),
    read_request=read_request,
    write_request=write_request,
    read_reply=read_reply,
    write_reply=write_reply,
    read_usage=read_usage,
    read_stream=StreamReader,
    write_stream=StreamWriter,
    write_error=write_error,
    check_stream=check_stream,
)
