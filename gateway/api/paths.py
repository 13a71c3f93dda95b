"""How addresses are written down, and what is asked at them."""

from litestar import Request, WebSocket
from litestar.datastructures import State

# Nothing of ours is attached to either.
AnyRequest = Request[object, object, State]
AnySocket = WebSocket[object, object, State]

_VERSION = "/v1"


def versioned(path: str) -> list[str]:
    """Give an address with the version and without it; clients differ in what they add."""
    return [_VERSION + path, path]
