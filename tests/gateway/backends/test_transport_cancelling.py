"""A request that nobody wants any more ends at the backend too, at whatever stage it is."""

import asyncio
import random

import httpx
import pytest

from gateway.backends.pool import PoolLimits
from tests.gateway.backends.transport_server import (
    OK,
    STREAM,
    Loop,
    Peer,
    ask,
    chunks_of,
    direct,
    run,
    serving,
)

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


class Stages:
    """A server that stops at some place of its answer, and sees the client close."""

    def __init__(self, begin: bytes) -> None:
        self._begin = begin
        self.asked = asyncio.Event()
        self.closed = asyncio.Event()

    async def play(self, peer: Peer) -> None:
        if self.closed.is_set():
            # The place is free again.
            await peer.request()
            await peer.send(OK)
            return
        await peer.request()
        await peer.send(self._begin)
        self.asked.set()
        await peer.closed()
        self.closed.set()


@LOOPS
@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"", id="before-the-answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-", id="in-the-head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", id="after-an-interim-answer"),
    ],
)
def test_cancelled_before_the_body(loop: Loop, begin: bytes) -> None:
    async def main() -> None:
        stages = Stages(begin)
        async with serving(stages.play) as server, direct(PoolLimits(connections=1)) as transport:
            task = asyncio.create_task(ask(transport, server))
            await stages.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await stages.closed.wait()
            assert await ask(transport, server) == (200, b"hello")

    run(loop, main())


@LOOPS
def test_cancelled_in_the_body(loop: Loop) -> None:
    async def main() -> None:
        stages = Stages(STREAM + b"5\r\nhello\r\n")
        async with serving(stages.play) as server, direct(PoolLimits(connections=1)) as transport:
            response = await transport.handle_async_request(server.target().post(b"{}"))
            chunks = chunks_of(response)
            assert await anext(chunks) == b"hello"
            task = asyncio.ensure_future(anext(chunks))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not stages.closed.is_set()
            await response.aclose()
            await stages.closed.wait()
            assert await ask(transport, server) == (200, b"hello")

    run(loop, main())


@LOOPS
@pytest.mark.parametrize("read", [0, 1])
def test_closed_before_the_end(loop: Loop, read: int) -> None:
    async def main() -> None:
        stages = Stages(STREAM + b"5\r\nhello\r\n")
        async with serving(stages.play) as server, direct(PoolLimits(connections=1)) as transport:
            response = await transport.handle_async_request(server.target().post(b"{}"))
            for _ in range(read):
                assert await anext(chunks_of(response)) == b"hello"
            await response.aclose()
            await response.aclose()
            await stages.closed.wait()
            with pytest.raises(httpx.StreamClosed):
                await anext(chunks_of(response))
            assert await ask(transport, server) == (200, b"hello")

    run(loop, main())


@LOOPS
def test_cancelled_while_a_large_request_is_written(loop: Loop) -> None:
    async def main() -> None:
        connected, closed = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            connected.set()
            await peer.closed()
            closed.set()

        async with serving(script) as server, direct() as transport:
            task = asyncio.create_task(ask(transport, server, b"x" * 2**25))
            await connected.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await closed.wait()

    run(loop, main())


@LOOPS
def test_cancelled_while_connecting(loop: Loop) -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            while await peer.request():
                await peer.send(OK)

        async with serving(script) as server, direct(PoolLimits(connections=1)) as transport:
            # At every turn of the loop on the way, and the one place is always free again.
            for turns in range(12):
                task = asyncio.create_task(ask(transport, server))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert await ask(transport, server) == (200, b"hello")

    run(loop, main())


@LOOPS
def test_after_many_were_cancelled_every_place_is_free(loop: Loop) -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            while await peer.request():
                await peer.send(STREAM, b"5\r\nhello\r\n", b"0\r\n\r\n")

        async with serving(script) as server, direct(PoolLimits(connections=3)) as transport:
            tasks = [asyncio.create_task(ask(transport, server)) for _ in range(200)]
            chosen = random.Random(0)  # noqa: S311 - no secret hangs on it
            for task in chosen.sample(tasks, 150):
                task.cancel()
                for _ in range(chosen.randrange(4)):
                    await asyncio.sleep(0)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            kinds = {type(result) for result in results}
            assert kinds == {tuple, asyncio.CancelledError}

            begun = [
                await transport.handle_async_request(server.target().post(b"{}")) for _ in range(3)
            ]
            full = server.target().post(b"{}")
            full.extensions["timeout"] = {"pool": 0.01}
            with pytest.raises(httpx.PoolTimeout):
                await transport.handle_async_request(full)
            for response in begun:
                assert await response.aread() == b"hello"

    run(loop, main())


@LOOPS
def test_a_wait_that_was_given_up_can_be_taken_up_again(loop: Loop) -> None:
    """So a caller may look up from waiting, to say that it is still there."""

    async def main() -> None:
        gate = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(STREAM)
            await gate.wait()
            await peer.send(b"5\r\nhello\r\n0\r\n\r\n")
            await peer.closed()

        async with serving(script) as server, direct() as transport:
            response = await transport.handle_async_request(server.target().post(b"{}"))
            chunks = chunks_of(response)
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await anext(chunks)
            gate.set()
            assert [chunk async for chunk in chunks] == [b"hello"]

    run(loop, main())


@LOOPS
def test_closing_wakes_who_waits(loop: Loop) -> None:
    async def main() -> None:
        stages = Stages(STREAM)
        async with serving(stages.play) as server, direct() as transport:
            response = await transport.handle_async_request(server.target().post(b"{}"))
            waiting = asyncio.ensure_future(anext(chunks_of(response)))
            await asyncio.sleep(0)
            await response.aclose()
            with pytest.raises(httpx.ReadError):
                await waiting
            await stages.closed.wait()

    run(loop, main())
