"""A cancelled request ends at the backend too, at every stage."""

import asyncio
import random

import httpx
import pytest

from gateway.backends.pool import PoolLimits
from tests.gateway.backends.byte_server import (
    OK,
    STREAM,
    Peer,
    async_test,
    chunks_of,
    direct,
    send,
    serving,
)


class StalledServer:
    """A server that stops within its first response and notices that the client closes."""

    def __init__(self, begin: bytes) -> None:
        self._begin = begin
        self.reached = asyncio.Event()
        self.closed = asyncio.Event()

    async def play(self, peer: Peer) -> None:
        if self.closed.is_set():
            # The slot is free again.
            await peer.request()
            await peer.send(OK)
            return
        await peer.request()
        await peer.send(self._begin)
        self.reached.set()
        await peer.closed()
        self.closed.set()


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"", id="before-the-response"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-", id="in-the-head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", id="after-an-interim-response"),
    ],
)
@async_test
async def test_cancelled_before_the_body(begin: bytes) -> None:
    stalled = StalledServer(begin)
    async with serving(stalled.play) as server, direct(PoolLimits(connections=1)) as transport:
        task = asyncio.create_task(send(transport, server))
        await stalled.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stalled.closed.wait()
        assert await send(transport, server) == (200, b"hello")


@async_test
async def test_cancelled_in_the_body() -> None:
    stalled = StalledServer(STREAM + b"5\r\nhello\r\n")
    async with serving(stalled.play) as server, direct(PoolLimits(connections=1)) as transport:
        response = await transport.handle_async_request(server.template().post(b"{}"))
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
        assert await send(transport, server) == (200, b"hello")


@pytest.mark.parametrize("read", [0, 1])
@async_test
async def test_closed_before_the_end(read: int) -> None:
    stalled = StalledServer(STREAM + b"5\r\nhello\r\n")
    async with serving(stalled.play) as server, direct(PoolLimits(connections=1)) as transport:
        response = await transport.handle_async_request(server.template().post(b"{}"))
        for _ in range(read):
            assert await anext(chunks_of(response)) == b"hello"
        await response.aclose()
        await response.aclose()
        await stalled.closed.wait()
        with pytest.raises(httpx.StreamClosed):
            await anext(chunks_of(response))
        assert await send(transport, server) == (200, b"hello")


@async_test
async def test_cancelled_while_a_large_request_is_written() -> None:
    connected, closed = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        connected.set()
        await peer.closed()
        closed.set()

    async with serving(script) as server, direct() as transport:
        task = asyncio.create_task(send(transport, server, b"x" * 2**25))
        await connected.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await closed.wait()


@async_test
async def test_cancelled_while_connecting() -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(OK)

    async with serving(script) as server, direct(PoolLimits(connections=1)) as transport:
        # At every iteration of the event loop; the only slot is free again each time.
        for turns in range(12):
            task = asyncio.create_task(send(transport, server))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await send(transport, server) == (200, b"hello")


@async_test
async def test_many_cancelled_requests_free_all_slots() -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(STREAM, b"5\r\nhello\r\n", b"0\r\n\r\n")

    async with serving(script) as server, direct(PoolLimits(connections=3)) as transport:
        tasks = [asyncio.create_task(send(transport, server)) for _ in range(200)]
        chosen = random.Random(0)  # noqa: S311 - not for secrets
        for task in chosen.sample(tasks, 150):
            task.cancel()
            for _ in range(chosen.randrange(4)):
                await asyncio.sleep(0)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        kinds = {type(result) for result in results}
        assert kinds == {tuple, asyncio.CancelledError}

        responses = [
            await transport.handle_async_request(server.template().post(b"{}")) for _ in range(3)
        ]
        full = server.template().post(b"{}")
        full.extensions["timeout"] = {"pool": 0.01}
        with pytest.raises(httpx.PoolTimeout):
            await transport.handle_async_request(full)
        for response in responses:
            assert await response.aread() == b"hello"


@async_test
async def test_cancelled_wait_can_be_resumed() -> None:
    gate = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        await gate.wait()
        await peer.send(b"5\r\nhello\r\n0\r\n\r\n")
        await peer.closed()

    async with serving(script) as server, direct() as transport:
        response = await transport.handle_async_request(server.template().post(b"{}"))
        chunks = chunks_of(response)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(chunks)
        gate.set()
        assert [chunk async for chunk in chunks] == [b"hello"]


@async_test
async def test_closing_a_response_wakes_its_reader() -> None:
    stalled = StalledServer(STREAM)
    async with serving(stalled.play) as server, direct() as transport:
        response = await transport.handle_async_request(server.template().post(b"{}"))
        waiting = asyncio.ensure_future(anext(chunks_of(response)))
        await asyncio.sleep(0)
        await response.aclose()
        with pytest.raises(httpx.ReadError):
            await waiting
        await stalled.closed.wait()
