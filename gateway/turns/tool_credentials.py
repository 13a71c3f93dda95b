"""Credentials in the tools of a request.

They authorize a backend to use an MCP server of the client, and are forwarded but never stored. In
the tools of a response, OpenAI too omits the `authorization` of an MCP server, and the values of
its headers.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import RequestBody
from adapters.json_text import DECODE_ERRORS
from adapters.wire.error_body import REDACTED
from adapters.wire.json_object import MISSING, NULL

_MCP: Final = b'"mcp"'


class _ToolHead(Struct):
    type: Raw = MISSING


_HEAD: Final = msgspec.json.Decoder(_ToolHead)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_TOOLS: Final = msgspec.json.Decoder(list[Raw])


def redacted_tools(body: RequestBody) -> list[Raw | dict[str, object]] | None:
    """Return the tools of a request without credentials; None if they contain none."""
    encoded = body.fields.get("tools", NULL)
    if _MCP not in bytes(encoded):
        return None
    try:
        tools = [_redact(tool) for tool in _TOOLS.decode(encoded)]
    except DECODE_ERRORS:
        # The reader of the request reports the error.
        return None
    return None if all(isinstance(tool, Raw) for tool in tools) else tools


def _redact(tool: Raw) -> Raw | dict[str, object]:
    if bytes(_HEAD.decode(tool).type) != _MCP:
        return tool
    fields = _OBJECT.decode(tool)
    headers = fields.get("headers", NULL)
    if fields.get("authorization", NULL) == NULL and headers == NULL:
        return tool
    shown: dict[str, object] = {n: raw for n, raw in fields.items() if n != "authorization"}
    if headers != NULL:
        shown["headers"] = dict.fromkeys(_OBJECT.decode(headers), REDACTED)
    return shown
