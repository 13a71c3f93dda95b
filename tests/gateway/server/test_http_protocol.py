"""What the server makes of clients that speak HTTP in their own way, or not to the end."""

import asyncio
import http.client
import json
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

import pytest
import uvicorn
from uvicorn._types import ASGIApplication
from uvicorn.server import ServerState

from gateway.server.protocols import GatewayHttpProtocol
from tests.gateway.asked import PATHS
from tests.gateway.conftest import DIALECTS, Fresh
from tests.gateway.pipeline.test_streams import asked
from tests.gateway.process import Gateway
from tests.gateway.scripted import PATIENCE, ScriptedBackend, answer, stream
from tests.gateway.speech import Turn, frames, whole

TURN = Turn("One two three.")


def _exchange(gateway: Gateway, *sent: bytes) -> http.client.HTTPResponse:
    """Send some bytes, and read the whole answer; the connection is closed after it."""
    with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as plug:
        # Who is refused in the middle may not get rid of the rest.
        with suppress(OSError):
            for piece in sent:
                plug.sendall(piece)
        told = http.client.HTTPResponse(plug)
        told.begin()
        told.read()
        return told


# Clients of HTTP/1.0


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("client", DIALECTS)
def test_a_client_of_an_older_version_is_sent_no_chunks(
    client: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh, *, streams: bool
) -> None:
    model = fresh("chat")
    backend.play(model, stream(*frames("chat", TURN)) if streams else answer(whole("chat", TURN)))
    body = json.dumps({**asked(client, model), "stream": streams}).encode()
    with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as plug:
        head = f"POST /v1{PATHS[client]} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
        plug.sendall(head.encode() + body)
        told = b"".join(iter(lambda: plug.recv(65536), b""))
    said, _, content = told.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in said.lower()
    assert content.endswith(b"data: [DONE]\n\n" if streams else b"}")
    assert content.startswith((b"data: ", b"event: ") if streams else b"{")


# Heads without end

HEADS = {
    "a header": (b"GET /health HTTP/1.1\r\nX: ", b"y" * 200_000),
    "many headers": (b"GET /health HTTP/1.1\r\n", b"X: y\r\n" * 40_000),
    "an address": (b"GET /", b"y" * 200_000),
    # Longer than what one read may bring together with the body.
    "a trailer": (
        b"POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n",
        b"X: y\r\n" * 160_000,
    ),
}


@pytest.mark.parametrize("sent", HEADS.values(), ids=HEADS)
def test_a_head_without_end_is_refused(sent: tuple[bytes, bytes], gateway: Gateway) -> None:
    begin, more = sent
    # In pieces, each of which is small.
    told = _exchange(gateway, begin, *(more[at : at + 999] for at in range(0, len(more), 999)))
    assert (told.status, told.getheader("content-type")) == (431, "application/json")


def test_a_long_head_and_a_longer_body_are_none(
    gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    backend.play(model, answer(whole("chat", TURN)))
    body = json.dumps(asked("chat", model) | {"user": "y" * 400_000}).encode()
    begin = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\nX: "
    head = begin.encode() + b"y" * 60_000 + b"\r\n\r\n"
    pieces = (body[at : at + 9_999] for at in range(0, len(body), 9_999))
    assert _exchange(gateway, head, *pieces).status == 200


# Heads that do not come


async def _answer_late(
    _scope: object, _receive: object, send: Callable[[dict[str, object]], Awaitable[None]]
) -> None:
    """Answer when the server's patience with a silent connection is long over."""
    await asyncio.sleep(2.5)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here", "more_body": False})


async def _heard(*sent: bytes) -> bytes:
    """Give what an impatient server sends until it closes the connection."""
    application = cast("ASGIApplication", _answer_late)
    config = uvicorn.Config(application, timeout_keep_alive=1, log_config=None, lifespan="off")
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: GatewayHttpProtocol(config, state, {}), "127.0.0.1", 0
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        # On a machine that stalls, the server may lose its patience before all is sent.
        with suppress(ConnectionError):
            for piece in sent:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.05)
        heard = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        return heard


FIRST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
# What is sent, and how many answers there are: what was asked before is answered, however late.
NOT_COMING: dict[str, tuple[tuple[bytes, ...], int]] = {
    "nothing": ((), 0),
    "a word": ((b"GE",), 0),
    "half a head": ((b"GET / HTTP/1.1\r\n", b"Host: x\r\n"), 0),
    "half a second one": ((FIRST, b"GET / HTTP/1.1\r\n"), 1),
}


@pytest.mark.parametrize(("sent", "answers"), NOT_COMING.values(), ids=NOT_COMING)
def test_a_head_that_does_not_come_is_not_waited_for(sent: tuple[bytes, ...], answers: int) -> None:
    assert asyncio.run(_heard(*sent)).count(b"here") == answers
