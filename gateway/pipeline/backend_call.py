"""Send a request to the first backend that can be reached."""

from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus

import httpx
from msgspec import Struct
from msgspec.structs import replace

from adapters import (
    InvalidReplyError,
    Loss,
    ReplyOptions,
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
from gateway.compaction.summary_request import (
    PreparedRequest,
    mentions_compaction,
    prepare_request,
)
from gateway.context import AppContext
from gateway.errors import BackendUnreachableError
from gateway.http.auth import Principal
from gateway.http.create_request import ParsedRequest
from gateway.http.headers import backend_headers, client_headers
from gateway.http.monitor import ExchangeMonitor
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.pipeline.exchange import Exchange, body_of
from gateway.pipeline.persistence import (
    CompletionSaver,
    ConnectionSaver,
    ResponseSaver,
    Saver,
    completion_saver,
    without_stored_fields,
)
from gateway.pipeline.request import Request
from gateway.turns.turn import Turn

_FIRST_ERROR = HTTPStatus.BAD_REQUEST
_LAST_STATUS = 599
# Some frameworks answer every POST with 201 by default.
_SUCCESS = frozenset((200, 201, 202, 203))


class Call(Struct, frozen=True):
    """One request of one client."""

    principal: Principal
    sink: ReplySink
    turn: Turn | None
    # Opens and seals the client's summaries; None if the request has nothing to do with any.
    summary_sealer: Sealer | None
    # Saves the reply.
    saver: Saver | None
    # Whether the client allows the gateway to store anything.
    may_store: bool


def start_call(
    app: AppContext,
    given: Request,
    request: ParsedRequest,
    turn: Turn | None,
    sink: ReplySink,
) -> Call:
    """Decide what is saved of the reply, and whether summaries have to be opened."""
    principal, sealer = given.principal, None
    if request.dialect.stateful and mentions_compaction(request.body):
        sealer = app.sealing_keys.summary_sealer(principal.owner)
    if request.dialect.stateful:
        may_store = turn is not None and turn.store
    else:
        may_store = request.store is not False
    saver = _choose_saver(app, given, request, turn)
    return Call(principal, sink, turn, sealer, saver, may_store)


def _choose_saver(
    app: AppContext, given: Request, request: ParsedRequest, turn: Turn | None
) -> Saver | None:
    if request.dialect.stateful:
        if turn is None or given.turn is not None:
            # Whoever gave the turn saves the reply.
            return None
        if turn.store:
            return ResponseSaver(app, turn)
        return None if given.cache is None else ConnectionSaver(given.cache, turn)
    if request.store:
        return completion_saver(app, given.principal.owner, request.body, request.model)
    return None


async def call_backends(
    app: AppContext,
    call: Call,
    request: ParsedRequest,
    prepared: PreparedRequest,
    routes: Sequence[Route],
    monitor: ExchangeMonitor,
) -> Exchange:
    """Send a request along the first route that works."""
    *first, last = routes
    for route in first:
        try:
            return await _call_backend(app, call, request, prepared, route, monitor)
        except BackendUnreachableError as error:
            LOG.warning(
                "backend unreachable, trying the next one", model=request.model, error=error.message
            )
    return await _call_backend(app, call, request, prepared, last, monitor)


async def _call_backend(  # noqa: PLR0913 - the values of one step, and the last a retry
    app: AppContext,
    call: Call,
    request: ParsedRequest,
    prepared: PreparedRequest,
    route: Route,
    monitor: ExchangeMonitor,
    *,
    sealed: bool = True,
) -> Exchange:
    backend, record = route.backend, call.sink.record
    record.backend, record.backend_dialect = backend.name, backend.dialect.name
    record.redact = backend.redact
    opened = _open_summaries(app, call, prepared, backend)
    options = _translation_options(app, call, request, opened, backend, sealed=sealed)
    read = read_client_request(_body_for(call, opened.body, backend), options)
    scope = f"{backend.name} {call.principal.owner}" if call.may_store else None
    stored = None
    if scope is not None and read.reasoning_keys:
        stored = await app.store.reasoning_notes.find(scope, read.reasoning_keys)
    sent = write_backend_request(read, model=route.model, stored_reasoning=stored)
    losses = (*prepared.losses, *(loss for loss in sent.losses if opened.counts(loss)))
    record.losses = list(losses)
    forwarded = call.sink.headers
    if app.tracer is not None:
        forwarded = forwarded | app.tracer.start_span(record)
    headers = [*backend_headers(forwarded), *backend.authorization(call.principal)]
    response = await backend.post(sent.body, headers, monitor, streams=sent.streams)
    if sent.requests_encrypted_reasoning and response.status_code == HTTPStatus.BAD_REQUEST:
        monitor.expect_more()
        response = await read_refusal(response)
        if rejects_encrypted_reasoning(response.content):
            backend.note_refusal(request.model, response.content)
            return await _call_backend(app, call, request, prepared, route, monitor, sealed=False)
    exchange = _open_exchange(response, sent.reply_plan, losses, backend, scope)
    record.request_id = exchange.request_id
    return exchange


def _open_summaries(
    app: AppContext, call: Call, prepared: PreparedRequest, backend: BackendClient
) -> PreparedRequest:
    """Open the summaries in a request for one backend; most requests have none."""
    if call.summary_sealer is None:
        return prepared
    # A conversation keeps nothing beside its summary, so that replaces everything.
    whole = call.turn is not None and call.turn.conversation is not None
    opened = prepare_request(prepared.body, backend, call.summary_sealer, app.ids, whole=whole)
    if opened.final_stage is None:
        return replace(opened, final_stage=prepared.final_stage)
    return opened


def _translation_options(
    app: AppContext,
    call: Call,
    request: ParsedRequest,
    opened: PreparedRequest,
    backend: BackendClient,
    *,
    sealed: bool,
) -> TranslationOptions:
    sealed = sealed and not backend.lacks_encrypted_reasoning(request.model)
    return TranslationOptions(
        request.dialect,
        backend.dialect,
        app.ids,
        opened.capabilities(backend),
        _reply_options(app, call.principal),
        app.config.loss_policy,
        rewrite=backend.rewrite,
        sealer=app.sealing_keys.reasoning_sealer(backend.name) if sealed else None,
        response_overrides={} if call.turn is None else call.turn.overrides,
        final_stage=opened.final_stage,
        redact=backend.redact,
        keep_reply=isinstance(call.saver, CompletionSaver),
    )


def _reply_options(app: AppContext, principal: Principal) -> ReplyOptions:
    own = principal.key.replies if principal.key else None
    return own or app.config.replies


def _body_for(call: Call, body: RequestBody, backend: BackendClient) -> RequestBody:
    """Return the request without the fields that the gateway fulfils itself."""
    if not isinstance(call.saver, CompletionSaver):
        return body
    return without_stored_fields(body, backend)


def _open_exchange(
    response: httpx.Response,
    plan: ReplyPlan,
    losses: tuple[Loss, ...],
    backend: BackendClient,
    scope: str | None,
) -> Exchange:
    headers, status = backend.headers_of(response), response.status_code
    if status not in _SUCCESS and not _FIRST_ERROR <= status <= _LAST_STATUS:
        why = f"it answered with status {status}, which says neither yes nor no"
        raise InvalidReplyError(None, f"the backend {backend.name} cannot be read: {why}")
    streamed = _is_streamed(headers, backend_streams=plan.backend_streams)
    return Exchange(
        backend,
        response,
        _iterate(response, headers),
        ReplyTranslator(plan, status=status, streamed=streamed),
        client_headers(headers),
        headers.get("x-request-id"),
        losses,
        scope,
    )


def _is_streamed(headers: dict[str, str], *, backend_streams: bool) -> bool:
    """Whether a backend sends a stream, by its content type or else by what was requested."""
    content_type = headers.get("content-type", "").lower()
    if "event-stream" in content_type:
        return True
    return backend_streams and "json" not in content_type


def _iterate(response: httpx.Response, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """Iterate over the body; decompress it if a backend compresses without being asked."""
    if "content-encoding" in headers:
        return response.aiter_bytes()
    return aiter(body_of(response))
