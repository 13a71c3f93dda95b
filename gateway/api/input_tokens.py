"""The endpoint that counts the input tokens of a request."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from msgspec import Raw, Struct

from adapters import DragomanError, RequestBody, parse_body
from adapters.errors import missing_field
from adapters.responses import RESPONSES
from gateway.api.common import pipeline_app
from gateway.compaction.summary_request import mentions_compaction, prepare_request
from gateway.context import AppContext, CurrentContext
from gateway.http.auth import Principal
from gateway.http.headers import JSON
from gateway.http.monitor import ExchangeMonitor
from gateway.http.request_body import parse_request
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.openapi.document import BODY_ERRORS, request_body, responses
from gateway.openapi.objects import InputTokensReply, InputTokensRequest
from gateway.pipeline.handler import receive_request
from gateway.token_counting import CountableRequest, TokenCount, count_locally, count_on_backend

# If the backend takes longer, the gateway counts the tokens.
_COUNT_TIMEOUT_SECONDS: Final = 10.0
_HEADER: Final = b"dragoman-token-count-source"
_PATH: Final = "/responses/input_tokens"
_FALSE: Final = Raw(b"false")


class _Tokens(Struct, frozen=True):
    input_tokens: int
    object: str = "response.input_tokens"


def input_token_handlers(current: CurrentContext) -> Sequence[HTTPRouteHandler]:
    """Return the handler that counts tokens."""
    reply = pipeline_app(current, count_input_tokens)

    @post(
        _PATH,
        status_code=200,
        tags=("Responses",),
        operation_id="countInputTokens",
        summary="Count the input tokens of a request",
        dependencies=request_body(InputTokensRequest),
        responses=responses(
            InputTokensReply,
            "The number of tokens. The header `dragoman-token-count-source` names the "
            "method: `backend`, `tiktoken` or `estimate`.",
            BODY_ERRORS,
        ),
    )
    async def count_tokens() -> ASGIApp:
        """Count the tokens of a request."""
        return reply

    return [count_tokens]


async def count_input_tokens(app: AppContext, sink: ReplySink) -> None:
    """Serve one request for a number of tokens."""
    principal, body = await receive_request(app, sink)
    countable = await _read(app, principal, parse_body(body), sink.record)
    counted = await _count(countable, principal, sink)
    reply = msgspec.json.encode(_Tokens(counted.tokens))
    headers = [*JSON, (_HEADER, counted.source.encode())]
    await sink.send_response(HTTPStatus.OK, headers, reply)


async def _read(
    app: AppContext, principal: Principal, body: RequestBody, record: ExchangeRecord
) -> CountableRequest:
    """Load the history of a request and find its backend."""
    # Nothing is stored or run in the background, whatever the request contains.
    fields = {name: raw for name, raw in body.fields.items() if name != "background"}
    request = parse_request(RequestBody(fields | {"store": _FALSE}), RESPONSES.path)
    turn = await app.turns.begin(principal, request)
    request = request if turn is None else turn.request
    if not request.model:
        raise missing_field("model")
    route = app.router.find(request.model)[0]
    backend = route.backend
    record.client_dialect, record.model = request.dialect.name, request.model
    record.backend, record.backend_dialect = backend.name, backend.dialect.name
    record.redact = backend.redact
    opened = request.body
    if mentions_compaction(opened):
        sealer = app.sealing_keys.summary_sealer(principal.owner)
        whole = turn is not None and turn.conversation is not None
        opened = prepare_request(opened, backend, sealer, app.ids, whole=whole).body
    sealer = app.sealing_keys.reasoning_sealer(backend.name)
    return CountableRequest(opened, route, app.ids, app.config.loss_policy, sealer)


async def _count(countable: CountableRequest, principal: Principal, sink: ReplySink) -> TokenCount:
    """Return the backend's count, or that of the gateway if the backend cannot count."""
    backend = countable.route.backend
    # Translated first, so that a request that the backend cannot get is rejected.
    body = countable.write()
    try:
        async with (
            asyncio.timeout(_COUNT_TIMEOUT_SECONDS),
            ExchangeMonitor(sink.receive, 0) as monitor,
        ):
            headers = backend.request_headers(sink.headers, principal)
            tokens = await count_on_backend(countable, headers, monitor)
    except (DragomanError, TimeoutError) as error:
        LOG.warning("backend did not count tokens", backend=backend.name, error=str(error))
        tokens = None
    return await count_locally(body) if tokens is None else TokenCount(tokens, "backend")
