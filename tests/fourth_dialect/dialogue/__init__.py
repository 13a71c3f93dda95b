"""An invented dialect: a flat list of entries, the type of an event in its data, no `[DONE]`."""

from adapters.dialect import Dialect
from adapters.ir.types import FunctionTool
from tests.fourth_dialect.dialogue.reply import (
    read_error,
    read_reply,
    read_usage,
    write_error,
    write_reply,
)
from tests.fourth_dialect.dialogue.request import UNSUPPORTED_FIELDS, read_request, write_request
from tests.fourth_dialect.dialogue.stream import StreamReader, StreamWriter, check_stream
from tests.fourth_dialect.dialogue.wire import FAMILY, NAMES

DIALOGUE = Dialect(
    name="dialogue",
    family=FAMILY,
    path="/dialogue",
    matches=lambda _body: True,
    stateful=False,
    reasoning="message_field",
    names=NAMES,
    unsupported_fields=UNSUPPORTED_FIELDS,
    has_call_ids=True,
    nests_tools=False,
    has_strict=False,
    supports_tool=lambda tool, _capabilities: isinstance(tool, FunctionTool),
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
    read_error=read_error,
    write_error=write_error,
    check_stream=check_stream,
)
