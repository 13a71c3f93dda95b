"""What is stored, for how long, and what is not stored, seen in the database itself."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import openai
import pytest
from msgspec import Raw

from gateway.http.auth import Principal
from gateway.pytest_plugin.scripted_backend import ScriptedBackend
from gateway.retention import retention_task
from gateway.store import Completion, Conversation, Store, StoredTurn
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import DIALECTS, backend_tables, state_table
from tests.gateway.rows import count_rows, execute
from tests.gateway.stores import (
    DATABASES,
    ids,
    item,
    load_items,
    new_url,
    opened_store,
    response,
    run_async,
    turn,
    with_two_stores,
    with_url,
)
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until

DAY = 86_400
ME = Principal(authorization="Bearer sk-test").owner
HELLO: Any = [{"role": "user", "content": "Hello"}]
FINE = Turn("Fine.")


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_url(request.param, tmp_path)


@contextmanager
def run_on(
    url: str, backend: ScriptedBackend, folder: Path, settings: str = ""
) -> Generator[Harness]:
    """Run a gateway on a database."""
    config = state_table(url, settings) + backend_tables(backend.address)
    with run_harness(backend, config, folder) as harness:
        yield harness


@run_async
async def write_to(url: str, write: Callable[[Store], Awaitable[None]]) -> None:
    """Write to a database before a gateway uses it."""
    async with opened_store(url) as store:
        await write(store)


def stored_completion(completion_id: str, created: int = 1000, owner: str = ME) -> Completion:
    body = Raw(b'{"object":"chat.completion","choices":[]}')
    return Completion(completion_id, owner, created, body, Raw(b"[]"), "m", {"a": "b"})


async def save_one_of_each(store: Store, suffix: str, created: int) -> None:
    await store.responses.save(turn(f"resp_{suffix}", owner=ME, created=created))
    conversation = Conversation(f"conv_{suffix}", ME, created)
    await store.conversations.create(conversation, [item(f"msg_{suffix}")])
    await store.completions.save(stored_completion(f"chatcmpl-{suffix}", created))


# Unused objects


def test_unused_objects_are_deleted(url: str, tmp_path: Path, backend: ScriptedBackend) -> None:
    now = int(time.time())

    async def write(store: Store) -> None:
        for number in range(150):
            await store.completions.save(stored_completion(f"many-{number}"))
        await save_one_of_each(store, "old", now - 2 * DAY)
        await save_one_of_each(store, "new", now - 60)
        # Old, but used since.
        await store.responses.save(turn("resp_first", owner=ME, created=1000))
        await store.responses.save(turn("resp_second", "resp_first", owner=ME, created=now))
        await store.conversations.create(Conversation("conv_used", ME, 1000))
        await store.conversations.append_items(ME, "conv_used", [item("msg_used")])

    write_to(url, write)
    with run_on(url, backend, tmp_path, "retention_days = 1.5") as harness:
        wait_until(lambda: execute(url, "SELECT COUNT(*) FROM completions") == [(1,)])
        sdk = harness.sdk
        retrieve: list[Callable[[str], object]] = [
            lambda name: sdk.responses.retrieve(f"resp_{name}"),
            lambda name: sdk.conversations.retrieve(f"conv_{name}"),
            lambda name: sdk.chat.completions.retrieve(f"chatcmpl-{name}"),
        ]
        for get in retrieve:
            # The same error as for an object that never existed.
            assert error_text(get, "old").replace("old", "nil") == error_text(get, "nil")
            get("new")
        sdk.responses.retrieve("resp_first")
        assert [one.id for one in sdk.conversations.items.list("conv_used")] == ["msg_used"]
        assert execute(url, "SELECT COUNT(*) FROM labels") == [(1,)]
        assert execute(url, "SELECT id FROM items WHERE id LIKE '%old%'") == []
    assert "unused objects deleted" in harness.gateway.log


def error_text(get: Callable[[str], object], name: str) -> str:
    with pytest.raises(openai.NotFoundError) as caught:
        get(name)
    return caught.value.response.text


async def run_retention_once(store: Store, days: float) -> int:
    """Run the retention task until its first run is over; return how often it ran."""
    runs = -1
    finished = asyncio.Event()

    def jitter() -> float:
        """Return no delay; called before the first run and after each one."""
        nonlocal runs
        runs += 1
        if runs:
            finished.set()
        return 0

    async with retention_task(store, days, jitter):
        if days:
            await asyncio.wait_for(finished.wait(), TIMEOUT_SECONDS)
    return max(runs, 0)


@pytest.mark.parametrize(("days", "left"), [(0, ["old", "new"]), (1, ["new"])])
@run_async
async def test_zero_days_disable_retention(days: float, left: list[str]) -> None:
    async with opened_store("memory:") as store:
        await save_one_of_each(store, "old", 1000)
        await save_one_of_each(store, "new", int(time.time()))
        assert bool(await run_retention_once(store, days)) == bool(days)
        names = ("old", "new")
        loaded = {it: await store.completions.load(ME, f"chatcmpl-{it}") for it in names}
    assert [name for name in names if loaded[name]] == left


@run_async
async def test_retention_uses_the_clock_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time())
    async with opened_store("memory:") as store:
        await save_one_of_each(store, "new", now)
        monkeypatch.setattr(time, "time", lambda: now + 100 * DAY)
        assert await run_retention_once(store, 30)
        assert await store.responses.load(ME, "resp_new") is not None


def test_failed_retention_run_is_repeated(tmp_path: Path, backend: ScriptedBackend) -> None:
    url = new_url("sqlite", tmp_path)
    write_to(url, lambda store: save_one_of_each(store, "old", 1000))
    execute(url, "ALTER TABLE labels RENAME TO missing")
    # About a second, which is then the interval, too.
    with run_on(url, backend, tmp_path, "retention_days = 0.00001") as harness:
        wait_until(lambda: "retention run failed" in harness.gateway.log)
        assert raw_http.get(harness.gateway.port, "/health").status == 200
        execute(url, "ALTER TABLE missing RENAME TO labels")
        wait_until(lambda: count_rows(url) == {})


# Rows that are left after deletions


async def count(url: str) -> dict[str, int]:
    return await asyncio.to_thread(count_rows, url)


@with_url
async def test_unused_objects_are_deleted_in_parts(url: str) -> None:
    async with opened_store(url) as store:
        for number in range(5):
            await store.responses.save(turn(f"old{number}"))
            await store.responses.save(turn(f"old{number}b", f"old{number}", created=1005))
        await store.responses.save(turn("used"))
        await store.responses.save(turn("recent", "used", created=2 * DAY))
        for name, created in (("x", 1000), ("y", 2 * DAY)):
            await store.completions.save(stored_completion(name, created, "me"))
            await store.conversations.create(Conversation(name, "me", created), [item(name)])
        assert [await store.delete_unused(DAY, 2) for _ in range(4)] == [4, 2, 1, 0]
        assert await store.responses.load_chain("me", "old0b") is None
        assert await store.responses.load_chain("me", "recent") is not None
        assert await store.completions.load("me", "x") is None
        assert await store.completions.load("me", "y") is not None
        assert await store.conversations.load("me", "x") is None
        await load_items(store, "y")
        rows = {"responses": 2, "items": 5, "conversations": 1, "completions": 1, "labels": 1}
        assert await count(url) == rows
        await store.delete_unused(3 * DAY)
    assert await count(url) == {}


@with_url
async def test_conversation_stays_while_a_chain_that_started_there_is_used(url: str) -> None:
    later = int(time.time()) + 2 * DAY
    async with opened_store(url) as store:
        await store.conversations.create(Conversation("c", "me", 1000), [item("long ago")])
        await store.responses.save(turn("first", conversation="c"))
        await store.responses.save(turn("second", "first", created=later))
        assert await store.delete_unused(later - DAY) == 0
        before = await store.conversations.list_items_before("me", "c", "first")
        assert ids(before) == ["long ago"]
        await store.delete_unused(later + DAY)
    assert await count(url) == {}


@with_url
async def test_deleted_objects_leave_no_rows(url: str) -> None:
    async with opened_store(url) as store:
        for number in range(4):
            await store.responses.save(turn(f"r{number}", f"r{number - 1}" if number else None))
        stored = (await store.responses.find_items("me", ["r0-in"]))["r0-in"]
        await store.conversations.create(Conversation("c", "me", 1000), [stored])
        await store.responses.save(turn("in", conversation="c"))
        queued = StoredTurn(response("j", status="queued"), (stored,))
        await store.jobs.enqueue(queued, Raw(b"1"), "A", 60)
        for response_id in ("r1", "r0", "r2", "in", "j", "r3"):
            assert await store.responses.delete("me", response_id)
        assert await count(url) == {"items": 3, "conversations": 1}
        assert await store.conversations.delete("me", "c")
    assert await count(url) == {}


@with_two_stores
async def test_reasoning_notes_are_found_on_every_node(store: Store, other: Store) -> None:
    long_name = "x" * 5000
    texts = {"call_1": "old", "call_2": "two", long_name: "not stored"}
    await store.reasoning_notes.save("backend\0me", texts)
    await asyncio.gather(
        store.reasoning_notes.save("backend\0me", {"call_1": "one"}),
        store.reasoning_notes.save("backend\0you", {}),
    )
    names = ["call_1", "call_2", "call_3", "\0", long_name]
    found = await other.reasoning_notes.find("backend\0me", names)
    assert found == {"call_1": "one", "call_2": "two"}
    assert await other.reasoning_notes.find("backend\0you", names) == {}
    assert await other.reasoning_notes.find("backend\0me", []) == {}
    assert await store.delete_unused(2**40) == 2
    assert await other.reasoning_notes.find("backend\0me", names) == {}


# Requests that are not stored


def test_requests_without_store_leave_no_rows(
    url: str, tmp_path: Path, backend: ScriptedBackend
) -> None:
    with run_on(url, backend, tmp_path) as harness:
        responses: Any = harness.sdk.responses
        completions: Any = harness.sdk.chat.completions
        for dialect in DIALECTS:
            model = harness.script_always(dialect, FINE)
            for stream in (False, True):
                body = {"model": model, "stream": stream}
                read(responses.create(**body, input="Hello", store=False))
                read(completions.create(**body, messages=HELLO, store=False))
                read(completions.create(**body, messages=HELLO))
            assert len(backend.received(model)) == 6
        assert count_rows(url) == {}
        # With `store` there are rows.
        model = harness.script_always("chat", FINE)
        responses.create(model=model, input="Hello")
        completions.create(model=model, messages=HELLO, store=True, metadata={"a": "b"})
        assert count_rows(url) == {"responses": 1, "items": 2, "completions": 1, "labels": 1}


def read(reply: Any) -> None:
    """Read a reply, streamed or not."""
    if isinstance(reply, openai.Stream):
        assert [*cast("Iterable[object]", reply)]
