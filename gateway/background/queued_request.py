"""The request of a background response as it is stored: enough to serve it on another node."""

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

_NO_BODY: Final = Raw(b"{}")


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
    """One request; the renamed fields have the names of older databases."""

    # The request for the backend; empty if it is sealed.
    body: Raw
    # Fields of the response object that the gateway decides.
    overrides: dict[str, object]
    # How many items of the body come from earlier turns.
    history_length: int = 0
    # The headers of the client that a backend may see.
    headers: dict[str, str] = {}
    # The body, if it contains credentials.
    sealed_body: str | None = None
    # The client's own Authorization, if that goes to the backend.
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
    # Every event is recorded, whether or not the client streams.
    encoded = body.encode(stream=True)
    shown_headers = backend_headers(headers)
    has_credentials = redacted_tools(body) is not None
    queued = QueuedRequest(
        body=_NO_BODY if has_credentials else Raw(encoded),
        overrides=turn.overrides | {"created_at": turn.created},
        history_length=len(turn.history),
        headers={name.decode(): value.decode("latin-1") for name, value in shown_headers},
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
    """Return the client's Authorization; raise `DecryptionError` if no known key opens it."""
    if queued.sealed_authorization is None:
        return None
    opened = keys.job_sealer(response.owner, response.id).open(queued.sealed_authorization)
    if opened is None:
        message = "the credentials of the queued request were sealed with an unknown key"
        raise DecryptionError(None, message)
    return opened.decode("latin-1")


def open_turn(queued: QueuedRequest, response: Response, keys: SealingKeys) -> Turn:
    """Return the turn of a queued request; raise `DecryptionError` if no known key opens it."""
    encoded: bytes | None = bytes(queued.body)
    if queued.sealed_body is not None:
        encoded = keys.job_sealer(response.owner, response.id).open(queued.sealed_body)
    if encoded is None:
        raise DecryptionError(None, "the queued request was sealed with an unknown key")
    body, before = parse_body(encoded), queued.history_length
    items = tuple(
        replace(item, path=f"history[{i}]" if i < before else f"input[{i - before}]")
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
