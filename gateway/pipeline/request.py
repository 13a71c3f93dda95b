"""A create request as the pipeline gets it."""

from msgspec import Struct

from adapters import RequestBody
from gateway.http.auth import Principal
from gateway.turns.response_cache import ResponseCache
from gateway.turns.turn import Turn


class Request(Struct, frozen=True):
    """A create request, and what is already known about it."""

    endpoint: str
    principal: Principal
    body: bytes | RequestBody
    # Set by callers that save the reply themselves, such as background jobs.
    turn: Turn | None = None
    # Responses that the client's connection remembers.
    cache: ResponseCache | None = None
