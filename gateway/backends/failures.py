"""The errors for requests that a backend's transport could not send or complete."""

import errno
import socket
import ssl
from typing import Final

import httpx

from gateway.errors import (
    BackendDisconnectedError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    GatewayError,
    OutOfResourcesError,
    causes_of,
)

# The errors of a system that cannot open another connection.
_RESOURCE_ERRORS: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
# The time after which a connection of a full pool may be free.
_POOL_RETRY_SECONDS: Final = 1


def connection_error(failure: httpx.TransportError, backend: str) -> GatewayError:
    """Return the error for the client. It has the kind of the failure, but no address."""
    causes = causes_of(failure)
    if any(isinstance(one, OSError) and one.errno in _RESOURCE_ERRORS for one in causes):
        return OutOfResourcesError(None, "the gateway cannot open another connection")
    match failure:
        case httpx.PoolTimeout():
            message = f"all connections to the backend {backend} are in use"
            return BackendUnavailableError(message, retry_after=_POOL_RETRY_SECONDS)
        case httpx.ConnectTimeout():
            return BackendUnreachableError(None, f"connecting to the backend {backend} timed out")
        case httpx.ConnectError() | httpx.ProxyError():
            reason = next(filter(None, map(_reason, causes)), "the connection failed")
            return BackendUnreachableError(
                None, f"cannot connect to the backend {backend}: {reason}"
            )
        case httpx.TimeoutException():
            return BackendTimeoutError(None, f"the backend {backend} timed out")
        case _:
            name = type(failure).__name__
            message = f"the backend {backend} disconnected before it replied ({name})"
            return BackendDisconnectedError(None, message)


# The reasons by type, the special types first.
_REASONS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (ssl.SSLCertVerificationError, "its certificate is not valid"),
    (ssl.SSLError, "TLS failed"),
    (socket.gaierror, "its host name cannot be resolved"),
    (UnicodeError, "its host name cannot be resolved"),
    (ConnectionRefusedError, "the connection was refused"),
    (ConnectionResetError, "the connection was reset"),
    (httpx.ProxyError, "its proxy refused the connection"),
)


def _reason(error: BaseException) -> str | None:
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), None)
