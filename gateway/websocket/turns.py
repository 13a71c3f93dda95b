"""Serve one turn of a WebSocket: the same pipeline as over HTTP, with a WebSocket sink."""

from contextlib import suppress
from http import HTTPStatus
from typing import Final

from litestar.exceptions import WebSocketDisconnect
from litestar.types import Receive, Send
from litestar.types.asgi_types import (
    WebSocketResponseBodyEvent,
    WebSocketResponseStartEvent,
    WebSocketSendEvent,
)
from msgspec import Raw
from msgspec.structs import replace

from adapters import (
    ReplyEnd,
    ReplyTranslator,
    TranslationOptions,
    read_client_request,
    write_backend_request,
)
from adapters.responses import RESPONSES
from adapters.sse import Decoder
from adapters.wire.error_body import read_error
from gateway.context import AppContext
from gateway.http.auth import Principal
from gateway.http.headers import STREAM, Headers
from gateway.http.request_body import parse_request
from gateway.http.sinks import ReplySink
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.handler import CreateRequest, handle_create
from gateway.turns.response_cache import ResponseCache
from gateway.turns.turn import Turn
from gateway.websocket.messages import CreateMessage, with_stream_id, write_error_event

_EMPTY_REPLY: Final = (
    b'{"id":"resp_0","object":"response","status":"completed","output":[],"usage":{'
    b'"input_tokens":0,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},'
    b'"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}}'
)
# Headers that apply to an HTTP response only and are not copied into an error event.
_HTTP_HEADERS: Final = frozenset((b"content-type", b"content-length", b"dragoman-loss"))


async def serve_turn(
    app: AppContext,
    principal: Principal,
    message: CreateMessage,
    cache: ResponseCache,
    sink: ReplySink,
) -> None:
    """Serve the request of one message."""
    # The key may have been removed since the connection was opened.
    principal = app.authenticator.reauthenticate(principal.owner, principal.authorization)
    if sink.record.capture is not None:
        sink.record.capture.note_request(message.body.encode())
    if message.generate:
        request = CreateRequest(RESPONSES.path, principal, message.body, cache=cache)
        await handle_create(app, request, sink)
    else:
        await _prewarm(app, principal, message, cache, sink)


async def _prewarm(
    app: AppContext,
    principal: Principal,
    message: CreateMessage,
    cache: ResponseCache,
    sink: ReplySink,
) -> None:
    """Send a response without output and save it, so that it can be continued.

    Codex sends its long instructions in this way before the user has typed anything.
    """
    turn = await app.turns.begin(principal, parse_request(message.body, RESPONSES.path), cache)
    if turn is None:
        raise AssertionError("a connection with a cache always begins a turn")
    record = sink.record
    record.client_dialect, record.model = turn.request.dialect.name, turn.model
    # No backend is called; this only raises an error for an unknown model.
    app.router.find(turn.model)
    end = _empty_reply(app, turn)
    if end.client_reply is not None:
        if turn.store:
            await app.turns.save(turn, end.client_reply)
        else:
            cache.add(turn, app.turns.stored_turn(turn, end.client_reply))
    record.stream = True
    await sink.send_response(HTTPStatus.OK, [*STREAM], end.body)


def _empty_reply(app: AppContext, turn: Turn) -> ReplyEnd:
    """Return the events of a reply without output, as if a Responses backend had sent it."""
    options = TranslationOptions(
        RESPONSES, RESPONSES, app.ids, rewrite=True, response_overrides=turn.overrides
    )
    body = replace(turn.request.body, fields=turn.request.body.fields | {"stream": Raw(b"true")})
    sent = write_backend_request(read_client_request(body, options))
    translator = ReplyTranslator(sent.reply_plan)
    translator.feed(_EMPTY_REPLY)
    return translator.finish()


async def send_event(send: Send, event: bytes) -> None:
    """Send an event; wait while the client is slow to read, and ignore a disconnect.

    The task that receives the client's messages handles disconnects.
    """
    message: WebSocketSendEvent = {
        "type": "websocket.send",
        "bytes": None,
        "text": event.decode("utf-8", "replace"),
    }
    with suppress(OSError, WebSocketDisconnect):
        await send(message)


class WebSocketSink(ReplySink):
    """Sends each event of a stream as one message, and an error as one event with its status."""

    transport = "websocket"

    def __init__(
        self,
        headers: dict[str, str],
        receive: Receive,
        send: Send,
        record: ExchangeRecord,
        stream_id: str | None,
    ) -> None:
        super().__init__(headers, receive, record)
        self._send = send
        self._stream_id = stream_id
        self._status = 0
        self._response_headers: Headers = []
        self._decoder = Decoder()
        self._error_body: list[bytes] = []

    async def _send_head(self, status: int, headers: Headers) -> None:
        self._status, self._response_headers = status, headers

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        if self._status < HTTPStatus.BAD_REQUEST:
            # Comments and `[DONE]` exist only in SSE.
            for frame in self._decoder.feed(data):
                if frame.data.startswith(b"{"):
                    await send_event(self._send, with_stream_id(frame.data, self._stream_id))
            return
        self._error_body.append(data)
        if not more:
            error = read_error(self._status, b"".join(self._error_body))
            headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in self._response_headers
                if name not in _HTTP_HEADERS
            }
            event = write_error_event(self._status, error, self._stream_id, headers)
            await send_event(self._send, event)


class RejectionSink(ReplySink):
    """Rejects a WebSocket with an HTTP response (ASGI's "WebSocket Denial Response")."""

    def __init__(
        self, headers: dict[str, str], receive: Receive, send: Send, record: ExchangeRecord
    ) -> None:
        super().__init__(headers, receive, record)
        self._send = send

    async def _send_head(self, status: int, headers: Headers) -> None:
        start: WebSocketResponseStartEvent = {
            "type": "websocket.http.response.start",
            "status": status,
            "headers": headers,
        }
        await self._send(start)

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        body: WebSocketResponseBodyEvent = {
            "type": "websocket.http.response.body",
            "body": data,
            "more_body": more,
        }
        await self._send(body)
