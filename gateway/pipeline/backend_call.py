"""Send a request to the first backend that can be reached."""

from collections.abc import AsyncIterator
from http import HTTPStatus

import httpx
from msgspec import Struct
from msgspec.structs import replace

from adapters import (
    InvalidReplyError,
    Loss,
    ReplyPlan,
    ReplyTranslator,
    RequestBody,
    Sealer,
    TranslationOptions,
    read_client_request,
    write_backend_request,
)
from gateway.backends.client import BackendClient, read_refusal, rejects_encrypted_reasoning
from gateway.backends.routing import Route
from gateway.compaction.summary_request import PreparedRequest, prepare_request
from gateway.context import AppContext
from gateway.errors import BackendUnreachableError
from gateway.http.auth import Principal
from gateway.http.headers import Headers, client_headers
from gateway.http.monitor import ExchangeMonitor
from gateway.http.request_body import ParsedRequest
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.pipeline.persistence import (
    CompletionSaver,
    Saver,
    reasoning_scope,
    without_stored_fields,
)
from gateway.turns.turn import Turn

_FIRST_ERROR = HTTPStatus.BAD_REQUEST
_LAST_STATUS = 599
# Some frameworks reply to every POST with 201 by default.
_SUCCESS = frozenset((200, 201, 202, 203))


class Call(Struct, frozen=True):
    """A request that is ready to be sent."""

    principal: Principal
    sink: ReplySink
    request: ParsedRequest
    turn: Turn | None
    # The first is to be used, the others if it fails.
    routes: tuple[Route, ...]
    # Opens and seals the client's summaries; None if the request has nothing to do with any.
    summary_sealer: Sealer | None
    # Saves the reply.
    saver: Saver | None
    # Whether the client allows the gateway to store anything.
    may_store: bool


class Exchange(Struct, frozen=True):
    """A request that was sent, and the backend's open response."""

    backend: BackendClient
    status: int
    # The body, which must be closed, and its chunks.
    body: httpx.AsyncByteStream
    chunks: AsyncIterator[bytes]
    reply: ReplyTranslator
    # Headers of the backend's response that the client gets.
    headers: Headers
    # What was lost of the request.
    losses: tuple[Loss, ...]
    # Whose reasoning may be stored; None if it must not be.
    principal: Principal | None


async def call_backends(
    app: AppContext, call: Call, prepared: PreparedRequest, monitor: ExchangeMonitor
) -> Exchange:
    """Send a request along the first route that works."""
    *first, last = call.routes
    for route in first:
        try:
            return await _call_backend(app, call, prepared, route, monitor)
        except BackendUnreachableError as error:
            model = call.request.model
            LOG.warning(
                "backend unreachable, trying the next one", model=model, error=error.message
            )
    return await _call_backend(app, call, prepared, last, monitor)


async def _call_backend(
    app: AppContext,
    call: Call,
    prepared: PreparedRequest,
    route: Route,
    monitor: ExchangeMonitor,
    *,
    sealed: bool = True,
) -> Exchange:
    backend, record, model = route.backend, call.sink.record, call.request.model
    record.backend, record.backend_dialect = backend.name, backend.dialect.name
    record.redact = backend.redact
    opened = prepared
    if call.summary_sealer is not None:
        opened = _open_summaries(app, call, prepared, call.summary_sealer, backend)
    sealed = sealed and model not in backend.models_without_encrypted_reasoning
    read = read_client_request(
        _body_for(call, opened.body, backend),
        _translation_options(app, call, opened, backend, sealed=sealed),
    )
    stored = None
    if read.reasoning_keys and call.may_store:
        scope = reasoning_scope(backend, call.principal)
        stored = await app.store.reasoning_notes.find(scope, read.reasoning_keys)
    sent = write_backend_request(read, model=route.model, stored_reasoning=stored)
    losses = (*prepared.losses, *filter(opened.counts, sent.losses))
    record.losses = list(losses)
    forwarded = call.sink.headers
    if app.tracer is not None:
        forwarded = forwarded | app.tracer.start_span(record)
    headers = backend.request_headers(forwarded, call.principal)
    response = await backend.post(
        sent.body, headers, monitor, streams=sent.reply_plan.backend_streams
    )
    if sent.requests_encrypted_reasoning and response.status_code == HTTPStatus.BAD_REQUEST:
        monitor.expect_more()
        response = await read_refusal(response)
        if rejects_encrypted_reasoning(response.content):
            backend.note_refusal(model, response.content)
            return await _call_backend(app, call, prepared, route, monitor, sealed=False)
    return await _open_exchange(call, response, sent.reply_plan, losses, backend)


def _open_summaries(
    app: AppContext,
    call: Call,
    prepared: PreparedRequest,
    sealer: Sealer,
    backend: BackendClient,
) -> PreparedRequest:
    """Open the summaries in a request for one backend."""
    # A conversation keeps nothing beside its summary, so that replaces everything.
    whole = call.turn is not None and call.turn.conversation is not None
    opened = prepare_request(prepared.body, backend, sealer, app.ids, whole=whole)
    return replace(opened, final_stage=opened.final_stage or prepared.final_stage)


def _body_for(call: Call, body: RequestBody, backend: BackendClient) -> RequestBody:
    """Return the request without the fields that the gateway fulfils itself."""
    if not isinstance(call.saver, CompletionSaver):
        return body
    unsupported = backend.capabilities.unsupported_fields
    return without_stored_fields(body, unsupported, stateful=backend.dialect.stateful)


def _translation_options(
    app: AppContext,
    call: Call,
    opened: PreparedRequest,
    backend: BackendClient,
    *,
    sealed: bool,
) -> TranslationOptions:
    key = call.principal.key
    return TranslationOptions(
        call.request.dialect,
        backend.dialect,
        app.ids,
        opened.capabilities(backend),
        (key.replies if key else None) or app.config.replies,
        app.config.loss_policy,
        rewrite=backend.rewrite,
        sealer=app.sealing_keys.reasoning_sealer(backend.name) if sealed else None,
        response_overrides={} if call.turn is None else call.turn.overrides,
        final_stage=opened.final_stage,
        redact=backend.redact,
        keep_reply=isinstance(call.saver, CompletionSaver),
    )


async def _open_exchange(
    call: Call,
    response: httpx.Response,
    plan: ReplyPlan,
    losses: tuple[Loss, ...],
    backend: BackendClient,
) -> Exchange:
    headers, status, body = backend.headers_of(response), response.status_code, response.stream
    if status not in _SUCCESS and not _FIRST_ERROR <= status <= _LAST_STATUS:
        await response.aclose()
        why = f"unexpected status {status}"
        raise InvalidReplyError(None, f"the backend {backend.name} sent an invalid reply: {why}")
    if not isinstance(body, httpx.AsyncByteStream):
        raise TypeError("a response of an asynchronous transport has an asynchronous stream")
    call.sink.record.request_id = headers.get("x-request-id")
    # Backends that ignore the request for a stream, or stream without one, say so here.
    content_type = headers.get("content-type", "").lower()
    streamed = "event-stream" in content_type or (
        plan.backend_streams and "json" not in content_type
    )
    return Exchange(
        backend,
        status,
        body,
        # A backend may compress without being asked; otherwise this costs less than httpx.
        response.aiter_bytes() if "content-encoding" in headers else aiter(body),
        ReplyTranslator(plan, status=status, streamed=streamed),
        client_headers(headers),
        losses,
        call.principal if call.may_store else None,
    )
