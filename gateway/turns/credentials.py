"""What authorises a backend to use a server of the client's: it is passed on, and kept nowhere.

OpenAI shows the tools of a request with its response, but neither stores nor shows the
`authorization` of an MCP server, and of its headers only the names.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import MISSING, NULL
from gateway.http.headers import REDACTED

_MCP: Final = b'"mcp"'
_AUTHORIZATION: Final = "authorization"
_HEADERS: Final = "headers"


class _Body(Struct):
    tools: list[Raw] = []


class _Kind(Struct):
    type: Raw = MISSING


_BODY: Final = msgspec.json.Decoder(_Body)
_KIND: Final = msgspec.json.Decoder(_Kind)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])


def concealed_tools(body: bytes) -> list[Raw | dict[str, object]] | None:
    """Give the tools of a request as they may be shown; None if they may be shown as they are."""
    if _MCP not in body:
        return None
    try:
        tools = [_concealed(tool) for tool in _BODY.decode(body).tools]
    except DECODE_ERRORS:
        # Whoever reads it next says what is wrong.
        return None
    return None if all(isinstance(tool, Raw) for tool in tools) else tools


def _concealed(tool: Raw) -> Raw | dict[str, object]:
    if bytes(_KIND.decode(tool).type) != _MCP:
        return tool
    fields = _OBJECT.decode(tool)
    shown: dict[str, object] = {**fields}
    if shown.pop(_AUTHORIZATION, NULL) == NULL and fields.get(_HEADERS, NULL) == NULL:
        return tool
    if fields.get(_HEADERS, NULL) != NULL:
        shown[_HEADERS] = dict.fromkeys(_OBJECT.decode(fields[_HEADERS]), REDACTED)
    return shown
