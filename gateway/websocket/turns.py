"""Serve one turn of a WebSocket: the same pipeline as over HTTP."""

from http import HTTPStatus
from typing import Final

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
from gateway.context import AppContext
from gateway.http.auth import Principal
from gateway.http.create_request import parse_request
from gateway.http.headers import STREAM
from gateway.http.sinks import ReplySink
from gateway.pipeline.handler import handle_create
from gateway.pipeline.request import Request
from gateway.turns.response_cache import ResponseCache
from gateway.turns.turn import Turn
from gateway.websocket.messages import CreateMessage

_EMPTY_REPLY: Final = (
    b'{"id":"resp_0","object":"response","status":"completed","output":[],"usage":{'
    b'"input_tokens":0,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},'
    b'"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}}'
)


async def serve_turn(
    app: AppContext,
    principal: Principal,
    message: CreateMessage,
    cache: ResponseCache,
    sink: ReplySink,
) -> None:
    """Serve the request of one message."""
    if app.config.logging.bodies:
        sink.record.request_body = message.body.encode()
    if message.generate:
        request = Request(RESPONSES.path, principal, message.body, cache=cache)
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
    # No backend is called, but a model that is not served is reported now.
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
