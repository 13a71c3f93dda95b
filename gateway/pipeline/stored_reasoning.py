"""Reasoning that the gateway stores, for clients that do not send it back themselves."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from adapters import ClientRequest, Loss
from gateway.backends.client import BackendClient
from gateway.context import AppContext
from gateway.http.auth import Principal
from gateway.observability.logging import LOG
from gateway.store import StoreUnavailableError

_NOT_STORED: Final = Loss(
    "dropped",
    "store",
    "reasoning that the backend may require with its calls is not stored; use `store: true`, or"
    " `reasoning.encrypted_content` with the Responses API",
)


class ReasoningOrigin(Struct, frozen=True):
    """The model whose reasoning is stored, and the client that it is stored for."""

    backend: BackendClient
    # The model by the client's name.
    model: str
    # None if the client does not allow the gateway to store reasoning.
    principal: Principal | None
    # Whether the client has the backend's dialect, and so receives all of the reasoning.
    same_dialect: bool


async def find_reasoning(
    app: AppContext, read: ClientRequest, origin: ReasoningOrigin
) -> Mapping[str, str]:
    """Return the stored reasoning for the calls in a request."""
    notes, backend, principal = app.store.reasoning_notes, origin.backend, origin.principal
    if principal is None:
        return {}
    try:
        if origin.same_dialect and not await notes.has_model(backend.name, origin.model):
            return {}
        keys = read.reasoning_keys()
        return await notes.find(_scope(backend, principal), keys) if keys else {}
    except StoreUnavailableError as error:
        if not origin.same_dialect:
            raise
        # A request without stored state is served without the database, too.
        LOG.warning("stored reasoning not available", backend=backend.name, error=str(error))
        return {}


async def save_reasoning(
    app: AppContext, reasoning: Mapping[str, str], origin: ReasoningOrigin
) -> list[Loss]:
    """Store the reasoning of a reply, by call; return the losses."""
    notes, backend, principal = app.store.reasoning_notes, origin.backend, origin.principal
    if principal is None:
        return [] if origin.same_dialect else [_NOT_STORED]
    try:
        if origin.same_dialect:
            await notes.add_model(backend.name, origin.model)
        await notes.save(_scope(backend, principal), reasoning)
    except StoreUnavailableError as error:
        if not origin.same_dialect:
            raise
        LOG.warning("reasoning not stored", backend=backend.name, error=str(error))
    return []


def _scope(backend: BackendClient, principal: Principal) -> str:
    """Return the scope in which the reasoning of a backend is stored for a client."""
    return f"{backend.name} {principal.owner}"
