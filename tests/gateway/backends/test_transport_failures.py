"""Failures of a backend and cancelled requests, which end at the backend at every stage."""

import asyncio
import random

import httpx
import pytest

from gateway.backends.client import RequestTemplate
from tests.gateway.addresses import full_address, refusing_address
from tests.gateway.backends.byte_server import (
    HALF,
    LAST_CHUNK,
    OK,
    STREAM,
    Peer,
    StalledServer,
    always,
    chunks_of,
    direct,
    linked,
)
from tests.gateway.waiting import TIMEOUT_SECONDS

HELLO = (200, b"hello")
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


@pytest.mark.parametrize("response", NOT_HTTP.values(), ids=NOT_HTTP)
async def test_invalid_http_is_a_protocol_error(response: bytes) -> None:
    async with linked(always(response)) as link:
        with pytest.raises(httpx.RemoteProtocolError):
            await link.send()


@pytest.mark.parametrize(
    ("response", "error"),
    [
        pytest.param(b"", "without a response", id="before-the-head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", "during its response", id="in-the-head"),
        pytest.param(OK[:-1], "during its response", id="in-the-body"),
        pytest.param(HALF, "during its response", id="before-the-last-chunk"),
    ],
)
async def test_cut_response_is_a_protocol_error(response: bytes, error: str) -> None:
    async with linked(always(response, close=True)) as link:
        with pytest.raises(httpx.RemoteProtocolError, match=error):
            await link.send()
        assert link.connections == 1


async def test_chunks_before_the_cut_are_returned_first() -> None:
    async with linked(always(HALF, close=True)) as link:
        chunks = chunks_of(await link.begin())
        assert await anext(chunks) == b"hello"
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(chunks)
        # It does not look complete afterwards.
        with pytest.raises(httpx.StreamClosed):
            await anext(chunks)


@pytest.mark.parametrize("start", [b"", HALF], ids=["at-once", "in-the-body"])
async def test_reset_is_a_read_error(start: bytes) -> None:
    read = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.respond(start)
        if start:
            await read.wait()
        peer.reset()

    async def read_all() -> None:
        async for _ in chunks_of(await link.begin()):
            read.set()

    async with linked(script) as link:
        with pytest.raises(httpx.ReadError):
            await read_all()


async def get(url: str, connect_timeout: float = TIMEOUT_SECONDS) -> None:
    async with direct() as transport:
        template = RequestTemplate(url, connect_timeout=connect_timeout)
        await transport.handle_async_request(template.get())


async def test_closed_port_is_a_connect_error() -> None:
    with refusing_address() as url, pytest.raises(httpx.ConnectError, match=url[len("http://") :]):
        await get(url)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        # Some resolvers take long for unknown names.
        pytest.param("http://nowhere.invalid/", httpx.ConnectError, id="unknown-host"),
        pytest.param(f"http://{'x' * 64}.invalid/", httpx.ConnectError, id="too-long-host"),
        pytest.param("ftp://localhost/", httpx.UnsupportedProtocol, id="unknown-scheme"),
    ],
)
async def test_url_that_cannot_be_requested(url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await get(url)


async def test_slow_connection_is_a_connect_timeout() -> None:
    with full_address() as address, pytest.raises(httpx.ConnectTimeout):
        await get(address, connect_timeout=0.2)


async def test_response_before_the_request_is_sent() -> None:
    """A server may reject a large body without reading it."""
    seen = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await seen.wait()

    async with linked(script) as link:
        assert await link.send(b"x" * 2**25) == (413, b"big")
        # The rest of the first request is unsent, so its connection is not reused.
        seen.set()
        assert await link.send() == (413, b"big")
        assert link.connections == 2


# Cancellation


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"", id="before-the-response"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-", id="in-the-head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", id="after-an-interim-response"),
    ],
)
async def test_cancelled_before_the_body(start: bytes) -> None:
    stalled = StalledServer(start)
    async with linked(stalled.play, connections=1) as link:
        task = asyncio.create_task(link.send())
        await stalled.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stalled.closed.wait()
        assert await link.send() == HELLO


async def test_cancelled_in_the_body() -> None:
    stalled = StalledServer(HALF)
    async with linked(stalled.play, connections=1) as link:
        response = await link.begin()
        chunks = chunks_of(response)
        assert await anext(chunks) == b"hello"
        task = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not stalled.closed.is_set()
        await response.aclose()
        await stalled.closed.wait()
        assert await link.send() == HELLO


@pytest.mark.parametrize("read", [0, 1])
async def test_closed_before_the_end(read: int) -> None:
    stalled = StalledServer(HALF)
    async with linked(stalled.play, connections=1) as link:
        response = await link.begin()
        for _ in range(read):
            assert await anext(chunks_of(response)) == b"hello"
        await response.aclose()
        await response.aclose()
        await stalled.closed.wait()
        with pytest.raises(httpx.StreamClosed):
            await anext(chunks_of(response))
        assert await link.send() == HELLO


async def test_cancelled_while_a_large_request_is_written() -> None:
    connected, closed = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        connected.set()
        await peer.closed()
        closed.set()

    async with linked(script) as link:
        task = asyncio.create_task(link.send(b"x" * 2**25))
        await connected.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await closed.wait()


async def test_cancelled_while_connecting() -> None:
    async with linked(always(OK), connections=1) as link:
        # At every iteration of the event loop; the only slot is free again each time.
        for turns in range(12):
            task = asyncio.create_task(link.send())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await link.send() == HELLO


async def test_many_cancelled_requests_free_all_slots() -> None:
    script = always(STREAM, b"5\r\nhello\r\n", LAST_CHUNK)
    async with linked(script, connections=3) as link:
        tasks = [asyncio.create_task(link.send()) for _ in range(200)]
        chosen = random.Random(0)  # noqa: S311 - not for secrets
        for task in chosen.sample(tasks, 150):
            task.cancel()
            for _ in range(chosen.randrange(4)):
                await asyncio.sleep(0)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {tuple, asyncio.CancelledError}

        responses = [await link.begin() for _ in range(3)]
        with pytest.raises(httpx.PoolTimeout):
            await link.await_slot(0.01)
        for response in responses:
            assert await response.aread() == b"hello"


async def test_cancelled_wait_can_be_resumed() -> None:
    gate = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.respond(STREAM)
        await gate.wait()
        await peer.send(b"5\r\nhello\r\n", LAST_CHUNK)
        await peer.closed()

    async with linked(script) as link:
        chunks = chunks_of(await link.begin())
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(chunks)
        gate.set()
        assert [chunk async for chunk in chunks] == [b"hello"]


async def test_closing_a_response_wakes_its_reader() -> None:
    stalled = StalledServer(STREAM)
    async with linked(stalled.play) as link:
        response = await link.begin()
        waiting = asyncio.ensure_future(anext(chunks_of(response)))
        await asyncio.sleep(0)
        await response.aclose()
        with pytest.raises(httpx.ReadError):
            await waiting
        await stalled.closed.wait()
