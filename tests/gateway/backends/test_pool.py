"""How requests share connections."""

import asyncio

import httpx
import pytest

from tests.gateway.backends.byte_server import (
    HALF,
    LAST_CHUNK,
    OK,
    Link,
    Peer,
    Script,
    always,
    chunks_of,
    direct,
    linked,
    serving,
)

HELLO = (200, b"hello")


def held_until(gate: asyncio.Event) -> Script:
    """Begin every response at once, and end it when the gate is set."""

    async def script(peer: Peer) -> None:
        while await peer.respond(HALF):
            await gate.wait()
            await peer.send(LAST_CHUNK)

    return script


async def test_many_requests_share_a_few_connections() -> None:
    most = busy = 0

    async def script(peer: Peer) -> None:
        nonlocal most, busy
        while await peer.request():
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0)
            busy -= 1
            await peer.send(OK)

    async with linked(script, connections=7) as link:
        responses = await asyncio.gather(*(link.send() for _ in range(200)))
        assert responses == [HELLO] * 200
        assert link.connections == 7
        assert most <= 7


async def test_waiting_requests_are_served_in_order() -> None:
    served: list[int] = []
    gate = asyncio.Event()

    async def one(number: int) -> None:
        await link.send()
        served.append(number)

    async with linked(held_until(gate), connections=1) as link:
        async with asyncio.TaskGroup() as tasks:
            for number in range(10):
                tasks.create_task(one(number))
            gate.set()
        assert served == list(range(10))
        assert link.connections == 1


async def test_waiting_for_a_connection_times_out() -> None:
    gate = asyncio.Event()
    async with linked(held_until(gate), connections=1) as link:
        held = await link.begin()
        with pytest.raises(httpx.PoolTimeout):
            await link.await_slot(0.05)
        gate.set()
        assert b"".join([chunk async for chunk in chunks_of(held)]) == b"hello"
        assert await link.send() == HELLO


async def test_cancelled_wait_takes_no_slot() -> None:
    gate = asyncio.Event()
    async with linked(held_until(gate), connections=1) as link:
        held = await link.begin()
        tasks = [asyncio.create_task(link.send()) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
        gate.set()
        async for _ in chunks_of(held):
            pass
        # This one has just received the slot.
        tasks[1].cancel()
        assert await tasks[2] == HELLO
        assert link.connections == 1


async def test_failed_connection_frees_its_slot() -> None:
    async with direct(connections=1) as transport:
        async with serving(always(OK)) as server:
            link = Link(transport, server)
        results = await asyncio.gather(*(link.send() for _ in range(5)), return_exceptions=True)
        assert [type(result) for result in results] == [httpx.ConnectError] * 5


async def test_most_recently_used_connection_is_used_next() -> None:
    used: list[int] = []
    two, gate = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        number = link.connections
        while await peer.request():
            used.append(number)
            if len(used) == 2:
                two.set()
            await gate.wait()
            await peer.send(OK)

    async with linked(script) as link:
        both = asyncio.gather(link.send(), link.send())
        await two.wait()
        gate.set()
        await both
        for _ in range(3):
            await link.send()
        assert len(set(used[2:])) == 1
        assert link.connections == 2


async def test_idle_connection_expires() -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.respond(OK)
        await peer.closed()
        closed.set()

    async with linked(script, connections=1, idle_seconds=0.05) as link:
        for number in range(1, 4):
            assert await link.send() == HELLO
            await closed.wait()
            closed.clear()
            assert link.connections == number


async def test_idle_connection_closed_by_the_server_is_not_used() -> None:
    async with linked(always(OK, close=True), connections=1) as link:
        for number in range(1, 6):
            assert await link.send() == HELLO
            # Sometimes before the close is noticed, sometimes after it.
            for _ in range(number):
                await asyncio.sleep(0)
        assert link.connections == 5


@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
async def test_stale_connection_is_replaced_once(reset: bool) -> None:  # noqa: FBT001 - pytest passes it
    """The server reads the second request on each connection and closes without a response."""

    async def script(peer: Peer) -> None:
        await peer.respond(OK)
        await peer.request()
        if reset:
            peer.reset()

    async with linked(script, connections=1) as link:
        for _ in range(3):
            assert await link.send() == HELLO
        assert link.connections == 3


@pytest.mark.parametrize(
    ("second", "connections"),
    [
        pytest.param((), 2, id="of-a-new-connection"),
        pytest.param((b"H",), 1, id="within-a-response"),
    ],
)
async def test_failure_is_not_retried(second: tuple[bytes, ...], connections: int) -> None:
    async def script(peer: Peer) -> None:
        if link.connections == 1:
            await peer.respond(OK)
        await peer.respond(*second)

    async with linked(script, connections=1) as link:
        assert await link.send() == HELLO
        with pytest.raises(httpx.RemoteProtocolError):
            await link.send()
        assert link.connections == connections


async def test_closing_the_transport_closes_all_connections() -> None:
    gate = asyncio.Event()
    async with linked(held_until(gate), connections=2) as link:
        running = await link.begin()
        other = await link.begin()
        waiting = asyncio.create_task(link.send())
        await asyncio.sleep(0)
        await link.transport.aclose()
        with pytest.raises(httpx.ConnectError, match="closed"):
            await waiting
        chunks = chunks_of(running)
        assert await anext(chunks) == b"hello"
        with pytest.raises(httpx.ReadError):
            await anext(chunks)
        await other.aclose()
        with pytest.raises(httpx.ConnectError, match="closed"):
            await link.send()
