"""Failures of a backend, and the errors that the transport raises for them."""

import asyncio
import socket

import httpx
import pytest

from gateway.backends.client import RequestTemplate
from tests.gateway.backends.byte_server import (
    OK,
    STREAM,
    Peer,
    Script,
    always,
    async_test,
    chunks_of,
    direct,
    send,
    serving,
)
from tests.gateway.waiting import TIMEOUT_SECONDS

NOT_HTTP = {
    "words": b"nonsense\r\n\r\n",
    "banner": b"SSH-2.0-OpenSSH_9.6\r\n",
    "zeros": bytes(100),
    "tls": b"\x15\x03\x01\x00\x02\x02\x46",
    "http2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64",
    "bad-chunk": STREAM + b"xyz\r\nhello\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "negative-length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "length-and-chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
    b"\r\n5\r\nhello\r\n0\r\n\r\n",
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
}


def once(*chunks: bytes, reset: bool = False) -> Script:
    """Send a response to one request, then close or reset."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*chunks)
        if reset:
            peer.reset()

    return script


@pytest.mark.parametrize("response", NOT_HTTP.values(), ids=NOT_HTTP)
@async_test
async def test_invalid_http_is_a_protocol_error(response: bytes) -> None:
    async with serving(always(response)) as server, direct() as transport:
        with pytest.raises(httpx.RemoteProtocolError):
            await send(transport, server)


@async_test
async def test_close_without_a_response() -> None:
    async with serving(once()) as server, direct() as transport:
        with pytest.raises(httpx.RemoteProtocolError, match="without a response"):
            await send(transport, server)
        assert server.connections == 1


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="in-the-head"),
        pytest.param(OK[:-1], id="in-the-body"),
        pytest.param(STREAM + b"5\r\nhello\r\n", id="before-the-last-chunk"),
    ],
)
@async_test
async def test_cut_response_is_a_protocol_error(response: bytes) -> None:
    async with serving(once(response)) as server, direct() as transport:
        with pytest.raises(httpx.RemoteProtocolError, match="during its response"):
            await send(transport, server)


@async_test
async def test_chunks_before_the_cut_are_returned_first() -> None:
    async with serving(once(STREAM + b"5\r\nhello\r\n")) as server, direct() as transport:
        response = await transport.handle_async_request(server.template().post(b"{}"))
        chunks = chunks_of(response)
        assert await anext(chunks) == b"hello"
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(chunks)
        # It does not look complete afterwards.
        with pytest.raises(httpx.StreamClosed):
            await anext(chunks)


@pytest.mark.parametrize("begin", [b"", STREAM + b"5\r\nhello\r\n"], ids=["at-once", "in-the-body"])
@async_test
async def test_reset_is_a_read_error(begin: bytes) -> None:
    read = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        if begin:
            await peer.send(begin)
            await read.wait()
        peer.reset()

    async def read_all() -> None:
        response = await transport.handle_async_request(server.template().post(b"{}"))
        async for _ in chunks_of(response):
            read.set()

    async with serving(script) as server, direct() as transport:
        with pytest.raises(httpx.ReadError):
            await read_all()


@async_test
async def test_closed_port_is_a_connect_error() -> None:
    with socket.socket() as closed:
        # Bound but not listening: no other process gets this port, and connections are rejected.
        closed.bind(("127.0.0.1", 0))
        port: int = closed.getsockname()[1]
        async with direct() as transport:
            template = RequestTemplate(f"http://127.0.0.1:{port}/", connect_timeout=TIMEOUT_SECONDS)
            with pytest.raises(httpx.ConnectError, match=f"127.0.0.1:{port}"):
                await transport.handle_async_request(template.get())


@pytest.mark.parametrize("host", ["nowhere.invalid", "x" * 64 + ".invalid"])
@async_test
async def test_unknown_host_is_a_connect_error(host: str) -> None:
    async with direct() as transport:
        # Some resolvers take long for unknown names.
        template = RequestTemplate(f"http://{host}/", connect_timeout=TIMEOUT_SECONDS)
        with pytest.raises(httpx.ConnectError):
            await transport.handle_async_request(template.get())


@async_test
async def test_slow_connection_is_a_connect_timeout() -> None:
    """A listener with a full queue does not accept connections."""

    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address: tuple[str, int] = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)  # noqa: FBT003 - has no keyword
            filler.connect_ex(address)
        async with direct() as transport:
            template = RequestTemplate(f"http://127.0.0.1:{address[1]}/", connect_timeout=0.2)
            with pytest.raises(httpx.ConnectTimeout):
                await transport.handle_async_request(template.get())
        for filler in fillers:
            filler.close()


@async_test
async def test_response_before_the_request_is_sent() -> None:
    """A server may reject a large body without reading it."""

    seen = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await seen.wait()

    async with serving(script) as server, direct() as transport:
        assert await send(transport, server, b"x" * 2**25) == (413, b"big")
        # The rest of the first request is unsent, so its connection is not reused.
        seen.set()
        assert await send(transport, server) == (413, b"big")
        assert server.connections == 2


@async_test
async def test_unknown_scheme_is_an_error() -> None:
    async with direct() as transport:
        with pytest.raises(httpx.UnsupportedProtocol):
            await transport.handle_async_request(httpx.Request("GET", "ftp://localhost/"))
