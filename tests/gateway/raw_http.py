"""A plain HTTP client, for requests and details of replies that no SDK offers."""

import asyncio
import contextlib
import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tests.gateway.gateway_process import Gateway
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import JsonObject, object_in, read_object

Headers = Mapping[str, str]
Body = bytes | Mapping[str, object]

AUTHORIZED: Headers = {"Authorization": "Bearer sk-test", "Content-Type": "application/json"}


@dataclass(frozen=True)
class RawResponse:
    """A response that was read to its end; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> JsonObject:
        return read_object(self.body)

    @property
    def error(self) -> JsonObject:
        return object_in(self.json(), "error")


def encode_body(body: Body) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def send(
    gateway: Gateway,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Headers | None = None,
) -> RawResponse:
    """Send a request with these headers only, and return the response."""
    with contextlib.closing(_connect(gateway.port)) as connection:
        connection.request(method, path, body, dict(headers or {}))
        return read_response(connection.getresponse())


def read_response(response: http.client.HTTPResponse) -> RawResponse:
    return RawResponse(response.status, _lower_names(response), response.read())


def post(port: int, path: str, body: Body, headers: Headers | None = None) -> RawResponse:
    """Post JSON with an API key and return the response."""
    with StreamedResponse(port, path, body, headers) as response:
        return RawResponse(response.status, response.headers, response.read_all())


def get(port: int, path: str, headers: Headers | None = None) -> RawResponse:
    """Send a GET request with an API key and return the response."""
    with StreamedResponse(port, path, None, headers) as response:
        return RawResponse(response.status, response.headers, response.read_all())


class StreamedResponse:
    """A response that is read as it arrives; a context manager that closes the connection."""

    def __init__(
        self, port: int, path: str, body: Body | None, headers: Headers | None = None
    ) -> None:
        self._connection = _connect(port)
        data = None if body is None else encode_body(body)
        method = "GET" if body is None else "POST"
        try:
            self._connection.request(method, path, data, {**AUTHORIZED, **(headers or {})})
            self._response = self._connection.getresponse()
        except BaseException:
            self._connection.close()
            raise
        self.status = self._response.status
        self.headers = _lower_names(self._response)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def read_some(self) -> bytes:
        """Return the bytes that have arrived; wait only if there are none."""
        return self._response.read1()

    def read_all(self) -> bytes:
        return self._response.read()

    def read_until(self, marker: bytes, times: int = 1) -> bytes:
        """Read whole events until the marker has occurred this many times.

        One read may return half an event, however it was written.
        """
        data = b""
        while data.count(marker) < times or not data.endswith(b"\n\n"):
            piece = self.read_some()
            assert piece, f"{marker!r} did not arrive: {data!r}"
            data += piece
        return data


def connect(port: int) -> socket.socket:
    """Connect to the gateway without HTTP."""
    return socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)


def _connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)


def _lower_names(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def request_bytes(path: str, body: Body, headers: Headers | None = None) -> bytes:
    """Return a POST request as it is written to a socket."""
    data = encode_body(body)
    fields = {**AUTHORIZED, "Host": "gateway", "Content-Length": str(len(data)), **(headers or {})}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {fields[name]}" for name in fields), "", ""]
    return "\r\n".join(lines).encode() + data


async def fetch_chunks(port: int, path: str, body: Body) -> list[bytes]:
    """Post JSON and return the HTTP chunks of the response as they were written."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request_bytes(path, body))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        chunks: list[bytes] = []
        while size := int(await reader.readline(), 16):
            chunks.append(await reader.readexactly(size))
            await reader.readexactly(len(b"\r\n"))
        return chunks
    finally:
        writer.close()
        await writer.wait_closed()
