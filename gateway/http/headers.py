"""The headers that are forwarded to a backend or a client, and the header that reports losses.

Only the headers on these lists are forwarded, so hop-by-hop headers, cookies and the client's key
for the gateway are not.
"""

import math
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from secrets import token_hex
from urllib.parse import quote

from adapters import DragomanError, Loss
from adapters.losses import LossGroup, summarize_losses
from gateway.config.schema import LegacyConfig

Headers = list[tuple[bytes, bytes]]

# Headers that identify the client, its user, its session (for Codex) and its trace.
_TO_BACKEND = frozenset(
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
_TO_BACKEND_PREFIXES = ("openai-", "x-codex-")

# Headers about retries, rate limits and the backend's id of the request.
_TO_CLIENT = frozenset(
    ("request-id", "retry-after", "retry-after-ms", "x-request-id", "x-should-retry")
)
_TO_CLIENT_PREFIXES = ("openai-", "x-codex-", "x-ratelimit-", "ratelimit")

# Headers about the content of requests and responses to other paths of a backend's API.
_CONTENT = frozenset(
    (
        "accept",
        "accept-ranges",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "etag",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "last-modified",
        "link",
        "range",
        "vary",
    )
)

# Headers that the gateway reads and whose values form one list (RFC 9110, section 5.3).
_LISTS = frozenset(("connection", "content-encoding"))

# Half of 8 KiB, the longest header line that some clients accept.
_MAX_LOSS_HEADER_BYTES = 4096
# The part of it that is kept for the number of omitted losses.
_MORE_BYTES = len("more;count=999999")
# Paths and reasons may contain names by clients, which must not displace other losses.
_MAX_LOSS_STRING = 256

STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # Proxies must neither collect nor compress events.
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
JSON = [(b"content-type", b"application/json")]


# The reserved characters of URLs, which have a meaning there (RFC 3986, section 2.2), and `%`.
_URL_CHARACTERS = ":/?#[]@!$&'()*+,;=%"


def deprecation_headers(config: LegacyConfig) -> Headers:
    """Return the headers of RFC 9745 and RFC 8594 for the replies to legacy clients."""
    headers: list[tuple[str, str]] = []
    if config.deprecation is not None:
        headers.append(("deprecation", f"@{int(_midnight(config.deprecation).timestamp())}"))
    if config.sunset is not None:
        headers.append(("sunset", format_datetime(_midnight(config.sunset), usegmt=True)))
    if config.link is not None:
        # A character that ends the URL or its parameters is escaped.
        link = quote(config.link, safe=_URL_CHARACTERS)
        headers.append(("link", f'<{link}>; rel="deprecation"; type="text/html"'))
    return [(name.encode(), value.encode()) for name, value in headers]


def retry_after_header(error: DragomanError) -> Headers:
    """Return the header that names the seconds to wait before the next try, if that is known."""
    seconds: float | None = getattr(error, "retry_after", None)
    return [] if seconds is None else [(b"retry-after", b"%d" % max(math.ceil(seconds), 1))]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers of a request or a response by their lower-case names.

    The last value of a repeated header counts; the values of `_LISTS` are joined.
    """
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in headers and name in _LISTS:
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def drop_hop_by_hop(headers: dict[str, str]) -> dict[str, str]:
    """Remove the headers that `Connection` names: they are only for the next hop."""
    named = headers.get("connection")
    if named is None or named.lower() in ("close", "keep-alive"):
        return headers
    hops = {one.strip().lower() for one in named.split(",")}
    return {name: value for name, value in headers.items() if name not in hops}


def backend_headers(headers: dict[str, str]) -> Headers:
    """Return the headers of a client's request that are forwarded to a backend."""
    return [
        (name.encode(), value.encode("latin-1"))
        for name, value in drop_hop_by_hop(headers).items()
        if name in _TO_BACKEND or name.startswith(_TO_BACKEND_PREFIXES)
    ]


def passthrough_headers(headers: dict[str, str]) -> Headers:
    """Return the headers about the content of a message, for a request or a response."""
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in drop_hop_by_hop(headers).items()
        if name in _CONTENT
    ]


def numbered_request(headers: Headers, number: int) -> Headers:
    """Return the headers of one of several requests, with its own idempotency key.

    A backend would reply to a second request with the same key as to the first one.
    """
    if number == 1:
        return headers
    suffix = b"-%d" % number
    return [
        (name, value + suffix if name == b"idempotency-key" else value) for name, value in headers
    ]


def client_headers(headers: dict[str, str]) -> Headers:
    """Return the headers of a backend's response that are forwarded to a client."""
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in headers.items()
        if name in _TO_CLIENT or name.startswith(_TO_CLIENT_PREFIXES)
    ]


def new_request_id() -> str:
    """Return an id for a request whose reply has no request id of a backend."""
    return f"req_{token_hex(16)}"


def request_id_header(request_id: str) -> tuple[bytes, bytes]:
    """Return the header with the id of a request."""
    return b"x-request-id", request_id.encode()


def loss_header(losses: Iterable[Loss]) -> Headers:
    """Return a header that lists losses."""
    listed = loss_list(losses)
    return [(b"dragoman-loss", listed.encode())] if listed else []


def loss_list(losses: Iterable[Loss]) -> str:
    """Return losses as a structured-field list (RFC 9651), without those that are adapted."""
    members: list[str] = []
    size = omitted = 0
    for group in summarize_losses(losses):
        member = _member(group)
        if size + len(member) > _MAX_LOSS_HEADER_BYTES - _MORE_BYTES:
            omitted += group.count
            continue
        size += len(member) + len(", ")
        members.append(member)
    if omitted:
        members.append(f"more;count={omitted}")
    return ", ".join(members)


def _member(group: LossGroup) -> str:
    loss = group.loss
    path, reason = _string(loss.path), _string(loss.reason)
    count = f";count={group.count}" if group.count > 1 else ""
    return f"{loss.action};path={path};severity={loss.severity}{count};why={reason}"


def _string(text: str) -> str:
    """Write a string, or a display string if it has characters other than printable ASCII."""
    if len(text) > _MAX_LOSS_STRING:
        text = f"{text[: _MAX_LOSS_STRING - 3]}..."
    if all(" " <= letter <= "~" for letter in text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    encoded = "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte not in b'%"' else f"%{byte:02x}"  # noqa: PLR2004 - the bounds of printable ASCII
        for byte in text.encode("utf-8", "replace")
    )
    return f'%"{encoded}"'
