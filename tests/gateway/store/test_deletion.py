"""What stays in the database after deletions, and how reasoning notes expire."""

import asyncio
import time

from msgspec import Raw

from gateway.store import Completion, Conversation, Page, Store, StoredTurn
from tests.gateway.rows import count_rows
from tests.gateway.stores import (
    ids,
    item,
    opened_store,
    response,
    turn,
    with_two_stores,
    with_url,
)

DAY = 86400


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
            await store.completions.save(
                Completion(name, "me", created, Raw(b"1"), Raw(b"1"), metadata={"a": "b"})
            )
            await store.conversations.create(Conversation(name, "me", created), [item(name)])
        assert [await store.delete_unused(DAY, 2) for _ in range(4)] == [4, 2, 1, 0]
        assert await store.responses.load_chain("me", "old0b") is None
        assert await store.responses.load_chain("me", "recent") is not None
        assert await store.completions.load("me", "x") is None
        assert await store.completions.load("me", "y") is not None
        assert await store.conversations.load("me", "x") is None
        assert await store.conversations.list_items("me", "y", Page()) is not None
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


@with_url
async def test_each_turn_adds_only_its_own_rows(url: str) -> None:
    async with opened_store(url) as store:
        await store.conversations.create(Conversation("c", "me", 1000))
        for number in range(20):
            parent = f"r{number - 1}" if number else None
            await store.responses.save(turn(f"r{number}", parent, conversation="c"))
    assert await count(url) == {"responses": 20, "items": 40, "conversations": 1}


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
