"""How connections are shared."""

import asyncio

import httpx
import pytest

from gateway.backends.pool import PoolLimits
from gateway.backends.transport import DirectTransport
from tests.gateway.backends.transport_server import (
    OK,
    STREAM,
    Loop,
    Peer,
    Script,
    Server,
    always,
    ask,
    chunks_of,
    direct,
    run,
    serving,
)

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def keeps_until(gate: asyncio.Event) -> Script:
    """Begin every answer at once, and end it when the gate is open."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(STREAM + b"5\r\nhello\r\n")
            await gate.wait()
            await peer.send(b"0\r\n\r\n")

    return script


async def begin(transport: DirectTransport, server: Server) -> httpx.Response:
    return await transport.handle_async_request(server.target().post(b"{}"))


@LOOPS
def test_two_hundred_requests_share_a_few_connections(loop: Loop) -> None:
    async def main() -> None:
        most = busy = 0

        async def script(peer: Peer) -> None:
            nonlocal most, busy
            while await peer.request():
                busy += 1
                most = max(most, busy)
                await asyncio.sleep(0)
                busy -= 1
                await peer.send(OK)

        async with serving(script) as server, direct(PoolLimits(connections=7)) as transport:
            answers = await asyncio.gather(*(ask(transport, server) for _ in range(200)))
            assert answers == [(200, b"hello")] * 200
            assert server.connections == 7
            assert most <= 7

    run(loop, main())


@LOOPS
def test_who_waits_is_served_in_the_order_of_coming(loop: Loop) -> None:
    async def main() -> None:
        served: list[int] = []
        gate = asyncio.Event()

        async def one(number: int) -> None:
            await ask(transport, server)
            served.append(number)

        async with (
            serving(keeps_until(gate)) as server,
            direct(PoolLimits(connections=1)) as transport,
        ):
            async with asyncio.TaskGroup() as tasks:
                for number in range(10):
                    tasks.create_task(one(number))
                gate.set()
            assert served == list(range(10))
            assert server.connections == 1

    run(loop, main())


@LOOPS
def test_waiting_for_a_place_has_a_limit(loop: Loop) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        limits = PoolLimits(connections=1)
        async with serving(keeps_until(gate)) as server, direct(limits) as transport:
            held = await begin(transport, server)
            request = server.target().post(b"{}")
            request.extensions["timeout"] = {"pool": 0.05, "connect": 5}
            with pytest.raises(httpx.PoolTimeout):
                await transport.handle_async_request(request)
            gate.set()
            assert b"".join([chunk async for chunk in chunks_of(held)]) == b"hello"
            assert await ask(transport, server) == (200, b"hello")

    run(loop, main())


@LOOPS
def test_who_stops_waiting_takes_no_place(loop: Loop) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        limits = PoolLimits(connections=1)
        async with serving(keeps_until(gate)) as server, direct(limits) as transport:
            held = await begin(transport, server)
            tasks = [asyncio.create_task(ask(transport, server)) for _ in range(3)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            await asyncio.gather(tasks[0], return_exceptions=True)
            gate.set()
            async for _ in chunks_of(held):
                pass
            # The place was given to this one just now, and it does not want it any more.
            tasks[1].cancel()
            assert await tasks[2] == (200, b"hello")
            assert server.connections == 1

    run(loop, main())


@LOOPS
def test_a_failed_connection_leaves_its_place(loop: Loop) -> None:
    async def main() -> None:
        async with direct(PoolLimits(connections=1)) as transport:
            async with serving(always(OK)) as server:
                pass
            results = await asyncio.gather(
                *(ask(transport, server) for _ in range(5)), return_exceptions=True
            )
            assert [type(result) for result in results] == [httpx.ConnectError] * 5

    run(loop, main())


@LOOPS
def test_the_last_connection_used_is_the_next(loop: Loop) -> None:
    async def main() -> None:
        used: list[int] = []
        two, gate = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            number = server.connections
            while await peer.request():
                used.append(number)
                if len(used) == 2:
                    two.set()
                await gate.wait()
                await peer.send(OK)

        async with serving(script) as server, direct() as transport:
            both = asyncio.gather(ask(transport, server), ask(transport, server))
            await two.wait()
            gate.set()
            await both
            for _ in range(3):
                await ask(transport, server)
            assert len(set(used[2:])) == 1
            assert server.connections == 2

    run(loop, main())


@LOOPS
def test_an_idle_connection_expires(loop: Loop) -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.closed()
            closed.set()

        limits = PoolLimits(connections=1, idle_seconds=0.05)
        async with serving(script) as server, direct(limits) as transport:
            for number in range(1, 4):
                assert await ask(transport, server) == (200, b"hello")
                await closed.wait()
                closed.clear()
                assert server.connections == number

    run(loop, main())


@LOOPS
def test_an_idle_connection_that_the_server_closes_leaves_the_pool(loop: Loop) -> None:
    async def main() -> None:
        script, limits = always(OK, close=True), PoolLimits(connections=1)
        async with serving(script) as server, direct(limits) as transport:
            for number in range(1, 6):
                assert await ask(transport, server) == (200, b"hello")
                # Now and then before the close is seen, now and then after it.
                for _ in range(number):
                    await asyncio.sleep(0)
            assert server.connections == 5

    run(loop, main())


@LOOPS
@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
def test_a_stale_connection_is_replaced_once(loop: Loop, reset: bool) -> None:  # noqa: FBT001 - pytest gives it
    """The second request on each connection is read, and not answered."""

    async def main() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.request()
            if reset:
                peer.reset()

        async with serving(script) as server, direct(PoolLimits(connections=1)) as transport:
            for _ in range(3):
                assert await ask(transport, server) == (200, b"hello")
            assert server.connections == 3

    run(loop, main())


@LOOPS
def test_a_new_connection_that_fails_is_not_tried_again(loop: Loop) -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            if server.connections == 1:
                await peer.send(OK)
                await peer.request()

        async with serving(script) as server, direct(PoolLimits(connections=1)) as transport:
            assert await ask(transport, server) == (200, b"hello")
            with pytest.raises(httpx.RemoteProtocolError):
                await ask(transport, server)
            assert server.connections == 2

    run(loop, main())


@LOOPS
def test_a_used_connection_that_breaks_in_its_answer_is_not_tried_again(loop: Loop) -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.request()
            await peer.send(b"H")

        async with serving(script) as server, direct() as transport:
            assert await ask(transport, server) == (200, b"hello")
            with pytest.raises(httpx.RemoteProtocolError):
                await ask(transport, server)
            assert server.connections == 1

    run(loop, main())


@LOOPS
def test_closing_the_transport_closes_everything(loop: Loop) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        limits = PoolLimits(connections=2)
        async with serving(keeps_until(gate)) as server, direct(limits) as transport:
            running = await begin(transport, server)
            other = await begin(transport, server)
            waiting = asyncio.create_task(ask(transport, server))
            await asyncio.sleep(0)
            await transport.aclose()
            with pytest.raises(httpx.ConnectError, match="closed"):
                await waiting
            chunks = chunks_of(running)
            assert await anext(chunks) == b"hello"
            with pytest.raises(httpx.ReadError):
                await anext(chunks)
            await other.aclose()
            with pytest.raises(httpx.ConnectError, match="closed"):
                await ask(transport, server)

    run(loop, main())
