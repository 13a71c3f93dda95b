"""Writes to a store as fast as it can, says what was committed, and waits to be killed."""

import asyncio
import os
import sys

from msgspec import Raw

from gateway.store import Event, Store, open_store
from tests.gateway.stores import response, turn

WRITERS = 8
CONVERSATION = "shared"


async def _write(store: Store, writer: str) -> None:
    """Go on with a chain for ever; every other turn in the background."""
    parent: str | None = None
    number = 0
    while True:
        name = f"{writer}.{number}"
        made = turn(name, parent, conversation=CONVERSATION)
        if number % 2:
            await _work(store, name, parent)
        else:
            await store.responses.save(made)
        os.write(sys.stdout.fileno(), f"{name}\n".encode())
        parent = name
        number += 1


async def _work(store: Store, name: str, parent: str | None) -> None:
    made = turn(name, parent, conversation=CONVERSATION, status="queued")
    queued = type(made)(made.response, made.input)
    await store.jobs.enqueue(queued, Raw(b"1"), "victim", 60)
    await store.jobs.append_events(name, "victim", [Event(0, Raw(b"0"))])
    done = response(name, parent=parent, conversation=CONVERSATION)
    await store.jobs.finish(done, "victim", made.output, [Event(1, Raw(b"1"))])


async def main(url: str, generation: str) -> None:
    """Write until the end."""
    store = await open_store(url)
    await asyncio.gather(*(_write(store, f"{generation}-{number}") for number in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
