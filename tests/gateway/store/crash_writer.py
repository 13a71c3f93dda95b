"""A process that writes to a store and prints what was committed, until it is killed."""

import asyncio
import os
import sys

from msgspec import Raw

from gateway.store import Event, JobUpdate, Store, StoredTurn, open_store
from tests.gateway.stores import response, turn

WRITERS = 8
CONVERSATION = "shared"
NODE = "writer"


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
