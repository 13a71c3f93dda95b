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
    Sealer,
    TranslationOptions,
    read_client_request,
    write_backend_request,
)
from gateway.backends.client import BackendClient, read_error_response, rejects_encrypted_reasoning
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
from gateway.pipeline.persistence import CompletionSaver, Saver, without_stored_fields
from gateway.pipeline.stored_reasoning import ReasoningOrigin, find_reasoning
from gateway.turns.turn import Turn

_LAST_STATUS = 599
# Not only 200, because some frameworks reply to every POST with 201 by default.
_SUCCESS = frozenset((200, 201, 202, 203))


class PendingRequest(Struct, frozen=True):
    """A request that is ready to be sent to a backend."""

    principal: Principal
    sink: ReplySink
    request: ParsedRequest
    turn: Turn | None
    # In order of preference.
    routes: tuple[Route, ...]
    # Opens and seals the client's summaries; None if the request does not mention compaction.
    summary_sealer: Sealer | None
    # None if the reply is not saved.
    saver: Saver | None
    # Whether the client allows the gateway to store reasoning.
    may_store_reasoning: bool


class Exchange(Struct, frozen=True):
    """A request that was sent, and the backend's open response."""

    backend: BackendClient
    status: int
    # The body of the response, which must be closed, and its decompressed chunks.
    body: httpx.AsyncByteStream
    chunks: AsyncIterator[bytes]
    reply: ReplyTranslator
    # The headers of the backend's response that are forwarded to the client.
    headers: Headers
    # The losses of the translated request.
    losses: tuple[Loss, ...]
    origin: ReasoningOrigin


async def call_backends(
    app: AppContext, pending: PendingRequest, prepared: PreparedRequest, monitor: ExchangeMonitor
) -> Exchange:
    """Send a request to the first backend that can be reached."""
    *first, last = pending.routes
    for route in first:
        try:
            return await _call_backend(app, pending, prepared, route, monitor)
        except BackendUnreachableError as error:
            LOG.warning(
                "backend unreachable, trying the next one",
                backend=route.backend.name,
                model=pending.request.model,
                error=error.message,
            )
    return await _call_backend(app, pending, prepared, last, monitor)


async def _call_backend(
    app: AppContext,
    pending: PendingRequest,
    prepared: PreparedRequest,
    route: Route,
    monitor: ExchangeMonitor,
    *,
    seals_reasoning: bool = True,
) -> Exchange:
    backend, record, model = route.backend, pending.sink.record, pending.request.model
    record.backend, record.backend_dialect = backend.name, backend.dialect.name
    record.redact = backend.redact
    opened = prepared
    if pending.summary_sealer is not None:
        opened = _open_summaries(app, pending, prepared, pending.summary_sealer, backend)
    seals_reasoning = seals_reasoning and model not in backend.models_without_encrypted_reasoning
    body = opened.body
    if isinstance(pending.saver, CompletionSaver):
        body = without_stored_fields(
            body, backend.capabilities.unsupported_fields, stateful=backend.dialect.stateful
        )
    options = _translation_options(app, pending, opened, backend, seals_reasoning=seals_reasoning)
    read = read_client_request(body, options)
    origin = _reasoning_origin(pending, backend)
    stored = await find_reasoning(app, read, origin)
    sent = write_backend_request(read, model=route.model, stored_reasoning=stored)
    losses = (*prepared.losses, *filter(opened.reports, sent.losses))
    record.losses = list(losses)
    forwarded = pending.sink.headers
    if app.tracer is not None:
        forwarded = forwarded | app.tracer.start_span(record)
    headers = backend.request_headers(forwarded, pending.principal)
    response = await backend.post(
        sent.body, headers, monitor, streams=sent.reply_plan.backend_streams
    )
    if sent.requests_encrypted_reasoning and response.status_code == HTTPStatus.BAD_REQUEST:
        monitor.expect_more()
        response = await read_error_response(response)
        if rejects_encrypted_reasoning(response.content):
            backend.note_reasoning_error(model, response.content)
            return await _call_backend(
                app, pending, prepared, route, monitor, seals_reasoning=False
            )
    return await _open_exchange(pending, response, sent.reply_plan, losses, origin)


def _reasoning_origin(pending: PendingRequest, backend: BackendClient) -> ReasoningOrigin:
    principal = pending.principal if pending.may_store_reasoning else None
    same_dialect = backend.dialect is pending.request.dialect
    return ReasoningOrigin(backend, pending.request.model, principal, same_dialect)


def _open_summaries(
    app: AppContext,
    pending: PendingRequest,
    prepared: PreparedRequest,
    sealer: Sealer,
    backend: BackendClient,
) -> PreparedRequest:
    """Open the gateway's summaries in a request for one backend."""
    # A summary in a stored conversation replaces all earlier items, also the messages of users.
    whole = pending.turn is not None and pending.turn.conversation is not None
    opened = prepare_request(prepared.body, backend, sealer, app.ids, whole=whole)
    return replace(opened, final_stage=opened.final_stage or prepared.final_stage)


def _translation_options(
    app: AppContext,
    pending: PendingRequest,
    opened: PreparedRequest,
    backend: BackendClient,
    *,
    seals_reasoning: bool,
) -> TranslationOptions:
    key = pending.principal.key
    return TranslationOptions(
        pending.request.dialect,
        backend.dialect,
        app.ids,
        opened.capabilities(backend),
        (key.replies if key else None) or app.config.replies,
        app.config.loss_policy,
        rewrite=backend.rewrite,
        sealer=app.sealing_keys.reasoning_sealer(backend.name) if seals_reasoning else None,
        response_overrides={} if pending.turn is None else pending.turn.overrides,
        final_stage=opened.final_stage,
        redact=backend.redact,
        keep_reply=isinstance(pending.saver, CompletionSaver),
    )


async def _open_exchange(
    pending: PendingRequest,
    response: httpx.Response,
    plan: ReplyPlan,
    losses: tuple[Loss, ...],
    origin: ReasoningOrigin,
) -> Exchange:
    backend = origin.backend
    headers, status, body = backend.headers_of(response), response.status_code, response.stream
    if status not in _SUCCESS and not HTTPStatus.BAD_REQUEST <= status <= _LAST_STATUS:
        await response.aclose()
        why = f"unexpected status {status}"
        raise InvalidReplyError(None, f"the backend {backend.name} sent an invalid reply: {why}")
    if not isinstance(body, httpx.AsyncByteStream):
        raise TypeError("a response of an asynchronous transport has an asynchronous stream")
    pending.sink.record.request_id = headers.get("x-request-id")
    # A backend may ignore the requested form, so the content type decides.
    content_type = headers.get("content-type", "").lower()
    streamed = "event-stream" in content_type or (
        plan.backend_streams and "json" not in content_type
    )
    return Exchange(
        backend,
        status,
        body,
        # Without compression, reading the body directly costs less than with httpx.
        response.aiter_bytes() if "content-encoding" in headers else aiter(body),
        ReplyTranslator(plan, status=status, streamed=streamed),
        client_headers(headers),
        losses,
        origin,
    )
