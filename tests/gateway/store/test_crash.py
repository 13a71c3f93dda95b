"""Acknowledged writes survive a process that is killed.

This module is also the process, which prints what was committed.
"""

import asyncio
import os
import subprocess
import sys

from msgspec import Raw

from gateway.store import Conversation, Event, JobUpdate, Store, StoredTurn, open_store
from tests.gateway.gateway_process import ROOT
from tests.gateway.stores import ids, load_items, opened_store, response, turn, with_url

WRITERS = 8
CONVERSATION = "shared"
NODE = "writer"
ROUNDS = 3
LINES_BEFORE_KILL = 150


@with_url
async def test_acknowledged_writes_survive_a_kill(url: str) -> None:
    async with opened_store(url) as store:
        await store.conversations.create(Conversation(CONVERSATION, "me", 1000))
    acknowledged: list[str] = []
    for generation in range(ROUNDS):
        acknowledged += await asyncio.to_thread(write_until_killed, url, str(generation))
        async with opened_store(url) as store:
            await check(store, acknowledged)


def write_until_killed(url: str, generation: str) -> list[str]:
    """Kill a writing process after some time; return the ids that it had printed."""
    command = [sys.executable, "-m", "tests.gateway.store.test_crash", url, generation]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:  # noqa: S603 - our own module
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(LINES_BEFORE_KILL)]
        child.kill()
        lines += child.stdout.readlines()
    # The last line may be incomplete.
    return [line.decode().strip() for line in lines if line.endswith(b"\n")]


async def check(store: Store, acknowledged: list[str]) -> None:
    last_by_writer = {name.partition(".")[0]: name for name in acknowledged}
    for response_id in last_by_writer.values():
        await check_chain(store, response_id)
    listed = ids((await load_items(store, CONVERSATION)).data)
    assert set(listed) >= {f"{name}-{side}" for name in acknowledged for side in ("in", "out")}
    # Turns that were not acknowledged are complete, too.
    for first, second in zip(listed[::2], listed[1::2], strict=True):
        assert first.removesuffix("-in") == second.removesuffix("-out")


async def check_chain(store: Store, response_id: str) -> None:
    """Check that all turns of a chain are complete and in order."""
    chain = await store.responses.load_chain("me", response_id)
    assert chain is not None
    writer, _, number = response_id.partition(".")
    assert [link.id for link in chain] == [f"{writer}.{n}" for n in range(int(number) + 1)]
    for link in chain:
        assert link.status == "completed"
        assert ids(link.input + link.output) == [f"{link.id}-in", f"{link.id}-out"]
    events = [event.number async for event in store.jobs.follow_events("me", response_id)]
    assert events == ([0, 1] if int(number) % 2 else [])


# The writing process


async def _write(store: Store, writer: str) -> None:
    """Continue a chain for ever; every other turn is a background job."""
    parent: str | None = None
    number = 0
    while True:
        response_id = f"{writer}.{number}"
        if number % 2:
            await _run_job(store, response_id, parent)
        else:
            await store.responses.save(turn(response_id, parent, conversation=CONVERSATION))
        os.write(sys.stdout.fileno(), f"{response_id}\n".encode())
        parent = response_id
        number += 1


async def _run_job(store: Store, response_id: str, parent: str | None) -> None:
    queued = turn(response_id, parent, conversation=CONVERSATION, status="queued")
    await store.jobs.enqueue(StoredTurn(queued.response, queued.input), Raw(b"1"), NODE, 60)
    await store.jobs.update(JobUpdate(response_id, NODE, [Event(0, Raw(b"0"))]))
    finished = response(response_id, parent=parent, conversation=CONVERSATION)
    await store.jobs.update(
        JobUpdate(response_id, NODE, [Event(1, Raw(b"1"))], finished=finished, output=queued.output)
    )


async def main(url: str, generation: str) -> None:
    """Run all writers."""
    store = await open_store(url)
    await asyncio.gather(*(_write(store, f"{generation}-{number}") for number in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
