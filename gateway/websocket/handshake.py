"""The handshake of a WebSocket; clients that are refused get an HTTP response."""

import asyncio
from typing import Final, cast

from litestar.types import Receive, Send, WebSocketScope
from litestar.types.asgi_types import WebSocketAcceptEvent

from adapters import DragomanError
from gateway.context import AppContext
from gateway.errors import OriginNotAllowedError
from gateway.http.headers import read_headers
from gateway.observability.record import ExchangeRecord
from gateway.server.protocols import SHUTDOWN_EXTENSION
from gateway.websocket.connection import Connection
from gateway.websocket.sinks import RejectionSink

# Sent once for the connection, and wrong for a single turn.
_CONNECTION_HEADERS: Final = frozenset(("idempotency-key", "x-codex-turn-metadata"))
_BETA: Final = "openai-beta"
_WEBSOCKET_BETA: Final = "responses_websockets="


async def handle_websocket(
    app: AppContext, scope: WebSocketScope, receive: Receive, send: Send
) -> None:
    """Accept a client, and serve it until it leaves."""
    await receive()
    headers, record = read_headers(scope["headers"]), ExchangeRecord(scope["path"])
    try:
        _check_origin(headers)
        principal = app.authenticator.authenticate(headers)
    except DragomanError as error:
        record.note_error(error.code)
        await RejectionSink(headers, receive, send, record).send_error(error)
        app.record_exchange(record)
        return
    accept: WebSocketAcceptEvent = {"type": "websocket.accept", "subprotocol": None, "headers": []}
    await send(accept)
    headers = _turn_headers(headers)
    connection = Connection(app, principal, headers, scope["path"], receive, send)
    await connection.run(_shutdown_event(scope))


def _check_origin(headers: dict[str, str]) -> None:
    """Reject web pages of other sites.

    Browsers let any page open a WebSocket to any address and read from it; without this check, a
    page could use a gateway on its visitor's machine. Programs send no origin.
    """
    origin = headers.get("origin")
    own = headers.get("host", "").lower()
    if origin is not None and (not own or origin.lower().partition("://")[2] != own):
        raise OriginNotAllowedError(None, "WebSocket connections from other sites are not allowed")


def _turn_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers that hold for each turn, without those of the protocol itself."""
    others = {name: value for name, value in headers.items() if name not in _CONNECTION_HEADERS}
    betas = [beta.strip() for beta in others.pop(_BETA, "").split(",")]
    betas = [beta for beta in betas if beta and not beta.startswith(_WEBSOCKET_BETA)]
    return others | {_BETA: ", ".join(betas)} if betas else others


def _shutdown_event(scope: WebSocketScope) -> asyncio.Event:
    """Return the event that is set when our server begins to stop; others have none."""
    extensions = cast("dict[str, object]", scope["extensions"] or {})
    event = extensions.get(SHUTDOWN_EXTENSION)
    return event if isinstance(event, asyncio.Event) else asyncio.Event()
