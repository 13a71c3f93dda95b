"""The stored request of a background response, with which any node can serve it."""

from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters import parse_body
from adapters.json_text import DECODE_ERRORS
from adapters.responses import RESPONSES
from adapters.responses.request_reader import input_items
from gateway.crypto import SealingKeys
from gateway.errors import DecryptionError
from gateway.http.auth import Principal
from gateway.http.headers import backend_headers
from gateway.http.request_body import ParsedRequest
from gateway.store import Response
from gateway.turns.tool_credentials import redacted_tools
from gateway.turns.turn import Turn


class QueuedRequest(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "overrides": "stamp",
        "history_length": "before",
        "sealed_body": "sealed",
        "sealed_authorization": "authorization",
    },
):
    """One request; renamed fields keep the names that existing databases contain."""

    # The request for the backend; empty if it is sealed.
    body: Raw
    # Fields of the response object that the gateway sets.
    overrides: dict[str, object]
    # How many items of the body come from earlier turns.
    history_length: int = 0
    # The headers of the client that a backend may see.
    headers: dict[str, str] = {}
    # The body, if it contains credentials.
    sealed_body: str | None = None
    # The client's Authorization header, if it is forwarded to the backend.
    sealed_authorization: str | None = None


_DECODER: Final = msgspec.json.Decoder(QueuedRequest)


def encode_request(
    turn: Turn, principal: Principal, headers: dict[str, str], keys: SealingKeys
) -> Raw:
    """Return the stored form of a request."""
    sealer = keys.job_sealer(turn.owner, turn.response_id)
    authorization, body = principal.authorization, turn.request.body
    if authorization is not None:
        authorization = sealer.seal(authorization.encode("latin-1"))
    # The events are recorded even if the client does not stream them.
    encoded = body.encode(stream=True)
    has_credentials = redacted_tools(body) is not None
    queued = QueuedRequest(
        body=Raw(b"{}" if has_credentials else encoded),
        overrides=turn.overrides | {"created_at": turn.created},
        history_length=len(turn.history),
        headers={n.decode(): value.decode("latin-1") for n, value in backend_headers(headers)},
        sealed_body=sealer.seal(encoded) if has_credentials else None,
        sealed_authorization=authorization,
    )
    return Raw(msgspec.json.encode(queued))


def decode_request(request: Raw) -> QueuedRequest | None:
    """Decode the stored form of a request; None if an incompatible version wrote it."""
    try:
        return _DECODER.decode(request)
    except DECODE_ERRORS:
        return None


def open_authorization(queued: QueuedRequest, response: Response, keys: SealingKeys) -> str | None:
    """Return the client's Authorization header; raise `DecryptionError` if no key opens it."""
    if queued.sealed_authorization is None:
        return None
    opened = keys.job_sealer(response.owner, response.id).open(queued.sealed_authorization)
    if opened is None:
        message = "the credentials of the queued request were sealed with an unknown key"
        raise DecryptionError(None, message)
    return opened.decode("latin-1")


def open_turn(queued: QueuedRequest, response: Response, keys: SealingKeys) -> Turn:
    """Return the turn of a queued request; raise `DecryptionError` if no key opens it."""
    encoded: bytes | None = bytes(queued.body)
    if queued.sealed_body is not None:
        encoded = keys.job_sealer(response.owner, response.id).open(queued.sealed_body)
    if encoded is None:
        raise DecryptionError(None, "the queued request was sealed with an unknown key")
    body, length = parse_body(encoded), queued.history_length
    items = tuple(
        replace(item, path=f"history[{i}]" if i < length else f"input[{i - length}]")
        for i, item in enumerate(input_items(body))
    )
    return Turn(
        owner=response.owner,
        request=ParsedRequest(replace(body, items=items, raw=None), RESPONSES, response.model),
        store=True,
        background=True,
        stream=True,
        response_id=response.id,
        created=response.created,
        parent=response.parent,
        conversation=response.conversation,
        # The items are stored already.
        input=(),
        history=(),
        overrides=queued.overrides,
    )
