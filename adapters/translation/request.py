"""Translate a client's request for a backend, and note what its reply depends on."""

from collections.abc import Mapping
from contextlib import suppress

from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.capabilities import GENERIC
from adapters.errors import DragomanError, InvalidRequestError, missing_field
from adapters.ir.types import EMPTY_REQUEST, ItemReference, Request
from adapters.losses import Loss, Losses
from adapters.reasoning.policy import NOT_FOR_THIS, ReasoningPolicy
from adapters.translation.fit import fit_to_capabilities, pair_tool_calls
from adapters.translation.plan import (
    ReplyPlan,
    TranslationOptions,
    emulate_for_backend,
    plan_reply,
    plan_translated,
)
from adapters.wire.json_object import RequestBody, parse_body

_TRUE = Raw(b"true")


class ClientRequest(Struct, frozen=True):
    """A client's request: read into the IR, or as it is where it passes through."""

    body: RequestBody
    options: TranslationOptions
    # EMPTY_REQUEST where the request passes through unread.
    request: Request
    losses: Losses
    reasoning: ReasoningPolicy
    # Keys under which the reasoning of earlier calls may have been stored.
    reasoning_keys: tuple[str, ...] = ()


class BackendRequest(Struct, frozen=True):
    """A request in the backend's dialect."""

    body: bytes
    losses: tuple[Loss, ...]
    reply_plan: ReplyPlan
    # The backend was asked for encrypted reasoning although the client did not ask for it.
    requests_encrypted_reasoning: bool = False


def read_client_request(body: RequestBody, options: TranslationOptions) -> ClientRequest:
    """Read a request into the IR, unless it passes through.

    Raises `InvalidRequestError` if it cannot be read, `UnsupportedRequestError` if it cannot be
    translated.
    """
    losses, reasoning = Losses(options.policy, options.client.names), options.reasoning_policy()
    if options.passes_requests:
        return ClientRequest(body, options, EMPTY_REQUEST, losses, reasoning)
    request = options.client.read_request(body, losses)
    keys = reasoning.storage_keys(request) if reasoning.may_have_stored else ()
    return ClientRequest(body, options, request, losses, reasoning, keys)


def write_backend_request(
    read: ClientRequest,
    *,
    model: str | None = None,
    stored_reasoning: Mapping[str, str] | None = None,
    ends_open: bool = False,
) -> BackendRequest:
    """Write a request for the backend, where the model may have another name.

    `stored_reasoning` is what was stored under `read.reasoning_keys`. A training example may end
    with the call that the model should make: with `ends_open`, that call gets no output.
    """
    if read.options.passes_requests:
        return _pass_request(read, model)
    options, losses, capabilities = read.options, read.losses, read.options.capabilities
    backend_streams = client_streams = bool(read.request.stream)
    if capabilities.streaming != "both":
        backend_streams = capabilities.streaming == "only"
    if client_streams and not backend_streams:
        losses.changed("stream", "streaming is not supported; the reply is sent at once")
    restored, requested = read.reasoning.restore(read.request, stored_reasoning or {}, losses)
    emulated = emulate_for_backend(restored, options, losses)
    plan = plan_translated(
        options, read.request, emulated, read.reasoning, backend_streams=backend_streams
    )
    request = _with_backend_settings(emulated.request, plan, model)
    same_dialect = options.client is options.backend
    if not (same_dialect and _continues_backend_state(request, options)):
        # A backend may itself remember calls that are not in the request.
        request = pair_tool_calls(
            request,
            losses,
            ends_open=ends_open,
            ids_matter=options.backend.has_call_ids and capabilities.tools == "native",
            call_ids=capabilities.call_id_format,
        )
    if ends_open and capabilities.alternating_roles:
        # The call at the end of a training example is its point.
        capabilities = replace(capabilities, alternating_roles=False)
    if capabilities is not GENERIC:
        request = fit_to_capabilities(request, capabilities, losses)
    written = options.backend.write_request(request, capabilities, losses)
    if not same_dialect:
        # Within one dialect the backend decides what a request must have.
        if not request.items and not request.instructions:
            raise InvalidRequestError(options.client.names["items"], "must not be empty")
        if request.model is None and not ends_open:
            raise missing_field("model")
    return BackendRequest(written, tuple(losses), plan, requested)


def _pass_request(read: ClientRequest, model: str | None) -> BackendRequest:
    """Pass a request on with the backend's model name, without what was sealed for another."""
    body, options = read.body, read.options
    losses: tuple[Loss, ...] = ()
    original = body.encode()
    stripped = read.reasoning.strip(original)
    if stripped is not original:
        body = parse_body(stripped)
        losses = (Loss("dropped", options.client.names["items"], NOT_FOR_THIS),)
    streams = body.fields.get("stream") == _TRUE
    request = EMPTY_REQUEST
    if streams or options.final_stage is not None:
        # Whether it makes sense is decided by the backend, which speaks its dialect.
        with suppress(DragomanError):
            request = options.client.read_request(body, Losses(None))
    written = stripped if model is None else body.encode(model=model)
    return BackendRequest(written, losses, plan_reply(options, request, streams=streams))


def _with_backend_settings(request: Request, plan: ReplyPlan, model: str | None) -> Request:
    """Return the request with what this backend is to be asked for."""
    options, changes = plan.options, dict[str, object]()
    if model is not None:
        changes["model"] = model
    if plan.backend_streams != plan.client_streams:
        changes["stream"] = plan.backend_streams or None
    if plan.backend_streams and options.capabilities.stream_options and not plan.passthrough:
        # Usage is requested wherever possible; the writer decides whether the client gets it.
        changes["include_usage"] = True
    same_dialect = options.client is options.backend
    if plan.request.store is None and same_dialect and options.client.stores_by_default:
        changes["store"] = True
    return replace(request, **changes) if changes else request


def _continues_backend_state(request: Request, options: TranslationOptions) -> bool:
    """Whether the backend itself remembers a part of the conversation."""
    named = any(extra.name in options.client.server_state_fields for extra in request.extras)
    return named or any(isinstance(item, ItemReference) for item in request.items)
