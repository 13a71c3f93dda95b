"""Requests of a backend client over both transports, and responses that it reads whole."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import pytest
from litestar.types import HTTPDisconnectEvent

from adapters import InvalidReplyError
from gateway.backends import client as client_module
from gateway.backends.client import read_error_response, read_whole
from gateway.backends.transport import make_transport
from gateway.config.schema import BackendConfig, RetryConfig
from gateway.errors import BackendDisconnectedError, BackendUnreachableError
from gateway.http.auth import Principal
from gateway.http.monitor import ExchangeMonitor
from tests.gateway.backends.byte_server import OK, Peer, Server, always, serving
from tests.gateway.backends.test_models import backend_client
from tests.gateway.backends.test_transport_choice import Kind, every_kind

CHUNK = b"x" * 10


class RecordingMonitor(ExchangeMonitor):
    """A monitor that counts connections."""

    def __init__(self) -> None:
        super().__init__(_receive, 0)
        self.connections = 0

    def connected(self) -> None:
        self.connections += 1
        super().connected()


async def _receive() -> HTTPDisconnectEvent:
    return {"type": "http.disconnect"}


async def post(server: Server, kind: Kind, monitor: ExchangeMonitor) -> httpx.Response:
    """Send a request with a key, and read its response."""
    config = BackendConfig("test", f"{server.address}/v1", "chat", transport=kind)
    async with aclosing(make_transport(config)) as transport:
        backend = backend_client(
            config, transport, "sk-ours", retries=RetryConfig(initial_backoff=0.01)
        )
        headers = backend.authorization(Principal())
        return await read_whole(await backend.post(b"{}", headers, monitor, streams=True))


@every_kind
async def test_request_over_either_transport(kind: Kind) -> None:
    received: list[bytes] = []

    async def script(peer: Peer) -> None:
        received.append(await peer.respond(OK))

    monitor = RecordingMonitor()
    async with serving(script) as server:
        response = await post(server, kind, monitor)
    assert (response.status_code, response.content) == (200, b"hello")
    assert monitor.connections == 1
    head, _, body = received[0].partition(b"\r\n\r\n")
    request_line, *lines = head.split(b"\r\n")
    assert request_line == b"POST /v1/chat/completions HTTP/1.1"
    assert [line.lower() for line in lines] == [
        b"host: " + server.address.removeprefix("http://").encode(),
        b"content-type: application/json",
        b"accept-encoding: identity",
        b"accept: text/event-stream",
        b"authorization: bearer sk-ours",
        b"content-length: 2",
    ]
    assert body == b"{}"


@every_kind
async def test_disconnect_is_not_retried(kind: Kind) -> None:
    async with serving(always(close=True)) as server:
        with pytest.raises(BackendDisconnectedError, match="the backend test disconnected"):
            await post(server, kind, RecordingMonitor())
        assert server.connections == 1


@every_kind
async def test_closed_port_is_unreachable(kind: Kind) -> None:
    async with serving(always(OK)) as server:
        pass
    monitor = RecordingMonitor()
    with pytest.raises(BackendUnreachableError, match="cannot connect to the backend test"):
        await post(server, kind, monitor)
    assert monitor.connections == 0


@every_kind
async def test_header_that_cannot_be_sent_is_no_failure_of_the_backend(kind: Kind) -> None:
    async with serving(always(OK)) as server:
        config = BackendConfig("test", f"{server.address}/v1", "chat", transport=kind)
        async with aclosing(make_transport(config)) as transport:
            backend = backend_client(config, transport, retries=RetryConfig(max_retries=0))
            headers = [(b"user-agent", b"a\nb")]
            with pytest.raises(BackendDisconnectedError, match="LocalProtocolError"):
                await backend.post(b"{}", headers, RecordingMonitor(), streams=False)
            assert backend.health.up is None


class EndlessStream(httpx.AsyncByteStream):
    """A body without an end, that counts the chunks read from it."""

    def __init__(self) -> None:
        self.chunks_read = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.chunks_read += 1
            yield CHUNK

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_MAX_BODY_BYTES", 25)


async def test_response_within_the_limit_is_read() -> None:
    read = await read_whole(httpx.Response(200, stream=httpx.ByteStream(CHUNK * 2)))
    assert (read.status_code, read.content) == (200, CHUNK * 2)


async def test_endless_response_is_an_error() -> None:
    body = EndlessStream()
    with pytest.raises(InvalidReplyError, match="the backend's reply exceeds 25 bytes"):
        await read_whole(httpx.Response(200, stream=body))
    assert (body.chunks_read, body.closed) == (3, True)


async def test_endless_error_response_has_only_its_status() -> None:
    body = EndlessStream()
    read = await read_error_response(httpx.Response(400, stream=body))
    assert (read.status_code, read.content) == (400, b"")
    assert body.closed
