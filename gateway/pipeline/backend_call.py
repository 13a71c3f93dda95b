"""Send a request to the first backend that can be reached."""

from collections.abc import AsyncIterator
from http import HTTPStatus

import httpx
from msgspec import Struct
from msgspec.structs import replace

from adapters import (
    BackendRequest,
    InvalidReplyError,
    Loss,
    ReplyPlan,
    ReplyTranslator,
    Sealer,
    TranslationOptions,
    read_client_request,
    write_backend_request,
)
from adapters.translation.encrypted_reasoning import (
    rejects_encrypted_items,
    without_encrypted_reasoning,
)
from adapters.translation.refused_fields import emulated_fields, leave_out, refused_fields
from adapters.wire.error_body import CONTEXT_OVERFLOW
from gateway.backends.client import BackendClient, read_error_response, rejects_encrypted_reasoning
from gateway.backends.routing import Route
from gateway.compaction.overflow import next_shortening, shorten_results
from gateway.compaction.summary_request import PreparedRequest, prepare_request
from gateway.context import AppContext
from gateway.errors import BackendUnavailableError, BackendUnreachableError
from gateway.http.auth import Principal
from gateway.http.headers import Headers, client_headers, numbered_request
from gateway.http.monitor import ExchangeMonitor
from gateway.http.request_body import ParsedRequest
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.choice_requests import ChoiceRequests
from gateway.pipeline.persistence import CompletionSaver, Saver, without_stored_fields
from gateway.pipeline.responses import SUCCESS, is_stream, response_body, response_chunks
from gateway.pipeline.stored_reasoning import ReasoningOrigin, find_reasoning
from gateway.turns.turn import Turn

_LAST_STATUS = 599
# The statuses by which backends reject a field.
_REJECTED = frozenset(
    (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    )
)
# The limit of the fields that are left out because a backend rejected them in earlier attempts.
_MAX_LEFT_OUT = 16


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


class Attempt(Struct, frozen=True):
    """How a request is sent to one backend, after its errors in earlier attempts."""

    seals_reasoning: bool = True
    # The fields that the backend refused.
    left_out: frozenset[str] = frozenset()
    # Whether encrypted reasoning is left out, because the backend cannot decrypt it.
    drops_encrypted: bool = False
    # How often the results in a request for a summary were shortened.
    shortened: int = 0
    # The number of the request to this backend, from 1.
    number: int = 1


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


_FIRST_ATTEMPT = Attempt()


async def call_backends(
    app: AppContext, pending: PendingRequest, prepared: PreparedRequest, monitor: ExchangeMonitor
) -> Exchange:
    """Send a request to the first backend that can be reached."""
    *first, last = pending.routes
    for route in first:
        try:
            return await _call_backend(app, pending, prepared, route, monitor)
        except BackendUnreachableError as error:
            # The opened circuit has been logged.
            log = LOG.debug if isinstance(error, BackendUnavailableError) else LOG.warning
            log(
                "backend unreachable, trying the next one",
                backend=route.backend.name,
                model=pending.request.model,
                error=error.message,
                cause=str(error.__cause__ or ""),
            )
            pending.sink.record.failed_backends.append(route.backend.name)
    return await _call_backend(app, pending, prepared, last, monitor)


async def _call_backend(
    app: AppContext,
    pending: PendingRequest,
    prepared: PreparedRequest,
    route: Route,
    monitor: ExchangeMonitor,
    attempt: Attempt = _FIRST_ATTEMPT,
) -> Exchange:
    backend, record, model = route.backend, pending.sink.record, pending.request.model
    record.backend, record.backend_dialect = backend.name, backend.dialect.name
    record.redact = backend.redact
    opened = prepared
    if pending.summary_sealer is not None:
        opened = _open_summaries(app, pending, prepared, pending.summary_sealer, backend)
    losses, fitting = prepared.losses, opened
    if attempt.shortened:
        fitting = shorten_results(opened, attempt.shortened) or opened
        losses += fitting.losses
    origin = _reasoning_origin(pending, backend)
    sent = await _translate(app, pending, fitting, route, origin, attempt)
    losses = (*losses, *filter(opened.reports, sent.losses))
    record.losses = list(losses)
    forwarded = pending.sink.headers
    if app.tracer is not None:
        forwarded = forwarded | app.tracer.start_span(record)
    headers = backend.request_headers(forwarded, pending.principal)
    headers = numbered_request(headers, attempt.number)
    plan, requests = sent.reply_plan, None
    if plan.requests > 1:
        requests = ChoiceRequests(sent, backend, headers, monitor)
        response = await requests.first_response()
    else:
        response = await backend.post(sent.body, headers, monitor, streams=plan.backend_streams)
    if response.status_code in _REJECTED:
        monitor.expect_more()
        response = await read_error_response(response)
        following = _next_attempt(attempt, sent, response, opened, route, model)
        if following is not None:
            following = replace(following, number=attempt.number + 1)
            return await _call_backend(app, pending, prepared, route, monitor, following)
    elif attempt.left_out and response.status_code in SUCCESS:
        _note_refused_fields(attempt, backend, model, record)
    exchange = await _open_exchange(pending, response, plan, losses, origin)
    if requests is None or response.status_code not in SUCCESS:
        return exchange
    return replace(exchange, body=requests, chunks=aiter(requests), reply=requests.reply)


def _reasoning_origin(pending: PendingRequest, backend: BackendClient) -> ReasoningOrigin:
    principal = pending.principal if pending.may_store_reasoning else None
    same_dialect = backend.dialect is pending.request.dialect
    return ReasoningOrigin(backend, pending.request.model, principal, same_dialect)


async def _translate(
    app: AppContext,
    pending: PendingRequest,
    opened: PreparedRequest,
    route: Route,
    origin: ReasoningOrigin,
    attempt: Attempt,
) -> BackendRequest:
    """Translate a request for one backend, without the fields that the backend refuses."""
    backend, model, body = route.backend, pending.request.model, opened.body
    if isinstance(pending.saver, CompletionSaver):
        body = without_stored_fields(
            body, backend.capabilities.unsupported_fields, stateful=backend.dialect.stateful
        )
    refused = attempt.left_out | backend.refused_fields.of(model)
    options = _translation_options(app, pending, opened, backend, attempt)
    if emulated := refused & emulated_fields(options) & body.fields.keys():
        options = options.without_fields(emulated)
    read = read_client_request(body, options)
    stored = await find_reasoning(app, read, origin)
    sent = write_backend_request(read, model=route.model, stored_reasoning=stored)
    if attempt.drops_encrypted:
        sent = without_encrypted_reasoning(sent) or sent
    return leave_out(sent, refused, body) if refused else sent


def _next_attempt(
    attempt: Attempt,
    sent: BackendRequest,
    response: httpx.Response,
    opened: PreparedRequest,
    route: Route,
    model: str,
) -> Attempt | None:
    """Return how to send a rejected request again; None if that would not help."""
    backend, body = route.backend, response.content
    error = backend.dialect.read_error(response.status_code, body)
    if opened.summarizes and error.code == CONTEXT_OVERFLOW:
        times = next_shortening(opened, attempt.shortened)
        return None if times is None else replace(attempt, shortened=times)
    if not attempt.drops_encrypted and rejects_encrypted_items(error):
        has_encrypted = without_encrypted_reasoning(sent) is not None
        return replace(attempt, drops_encrypted=True) if has_encrypted else None
    if (
        sent.requests_encrypted_reasoning
        and response.status_code == HTTPStatus.BAD_REQUEST
        and rejects_encrypted_reasoning(body)
    ):
        backend.note_reasoning_error(model, body)
        return replace(attempt, seals_reasoning=False)
    refused = refused_fields(error, sent)
    if not refused or len(attempt.left_out | refused) > _MAX_LEFT_OUT:
        return None
    return replace(attempt, left_out=attempt.left_out | refused)


def _note_refused_fields(
    attempt: Attempt, backend: BackendClient, model: str, record: ExchangeRecord
) -> None:
    """Remember the fields without which a request succeeded."""
    fields = sorted(attempt.left_out)
    LOG.warning("fields refused by backend", backend=backend.name, model=model, fields=fields)
    backend.refused_fields.add(model, fields)
    record.refused_fields = fields


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
    attempt: Attempt,
) -> TranslationOptions:
    key, model = pending.principal.key, pending.request.model
    seals_reasoning = (
        attempt.seals_reasoning and model not in backend.models_without_encrypted_reasoning
    )
    return TranslationOptions(
        pending.request.dialect,
        backend.dialect,
        app.ids,
        opened.capabilities(backend),
        (key.replies if key else None) or app.config.replies,
        app.config.loss_policy,
        rewrite=backend.rewrite,
        repair=backend.config.repair,
        sealer=app.sealing_keys.reasoning_sealer(backend.name) if seals_reasoning else None,
        response_overrides={} if pending.turn is None else pending.turn.overrides,
        final_stage=opened.final_stage,
        redact=backend.redact,
        keep_reply=isinstance(pending.saver, CompletionSaver),
        max_choices=backend.config.max_choices,
        transforms=backend.transforms,
    )


async def _open_exchange(
    pending: PendingRequest,
    response: httpx.Response,
    plan: ReplyPlan,
    losses: tuple[Loss, ...],
    origin: ReasoningOrigin,
) -> Exchange:
    backend = origin.backend
    headers, status = backend.headers_of(response), response.status_code
    if status not in SUCCESS and not HTTPStatus.BAD_REQUEST <= status <= _LAST_STATUS:
        await response.aclose()
        why = f"unexpected status {status}"
        raise InvalidReplyError(None, f"the backend {backend.name} sent an invalid reply: {why}")
    pending.sink.record.request_id = headers.get("x-request-id")
    streamed = is_stream(headers.get("content-type", ""), requested=plan.backend_streams)
    return Exchange(
        backend,
        status,
        response_body(response),
        response_chunks(response, compressed="content-encoding" in headers),
        ReplyTranslator(plan, status=status, streamed=streamed),
        client_headers(headers),
        losses,
        origin,
    )
