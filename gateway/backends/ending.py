"""What the end of a connection means for an answer that was under way."""

import errno

import httpx

Headers = list[tuple[bytes, bytes]]

# What the system says when the other side no longer takes what we write.
_NOT_WRITABLE = frozenset({errno.EPIPE, errno.ESHUTDOWN})


def ends_with_connection(headers: Headers) -> bool:
    """Whether nothing but the end of the connection ends this body (RFC 9112, 6.3)."""
    for name, value in headers:
        match name.lower():
            case b"content-length":
                return False
            case b"transfer-encoding" if value.lower().endswith(b"chunked"):
                return False
            case _:
                pass
    return True


def connection_error(error: Exception | None, *, untouched: bool) -> httpx.TransportError:
    """Say what happened to an answer that has no end; `untouched`: it had not begun."""
    match error:
        case None if untouched:
            return httpx.RemoteProtocolError("The server closed without an answer.")
        case None:
            return httpx.RemoteProtocolError("The server closed in the middle of its answer.")
        case OSError(errno=code) if code in _NOT_WRITABLE:
            return httpx.WriteError(f"The request could not be sent: {error}.")
        case _:
            return httpx.ReadError(f"The connection broke: {error}.")
