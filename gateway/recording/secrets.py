"""The secrets of an exchange and of the configuration, and where they occur in a text."""

import re
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Struct

from adapters.json_text import DECODE_ERRORS
from gateway.backends.key_redaction import is_placeholder
from gateway.observability.key_formats import find_keys, may_have_key
from gateway.recording.http_exchange import is_list, is_object
from gateway.recording.wire_words import is_wire_word

# A shorter value may be an ordinary word.
SHORTEST: Final = 8
# Headers and fields whose values are credentials, unlike the keys of a single request.
_CREDENTIAL_NAMES: Final = re.compile(
    r"authorization|(?:^|[-_])auth(?:[-_]|$)|cookie|secret|passw|credential|signature|token$|"
    r"(?<!idempotency-)(?<!websocket-)key$",
    re.IGNORECASE,
)
# An escape of JSON, at any level of JSON in JSON, or of a URL.
_ESCAPE: Final = re.compile(r'\\+u([0-9a-fA-F]{4})|\\+(["\\/bfnrt])|%([0-9a-fA-F]{2})')
# How often escapes are decoded in a text, such as a URL in a parameter of another one.
_MAX_LEVELS: Final = 4
# A line break in base64; most tools write lines of 64 or 76 characters.
_BASE64_LINE: Final = re.compile(
    r"(?:\n(?<=[A-Za-z0-9+/_-]{16}\n)|\r\n(?<=[A-Za-z0-9+/_-]{16}\r\n))[ \t]*(?=[A-Za-z0-9+/_=-])"
)
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# For each number of bytes before a secret in base64, how many of its first characters depend on
# these bytes.
_BASE64_PREFIXES: Final = ((0, 0), (1, 2), (2, 3))


# Secrets


def header_secrets(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the credentials in the headers of a request or response."""
    for name, value in headers:
        if not _CREDENTIAL_NAMES.search(name):
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


def field_secrets(value: object) -> Iterator[str]:
    """Yield the texts in JSON whose fields have the names of credentials, such as `api_key`."""
    if is_list(value):
        for entry in value:
            yield from field_secrets(entry)
    elif is_object(value):
        for name, field in value.items():
            if isinstance(field, str) and _CREDENTIAL_NAMES.search(name):
                yield field
            yield from field_secrets(field)


def url_secrets(url: str) -> Iterator[str]:
    """Yield the credentials in a URL: user information, the password in it, and parameters."""
    try:
        parts = urlsplit(url)
        yield from field_secrets(dict(parse_qsl(parts.query)))
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


def _is_secret(value: str) -> bool:
    return len(value) >= SHORTEST and not is_placeholder(value) and not is_wire_word(value)


class SecretFinder:
    """Finds given secrets in all their spellings, and values that have the format of a secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._spellings = {
            spelling: secret
            for secret in secrets
            if _is_secret(secret)
            for spelling in _spellings(secret)
        }

        # Distinct, because several secrets may begin in the same way.
        self._heads = {spelling[:SHORTEST] for spelling in self._spellings}

    def may_find(self, text: str) -> bool:
        """Whether there may be an occurrence in any part of a text; faster than a search."""
        return any(
            any(head in view.text for head in self._heads) or may_have_key(view.text)
            for view in _views(text)
        )

    def find(self, text: str) -> list[Occurrence]:
        """Return the occurrences in a text, in order and without overlaps."""
        return _merge(
            one for view in _views(text) for one in view.locate([*self._find_plain(view.text)])
        )

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
    # Forms of HTML are encoded in this way.
    yield secret.replace(" ", "+")
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


class _View:
    """A text with escapes decoded or line breaks removed, and its places in the original."""

    def __init__(
        self, text: str, source: "_View | None" = None, pattern: re.Pattern[str] = _ESCAPE
    ) -> None:
        self.text = text
        # The text from which this one was made, by a replacement of what the pattern matches.
        self._source = source
        self._pattern = pattern

    def replace(
        self, pattern: re.Pattern[str], replacement: str | Callable[[re.Match[str]], str]
    ) -> "_View":
        """Return the text in which all matches are replaced."""
        return _View(pattern.sub(replacement, self.text), self, pattern)

    def locate(self, found: list[Occurrence]) -> list[Occurrence]:
        """Return where occurrences in this text are in the original."""
        source = self._source
        if source is None or not found:
            return found
        # Each match was replaced by one character, or by none.
        places = _Places(self._pattern.finditer(source.text), int(self._pattern is _ESCAPE))
        return source.locate(
            [Occurrence(places.find(one.start), places.find(one.end), one.secret) for one in found]
        )


def _views(text: str) -> Iterator[_View]:
    """Yield a text as it is, with its escapes decoded, and with lines of base64 joined."""
    view = _View(text)
    for _ in range(_MAX_LEVELS):
        yield view
        if _BASE64_LINE.search(view.text):
            yield view.replace(_BASE64_LINE, "")
        if not _ESCAPE.search(view.text):
            return
        view = view.replace(_ESCAPE, _unescape)


class _Places:
    """The places in a text, by the places in the text in which matches were replaced."""

    def __init__(self, matches: Iterable[re.Match[str]], replaced: int) -> None:
        # Where each match is after the replacement, and how much shorter the text is up to it.
        self._matches: list[int] = []
        self._shifts = [0]
        for match in matches:
            shift = self._shifts[-1]
            self._matches.append(match.start() - shift)
            self._shifts.append(shift + len(match.group()) - replaced)

    def find(self, place: int) -> int:
        """Return a place in the text before the replacement."""
        return place + self._shifts[bisect_left(self._matches, place)]


def _merge(found: Iterable[Occurrence]) -> list[Occurrence]:
    """Join occurrences that overlap."""
    merged: list[Occurrence] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        last = merged[-1] if merged else None
        if last is None or one.start >= last.end:
            merged.append(one)
        elif one.end > last.end:
            merged[-1] = Occurrence(last.start, one.end, last.secret)
    return merged
