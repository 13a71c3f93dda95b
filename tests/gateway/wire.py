"""The plainest of clients: bytes out, bytes in, for what no package does."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.gateway.scripted import PATIENCE
from tests.judges.reading import JsonObject, object_in, read_object

CutShort = http.client.IncompleteRead
Headers = dict[str, str]

AUTHORIZED: Headers = {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}
Body = bytes | Mapping[str, object]


@dataclass(frozen=True)
class Answer:
    """A whole answer; names of headers are in lower case."""

    status: int
    headers: Headers
    body: bytes

    def json(self) -> JsonObject:
        return read_object(self.body)

    def error(self) -> JsonObject:
        return object_in(self.json(), "error")


def encoded(body: Body) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def post(port: int, path: str, body: Body, headers: Headers | None = None) -> Answer:
    """Ask, and read the answer to its end."""
    with Streamed(port, path, body, headers) as answer:
        return Answer(answer.status, answer.headers, answer.read_all())


def get(port: int, path: str, headers: Headers | None = None) -> Answer:
    """Fetch."""
    with Streamed(port, path, None, headers) as answer:
        return Answer(answer.status, answer.headers, answer.read_all())


class Streamed:
    """An answer that is read as it comes; leaving it closes the connection."""

    def __init__(
        self, port: int, path: str, body: Body | None, headers: Headers | None = None
    ) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        data = None if body is None else encoded(body)
        method = "GET" if body is None else "POST"
        try:
            self._connection.request(method, path, data, {**AUTHORIZED, **(headers or {})})
            self._answer = self._connection.getresponse()
        except BaseException:
            self._connection.close()
            raise
        self.status = self._answer.status
        self.headers = {name.lower(): value for name, value in self._answer.getheaders()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._answer.close()
        self._connection.close()

    def read_some(self) -> bytes:
        """Read what is there, and wait only if there is nothing."""
        return self._answer.read1()

    def read_all(self) -> bytes:
        """Read to the end."""
        return self._answer.read()

    def read_until(self, words: bytes, times: int = 1) -> bytes:
        """Read until these words have come so often, to the end of the event that they stand in.

        One read may bring half an event, however it was written.
        """
        found = b""
        while found.count(words) < times or not found.endswith(b"\n\n"):
            piece = self.read_some()
            assert piece, f"{words!r} did not come: {found!r}"
            found += piece
        return found


def request_bytes(path: str, body: Body, headers: Headers | None = None) -> bytes:
    """Write a request for a naked socket."""
    data = encoded(body)
    known = {**AUTHORIZED, "Host": "gateway", "Content-Length": str(len(data)), **(headers or {})}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {known[name]}" for name in known), "", ""]
    return "\r\n".join(lines).encode() + data


async def fetch_chunks(port: int, path: str, body: Body) -> list[bytes]:
    """Ask over a socket of its own; give the chunks of the answer as they were written."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request_bytes(path, body))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        return [piece async for piece in _chunks(reader)]
    finally:
        writer.close()
        await writer.wait_closed()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(len(b"\r\n"))
