"""The secrets of an exchange and of the configuration, and where they occur in a text."""

import re
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from adapters.json_text import DECODE_ERRORS
from gateway.backends.key_redaction import is_placeholder
from gateway.observability.key_formats import find_keys, may_have_key

# A shorter value may be an ordinary word.
SHORTEST: Final = 8
# Headers whose values are credentials.
CREDENTIAL_HEADERS: Final = re.compile(
    r"authorization|cookie|api-?key|secret|password|credential|token$", re.IGNORECASE
)
# An escape of JSON, at any level of JSON in JSON, or of a URL.
_ESCAPE: Final = re.compile(r'\\+u([0-9a-fA-F]{4})|\\+(["\\/bfnrt])|%([0-9a-fA-F]{2})')
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# For each number of bytes before a secret in base64, how many of its first characters depend on
# these bytes.
_BASE64_PREFIXES: Final = ((0, 0), (1, 2), (2, 3))


# Secrets


def header_secrets(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the credentials in the headers of a request or response."""
    for name, value in headers:
        if not CREDENTIAL_HEADERS.search(name):
            continue
        if "cookie" in name.lower():
            yield from _cookie_values(name, value)
            continue
        scheme, _, token = value.strip().rpartition(" ")
        yield token
        if scheme.lower() == "basic":
            yield from _basic_credentials(token)


def _cookie_values(name: str, value: str) -> Iterator[str]:
    # What follows in `Set-Cookie` are attributes, such as a path.
    cookies = value.split(";")[:1] if name.lower() == "set-cookie" else value.split(";")
    for cookie in cookies:
        secret = cookie.partition("=")[2].strip()
        yield secret
        yield unquote(secret)


def _basic_credentials(token: str) -> Iterator[str]:
    try:
        decoded = b64decode(token, validate=True).decode()
    except ValueError:
        return
    yield decoded
    yield decoded.partition(":")[2]


def url_secrets(url: str) -> Iterator[str]:
    """Yield the user information in a URL, and the password in it."""
    try:
        parts = urlsplit(url)
        if parts.password is not None:
            yield parts.netloc.rpartition("@")[0]
            yield parts.password
            yield unquote(parts.password)
    except ValueError:
        return


class _McpTool(Struct, tag_field="type", tag="mcp"):
    authorization: str | None = None
    headers: dict[str, str] | None = None


class _ToolRequest(Struct):
    tools: list[msgspec.Raw] = []


_REQUEST: Final = msgspec.json.Decoder(_ToolRequest)
_TOOL: Final = msgspec.json.Decoder(_McpTool)


def tool_secrets(request: bytes) -> Iterator[str]:
    """Yield the credentials for MCP servers in a request."""
    if b'"mcp"' not in request:
        return
    try:
        tools = _REQUEST.decode(request).tools
    except DECODE_ERRORS:
        return
    for tool in tools:
        try:
            mcp = _TOOL.decode(tool)
        except DECODE_ERRORS:
            continue
        if mcp.authorization:
            yield from header_secrets([("authorization", mcp.authorization)])
        yield from (mcp.headers or {}).values()


# Occurrences


class Occurrence(Struct, frozen=True):
    """Where a secret occurs in a text."""

    start: int
    end: int
    secret: str


class SecretFinder:
    """Finds given secrets in all their spellings, and values that have the format of a secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._spellings = {
            spelling: secret
            for secret in secrets
            if len(secret) >= SHORTEST and not is_placeholder(secret)
            for spelling in _spellings(secret)
        }

        # Distinct, because several secrets may begin in the same way.
        self._heads = {spelling[:SHORTEST] for spelling in self._spellings}

    def may_find(self, text: str) -> bool:
        """Whether there may be an occurrence in any part of a text; faster than a search."""
        if any(head in text for head in self._heads) or may_have_key(text):
            return True
        if "\\" not in text and "%" not in text:
            return False
        plain = _ESCAPE.sub(_unescape, text)
        return any(head in plain for head in self._heads) or may_have_key(plain)

    def find(self, text: str) -> list[Occurrence]:
        """Return the occurrences in a text, in order and without overlaps."""
        found = [*self._find_plain(text)]
        if "\\" in text or "%" in text:
            found += self._find_escaped(text)
        return _merge(found)

    def _find_plain(self, text: str) -> Iterator[Occurrence]:
        for spelling, secret in self._spellings.items():
            start = text.find(spelling)
            while start >= 0:
                yield Occurrence(start, start + len(spelling), secret)
                start = text.find(spelling, start + 1)
            truncated = _truncated(spelling, text)
            if truncated is not None:
                yield Occurrence(truncated, len(text), secret)
        for start, end in find_keys(text):
            yield Occurrence(start, end, text[start:end])

    def _find_escaped(self, text: str) -> list[Occurrence]:
        found = [*self._find_plain(_ESCAPE.sub(_unescape, text))]
        if not found:
            return []
        places = _Places(text)
        return [
            Occurrence(places.find(one.start), places.find(one.end), one.secret) for one in found
        ]


def _truncated(spelling: str, text: str) -> int | None:
    """Return where the beginning of a secret starts with which a text ends, as if interrupted."""
    head = spelling[:SHORTEST]
    start = text.find(head, max(len(text) - len(spelling) + 1, 0))
    while start >= 0 and not spelling.startswith(text[start:]):
        start = text.find(head, start + 1)
    return start if start >= 0 else None


def _spellings(secret: str) -> Iterator[str]:
    """Yield the plain text, and the base64 of both alphabets after any number of bytes."""
    yield secret
    data = secret.encode("utf-8", "surrogateescape")
    # Percent-encoding has the bytes of characters.
    yield data.decode("latin-1")
    for before, dependent in _BASE64_PREFIXES:
        encoded = b64encode(bytes(before) + data).decode()
        # The last character may depend on the bytes after the secret.
        independent = encoded[dependent : (before + len(data)) * 8 // 6]
        yield independent
        yield independent.replace("+", "-").replace("/", "_")


def _unescape(match: re.Match[str]) -> str:
    unicode, control, percent = match.groups()
    if control is not None:
        return _CONTROLS.get(control, control)
    return chr(int(unicode or percent, 16))


class _Places:
    """The places in a text with escapes, by the places in the text without them."""

    def __init__(self, text: str) -> None:
        # Where each escape is in the text without escapes, and how much shorter that text is up to
        # the escape.
        self._escapes: list[int] = []
        self._shifts = [0]
        for match in _ESCAPE.finditer(text):
            shift = self._shifts[-1]
            self._escapes.append(match.start() - shift)
            self._shifts.append(shift + len(match.group()) - 1)

    def find(self, place: int) -> int:
        """Return a place in the text with escapes."""
        return place + self._shifts[bisect_left(self._escapes, place)]


def _merge(found: list[Occurrence]) -> list[Occurrence]:
    """Join occurrences that overlap."""
    merged: list[Occurrence] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        last = merged[-1] if merged else None
        if last is None or one.start >= last.end:
            merged.append(one)
        elif one.end > last.end:
            merged[-1] = Occurrence(last.start, one.end, last.secret)
    return merged
