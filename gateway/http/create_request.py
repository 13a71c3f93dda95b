"""Parse a create request: one top-level decode, its dialect, its model."""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import DIALECTS, Dialect, InvalidRequestError, RequestBody, parse_body
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import NULL

_TEXT: Final = msgspec.json.Decoder(str)
_TRUE: Final = Raw(b"true")
_VERSION: Final = "/v1"


class ParsedRequest(Struct, frozen=True):
    """A create request after its only top-level decode."""

    body: RequestBody
    dialect: Dialect
    # Empty if the request does not name one; a stored conversation may.
    model: str

    @property
    def store(self) -> bool | None:
        """The field `store`; None if it is absent or no boolean."""
        raw = self.body.fields.get("store", NULL)
        return {b"true": True, b"false": False}.get(bytes(raw))

    @property
    def stream(self) -> bool:
        """Whether the client asks for a stream."""
        return self.body.fields.get("stream") == _TRUE


def parse_request(body: bytes | RequestBody, path: str) -> ParsedRequest:
    """Parse a request to the endpoint of one or several dialects.

    Raises `InvalidRequestError` if the body is malformed or belongs to another endpoint.
    """
    parsed = parse_body(body) if isinstance(body, bytes) else body
    candidates = [dialect for dialect in DIALECTS.values() if dialect.path == path]
    if parsed.items is None and parsed.fields.get(candidates[0].names["items"], NULL) == NULL:
        _check_endpoint(parsed, path)
    dialect = next(one for one in candidates if one.matches(parsed))
    return ParsedRequest(parsed, dialect, _read_model(parsed))


def _check_endpoint(body: RequestBody, path: str) -> None:
    """Raise an error if a body belongs to another endpoint."""
    for other in DIALECTS.values():
        field = other.names["items"]
        if other.path != path and body.fields.get(field, NULL) != NULL:
            why = f"is not supported by this endpoint; send the request to {_VERSION}{other.path}"
            raise InvalidRequestError(field, why)


def _read_model(body: RequestBody) -> str:
    raw = body.fields.get("model", NULL)
    if raw == NULL:
        return ""
    try:
        return _TEXT.decode(raw)
    except DECODE_ERRORS:
        raise InvalidRequestError("model", "must be a string") from None
