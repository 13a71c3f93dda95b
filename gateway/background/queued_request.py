"""What is kept of a request until it is answered: enough to answer it on another node."""

from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import read_body
from gateway.background.errors import DecryptionError
from gateway.crypto.sealing import KeyRing
from gateway.http.auth import Principal
from gateway.http.headers import backend_headers
from gateway.store import NOTHING, Item, Response
from gateway.turns.credentials import concealed_tools
from gateway.turns.turn import Turn


class QueuedRequest(Struct, frozen=True, omit_defaults=True):
    """One request, as the store keeps it with its response."""

    # For the backend.
    body: Raw
    stamp: dict[str, object]
    # What the client says that it continues, and how many items of the body come from there.
    previous: str | None = None
    before: int = 0
    # What the backend may see of the client's headers.
    headers: dict[str, str] = {}
    # The body as it is, sealed, where it holds what is to be kept nowhere; then there is no other.
    sealed: str | None = None
    # The client's own Authorization, where that goes to the backend: sealed, never as it is.
    authorization: str | None = None


# Where nothing else is known of a response, it can still be ended.
NOTHING_KEPT: Final = QueuedRequest(Raw(b"{}"), {})
# Stands where a body stood that is sealed.
_SEALED: Final = Raw(b"{}")

_KEPT: Final = msgspec.json.Decoder(QueuedRequest)
_ENCODER: Final = msgspec.json.Encoder()


def queue_request(
    plan: Turn, caller: Principal, headers: dict[str, str], sealer: KeyRing
) -> QueuedRequest:
    """Gather what it takes to answer a request."""
    seal = sealer.for_job(plan.owner, plan.response_id)
    authorization = None
    if caller.authorization is not None:
        authorization = seal.seal(caller.authorization.encode("latin-1"))
    # However the client wants to be told: here every event is to be seen.
    body = read_body(plan.body).encode_with(stream=True)
    return QueuedRequest(
        body=Raw(body),
        stamp=plan.stamp | {"created_at": plan.created},
        previous=plan.previous,
        before=len(plan.history),
        headers=_shown(headers),
        sealed=seal.seal(body) if concealed_tools(body) is not None else None,
        authorization=authorization,
    )


def _shown(headers: dict[str, str]) -> dict[str, str]:
    """Pick what a backend may see; nothing else of a client's headers is written down."""
    return {name.decode(): value.decode("latin-1") for name, value in backend_headers(headers)}


def write_kept(kept: QueuedRequest) -> Raw:
    """Write it down."""
    return Raw(_ENCODER.encode(kept if kept.sealed is None else replace(kept, body=_SEALED)))


def read_kept(request: Raw) -> QueuedRequest | None:
    """Read it again; None if another version of the gateway wrote it in its own way."""
    try:
        return _KEPT.decode(request)
    except DECODE_ERRORS:
        return None


def opened(kept: QueuedRequest, response: Response, sealer: KeyRing) -> QueuedRequest:
    """Give it with the body as it was; raise `Unopened` if that was sealed with a key of others."""
    if kept.sealed is None:
        return kept
    body = sealer.for_job(response.owner, response.id).open(kept.sealed)
    if body is None:
        raise DecryptionError(None, "this request was sealed with a key not known here")
    return replace(kept, body=Raw(body))


def plan_of(kept: QueuedRequest, response: Response) -> Turn:
    """Give the plan again; the items that came with it are in the store already."""
    return Turn(
        owner=response.owner,
        model=response.model,
        body=bytes(kept.body),
        store=True,
        background=True,
        stream=True,
        response_id=response.id,
        created=response.created,
        previous=kept.previous,
        parent=response.parent,
        conversation=response.conversation,
        input=(),
        # Only how many there are is asked, to name places as the client knows them.
        history=(Item("", NOTHING),) * kept.before,
        stamp=kept.stamp,
    )


def authorization_of(kept: QueuedRequest, response: Response, sealer: KeyRing) -> str | None:
    """Open what authorises the work; raise `Unopened` if it was sealed with a key of others."""
    if kept.authorization is None:
        return None
    opened = sealer.for_job(response.owner, response.id).open(kept.authorization)
    if opened is None:
        raise DecryptionError(
            None, "what authorises this request was sealed with a key not known here"
        )
    return opened.decode("latin-1")
