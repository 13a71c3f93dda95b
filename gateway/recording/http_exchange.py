"""Exchanges that other tools recorded, as they appear in their files."""

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import TypeGuard
from urllib.parse import SplitResult, urlsplit

import httpx
from msgspec import Struct


class HttpExchange(Struct, frozen=True):
    """A request and its response, with the bodies as bytes."""

    method: str
    url: str
    request_headers: Mapping[str, str] = {}
    request_body: bytes = b""
    # None if there is no response.
    status: int | None = None
    reply_headers: Mapping[str, str] = {}
    # After decompression.
    reply_body: bytes = b""
    # When the request was sent, in ISO 8601.
    time: str = ""
    # The seconds from the request to each read, and its bytes.
    reads: tuple[tuple[float, int], ...] = ()


class ImportFormatError(Exception):
    """A file that is neither a cassette nor a HAR file."""


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is a JSON or YAML mapping; keys are not checked."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether a value is a list."""
    return isinstance(value, list)


def text_of(value: object) -> str:
    """Return a string, or "" for any other value."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> dict[str, object]:
    """Return a mapping, or an empty one for any other value."""
    return value if is_object(value) else {}


def read_base64(text: str) -> bytes:
    """Decode base64; raise `ImportFormatError` if it is invalid."""
    try:
        return b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise ImportFormatError("a body is not valid base64") from None


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL; of an invalid one, all of it is the path."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", url, "", "")


def merge_headers(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by their names in lower case; values of equal names are joined."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


def decompress(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Decompress a body, unless the tool that recorded it has already done so."""
    encoding = headers.get("content-encoding", "")
    if not encoding or not body:
        return body
    try:
        return httpx.Response(200, headers={"content-encoding": encoding}, content=body).content
    except httpx.DecodingError:
        return body
