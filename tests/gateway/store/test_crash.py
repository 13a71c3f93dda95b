"""A node is killed in the middle of its writing; what it had acknowledged is there."""

import asyncio
import subprocess
import sys
from pathlib import Path

from gateway.store import Conversation, Page, Store
from tests.gateway.store.crash_victim import CONVERSATION
from tests.gateway.stores import BOTH, names, new_url, opened

ROOT = Path(__file__).parents[3]
ROUNDS = 3
ENOUGH = 150


@BOTH
def test_what_was_acknowledged_survives_kill(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def begin() -> None:
        async with opened(url) as store:
            await store.conversations.create(Conversation(CONVERSATION, "me", 1000))

    asyncio.run(begin())
    acknowledged: list[str] = []
    for generation in range(ROUNDS):
        acknowledged += kill_in_the_middle(url, str(generation))
        asyncio.run(check(url, acknowledged))


def kill_in_the_middle(url: str, generation: str) -> list[str]:
    """Let a child write, kill it when it has said enough; give what it had said."""
    command = [sys.executable, "-m", "tests.gateway.store.crash_victim", url, generation]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:  # noqa: S603 - a module of ours
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(ENOUGH)]
        child.kill()
        said += child.stdout.readlines()
    # The last line may have been cut.
    return [line.decode().strip() for line in said if line.endswith(b"\n")]


async def check(url: str, acknowledged: list[str]) -> None:
    async with opened(url) as store:
        last = {name.partition(".")[0]: name for name in acknowledged}
        for name in last.values():
            await check_chain(store, name)
        found = await store.conversations.list_items("me", CONVERSATION, Page())
        assert found is not None
        kept = names(found.data)
        assert set(kept) >= {f"{name}-{side}" for name in acknowledged for side in ("in", "out")}
        # All turns are whole, also those that nobody was told of.
        for first, second in zip(kept[::2], kept[1::2], strict=True):
            assert first.removesuffix("-in") == second.removesuffix("-out")


async def check_chain(store: Store, name: str) -> None:
    """All turns of a chain are there, whole and in order."""
    steps = await store.responses.load_chain("me", name)
    assert steps is not None
    writer, _, number = name.partition(".")
    assert [step.id for step in steps] == [f"{writer}.{n}" for n in range(int(number) + 1)]
    for step in steps:
        assert step.status == "completed"
        assert names(step.input + step.output) == [f"{step.id}-in", f"{step.id}-out"]
    events = [event.number async for event in store.jobs.follow_events("me", name)]
    assert events == ([0, 1] if int(number) % 2 else [])
