"""An invented dialect: a flat list of entries, the type of an event in its data, no `[DONE]`."""

from adapters.dialect import Dialect
from adapters.ir.types import FunctionTool
from tests.fourth_dialect.dialogue import reply, request, stream, wire

DIALOGUE = Dialect(
    name="dialogue",
    family=wire.FAMILY,
    path="/dialogue",
    matches=lambda _body: True,
    stateful=False,
    reasoning="message_field",
    names=wire.NAMES,
    reply_names={},
    unsupported_fields=request.UNSUPPORTED_FIELDS,
    has_call_ids=True,
    predates_tools=False,
    has_allowed_tools=False,
    nests_tools=False,
    has_strict=False,
    supports_tool=lambda tool, _capabilities: isinstance(tool, FunctionTool),
    max_tool_name_length=64,
    call_kinds=frozenset(("function",)),
    stores_by_default=False,
    server_state_fields=frozenset(),
    read_request=request.read_request,
    write_request=request.write_request,
    read_reply=reply.read_reply,
    write_reply=reply.write_reply,
    read_usage=reply.read_usage,
    read_stream=stream.StreamReader,
    write_stream=stream.StreamWriter,
    read_error=reply.read_error,
    write_error=reply.write_error,
    check_stream=stream.check_stream,
)
