"""Tells the events of a stored response, where they are asked for instead of the response."""

import re
from contextlib import suppress
from typing import Final

from litestar.types import ASGIApp, Receive, Scope, Send

from adapters import InvalidRequestError
from gateway.api.paths import AnyRequest
from gateway.background.events import EventReplay
from gateway.context import AppContext
from gateway.errors import ClientDisconnectedError
from gateway.http.client_connection import ClientConnection
from gateway.http.headers import JSON, read_headers
from gateway.observability.record import ExchangeRecord
from gateway.store import Response

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_FLAGS: Final = {"true": True, "false": False}


def read_stream(request: AnyRequest) -> int | None:
    """Read after which number the events are asked for; None if they are not."""
    query = request.query_params
    wanted = _FLAGS.get(query.get("stream", "false"))
    if wanted is None:
        raise InvalidRequestError("stream", "expected true or false")
    after = query.get("starting_after")
    if after is not None and _NUMBER.fullmatch(after) is None:
        raise InvalidRequestError("starting_after", "expected the number of an event, 0 or more")
    if not wanted:
        return None
    return -1 if after is None else int(after)


def tell_whole(body: bytes) -> ASGIApp:
    """Answer with JSON that is written already, where a stream might have been asked for."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await _client(scope, receive, send).send_response(200, JSON, body)

    return answer


def tell_stream(desk: AppContext, response: Response, after: int) -> ASGIApp:
    """Answer with the events after a number, until the last."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        client = _client(scope, receive, send)
        keep_alive = desk.config.server.heartbeat_interval
        with suppress(ClientDisconnectedError):
            await EventReplay(desk.store, client, keep_alive).tell(response, after)

    return answer


def _client(scope: Scope, receive: Receive, send: Send) -> ClientConnection:
    return ClientConnection(
        read_headers(scope["headers"]), receive, send, ExchangeRecord(scope["path"])
    )
