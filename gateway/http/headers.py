"""Which headers go to a backend, and which come back: only those on these lists.

Hop-by-hop headers, cookies and the client's own key for us never pass.
"""

from collections.abc import Iterable

from adapters import Loss

Headers = list[tuple[bytes, bytes]]

# Who asks, for whom, and under which trace. Codex tells a session apart by its own headers.
_UPSTREAM = frozenset(
    (
        "baggage",
        "http-referer",
        "idempotency-key",
        "originator",
        "session-id",
        "session_id",
        "thread-id",
        "traceparent",
        "tracestate",
        "user-agent",
        "version",
        "x-client-request-id",
        "x-request-id",
        "x-title",
    )
)
_UPSTREAM_PREFIXES = ("openai-", "x-codex-")

# When to come again, what is left of a quota, and under which id the backend knows the request.
_DOWNSTREAM = frozenset(
    (
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-request-id",
        "x-should-retry",
    )
)
_DOWNSTREAM_PREFIXES = ("openai-", "x-codex-", "x-ratelimit-", "ratelimit")

# What is read here and may come in several lines.
_LISTS = frozenset(("connection", "content-encoding"))

# Of a response header this much is safe: some clients read no line over 8 KiB.
_LOSS_LIMIT = 4096

STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # No proxy shall gather events, or compress them (P148).
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
JSON = [(b"content-type", b"application/json")]


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Read the headers of a request or of an answer; their names become small letters.

    Of a header that comes again the last counts, but a list is one list (RFC 9110, 5.3).
    """
    read = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]
    headers = dict(read)
    if len(headers) < len(read):
        for name in _LISTS & headers.keys():
            headers[name] = ", ".join(value for other, value in read if other == name)
    return headers


def drop_hop_by_hop(headers: dict[str, str]) -> dict[str, str]:
    """Leave out what `Connection` names: it is meant for us, and for nobody behind us."""
    named = headers.get("connection")
    if named is None or named.lower() in ("close", "keep-alive"):
        return headers
    hops = {one.strip().lower() for one in named.split(",")}
    return {name: value for name, value in headers.items() if name not in hops}


def backend_headers(headers: dict[str, str]) -> Headers:
    """Pick what a backend may see of a client's headers."""
    return [
        (name.encode(), value.encode("latin-1"))
        for name, value in drop_hop_by_hop(headers).items()
        if name in _UPSTREAM or name.startswith(_UPSTREAM_PREFIXES)
    ]


def client_headers(headers: dict[str, str]) -> Headers:
    """Pick what a client may see of a backend's headers, which are those from end to end."""
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in headers.items()
        if name in _DOWNSTREAM or name.startswith(_DOWNSTREAM_PREFIXES)
    ]


def loss_header(losses: Iterable[Loss]) -> Headers:
    """Write losses as a structured-field list (RFC 9651), one member a loss."""
    members: list[str] = []
    size = 0
    losses = list(losses)
    for loss in losses:
        member = _member(loss)
        size += len(member) + len(", ")
        if size > _LOSS_LIMIT:
            members.append(f"more;count={len(losses) - len(members)}")
            break
        members.append(member)
    return [(b"dragoman-loss", ", ".join(members).encode())] if members else []


def _member(loss: Loss) -> str:
    path, reason = _string(loss.path), _string(loss.reason)
    return f"{loss.action};path={path};severity={loss.severity};why={reason}"


def _string(text: str) -> str:
    r"""Write a string, or a display string where there is more than printable ASCII in it."""
    if all(" " <= letter <= "~" for letter in text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    encoded = "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte not in b'%"' else f"%{byte:02x}"  # noqa: PLR2004 - the bounds of printable ASCII
        for byte in text.encode("utf-8", "replace")
    )
    return f'%"{encoded}"'
