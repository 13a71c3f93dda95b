"""The overrides of uvicorn's HTTP protocol; those for WebSockets are tested with the handshake."""

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

import pytest
import uvicorn
from uvicorn._types import ASGIApplication
from uvicorn.server import ServerState

from gateway.server.protocols import GatewayHttpProtocol
from tests.gateway.backend_replies import Turn
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.raw_http import RawResponse, connect, read_response
from tests.gateway.waiting import TIMEOUT_SECONDS

TURN = Turn("One two three.")


def exchange(port: int, *chunks: bytes) -> RawResponse:
    """Send chunks on a new connection, and read the response."""
    with connect(port) as connection:
        # The gateway may reject the request before all of it is sent.
        with suppress(OSError):
            for chunk in chunks:
                connection.sendall(chunk)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return read_response(response)


def split(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("client", DIALECTS)
def test_http_1_0_client_gets_no_chunked_response(
    client: str, harness: Harness, *, streams: bool
) -> None:
    model = harness.script("chat", TURN)
    body = json.dumps(request_body(client, model, streamed=streams)).encode()
    with connect(harness.gateway.port) as connection:
        head = f"POST {request_path(client)} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    headers, _, content = response.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in headers.lower()
    assert content.endswith(b"data: [DONE]\n\n" if streams else b"}")
    assert content.startswith((b"data: ", b"event: ") if streams else b"{")


@pytest.mark.parametrize("size", [1000, 100], ids=["at once", "in chunks"])
def test_offer_of_another_protocol_is_ignored(size: int, gateway: Gateway) -> None:
    body = json.dumps({"model": "nobody", "messages": []}).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nContent-Length: %d\r\n\r\n"
    )
    response = exchange(gateway.port, *split(head % len(body) + body, size))
    # The error names the model, so the body was read.
    assert response.status == 404
    assert b"nobody" in response.body


INVALID_HTTP = {
    "no request": b"hello\r\n\r\n",
    "two lengths": b"POST /v1 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "no chunk": b"POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("data", INVALID_HTTP.values(), ids=INVALID_HTTP)
def test_invalid_http_is_rejected_with_a_json_error(data: bytes, gateway: Gateway) -> None:
    response = exchange(gateway.port, data)
    assert (response.status, response.headers["content-type"]) == (400, "application/json")
    assert response.error["type"] == "invalid_request_error"
    assert response.error["message"] == "the request is not valid HTTP/1.1"


# Size of the head

LONG_HEADS = {
    "a header": (b"GET /health HTTP/1.1\r\nX: ", b"y" * 200_000),
    "many headers": (b"GET /health HTTP/1.1\r\n", b"X: y\r\n" * 40_000),
    "a path": (b"GET /", b"y" * 200_000),
    # Longer than what one read may contain together with the body.
    "trailers": (
        b"POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n",
        b"X: y\r\n" * 160_000,
    ),
}


@pytest.mark.parametrize(("start", "rest"), LONG_HEADS.values(), ids=LONG_HEADS)
def test_endless_head_is_rejected(start: bytes, rest: bytes, gateway: Gateway) -> None:
    response = exchange(gateway.port, start, *split(rest, 999))
    assert (response.status, response.headers["content-type"]) == (431, "application/json")


def test_long_head_with_a_longer_body_is_accepted(harness: Harness) -> None:
    model = harness.script("chat", TURN)
    body = json.dumps(request_body("chat", model) | {"user": "y" * 400_000}).encode()
    start = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\nX: "
    head = start.encode() + b"y" * 60_000 + b"\r\n\r\n"
    assert exchange(harness.gateway.port, head, *split(body, 9_999)).status == 200


# Timeout of the head


async def respond_late(
    _scope: object, _receive: object, send: Callable[[dict[str, object]], Awaitable[None]]
) -> None:
    """Respond long after the timeout for an idle connection."""
    await asyncio.sleep(2.5)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here", "more_body": False})


async def read_until_closed(*chunks: bytes) -> bytes:
    """Send chunks to a server with a short timeout; return what it sends until it closes."""
    application = cast("ASGIApplication", respond_late)
    config = uvicorn.Config(application, timeout_keep_alive=1, log_config=None, lifespan="off")
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: GatewayHttpProtocol(config, state, {}), "127.0.0.1", 0
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        # On a busy machine the timeout may come before all is sent.
        with suppress(ConnectionError):
            for chunk in chunks:
                writer.write(chunk)
                await writer.drain()
                await asyncio.sleep(0.05)
        received = await asyncio.wait_for(reader.read(), TIMEOUT_SECONDS)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        return received


REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
# What is sent, and the number of responses: a complete request gets one, however late.
INCOMPLETE_HEADS: dict[str, tuple[tuple[bytes, ...], int]] = {
    "nothing": ((), 0),
    "half a method": ((b"GE",), 0),
    "half a head": ((b"GET / HTTP/1.1\r\n", b"Host: x\r\n"), 0),
    "half a second head": ((REQUEST, b"GET / HTTP/1.1\r\n"), 1),
}


@pytest.mark.parametrize(("chunks", "responses"), INCOMPLETE_HEADS.values(), ids=INCOMPLETE_HEADS)
def test_connection_with_an_incomplete_head_is_closed(
    chunks: tuple[bytes, ...], responses: int
) -> None:
    assert asyncio.run(read_until_closed(*chunks)).count(b"here") == responses
