"""Opens sockets: who may not come in is told so over HTTP, before there is a socket."""

import asyncio
from typing import cast

from litestar.types import Receive, Send, WebSocketScope
from litestar.types.asgi_types import WebSocketAcceptEvent

from adapters import DragomanError
from gateway.context import AppContext
from gateway.http.client_connection import ClientConnection
from gateway.http.headers import read_headers
from gateway.observability.record import ExchangeRecord
from gateway.server.websocket_protocol import STOPPING
from gateway.websocket.connection import Connection
from gateway.websocket.errors import OriginNotAllowedError
from gateway.websocket.rejection import HandshakeRejection
from gateway.websocket.turns import TurnHandler


async def open_socket(
    desk: AppContext, scope: WebSocketScope, receive: Receive, send: Send
) -> None:
    """Let a client in, and serve it until it leaves."""
    await receive()
    headers = read_headers(scope["headers"])
    try:
        _check_origin(headers)
        caller = desk.gatekeeper.authenticate(headers)
    except DragomanError as problem:
        await _refuse(desk, scope["path"], problem, receive, send)
        return
    accept: WebSocketAcceptEvent = {
        "type": "websocket.accept",
        "subprotocol": None,
        "headers": [],
    }
    await send(accept)
    server = desk.configuration.server
    turns = TurnHandler(desk, caller, headers, scope["path"])
    connection = Connection(turns, receive, send, server.max_body_bytes)
    await connection.run(_stopping(scope), server.websocket_lifetime)


def _check_origin(headers: dict[str, str]) -> None:
    """Let pages of other sites not in.

    Browsers ask nobody before they let a page open a socket to anywhere and read from it, as they
    do before other requests; without this, any page could talk to a gateway on its visitor's
    machine. Programs say no origin.
    """
    origin = headers.get("origin")
    own = headers.get("host", "").lower()
    if origin is not None and (not own or origin.lower().partition("://")[2] != own):
        raise OriginNotAllowedError(None, "pages of other sites may not open a socket here")


async def _refuse(
    desk: AppContext, path: str, problem: DragomanError, receive: Receive, send: Send
) -> None:
    record = ExchangeRecord(path)
    record.note_failure(problem.code)
    await ClientConnection({}, receive, HandshakeRejection(send).send, record).send_error(problem)
    desk.record_exchange(record)


def _stopping(scope: WebSocketScope) -> asyncio.Event:
    """Give what is set when the server begins to stop; other servers than ours say nothing."""
    extensions = cast("dict[str, object]", scope["extensions"] or {})
    event = extensions.get(STOPPING)
    return event if isinstance(event, asyncio.Event) else asyncio.Event()
