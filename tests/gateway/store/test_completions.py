"""Stored chat completions on both databases."""

import asyncio

from msgspec import Raw

from gateway.store import Completion, Listing, Page, Store
from tests.gateway.stores import with_two_stores


def completion(
    completion_id: str, model: str = "m", owner: str = "me", **metadata: str
) -> Completion:
    return Completion(completion_id, owner, 1000, Raw(b'{"c":1}'), Raw(b"[1,2]"), model, metadata)


async def list_ids(
    store: Store, page: Page | None = None, model: str | None = None, **metadata: str
) -> list[str]:
    return [one.id for one in (await list_page(store, page, model, **metadata)).data]


async def list_page(
    store: Store, page: Page | None, model: str | None = None, owner: str = "me", **metadata: str
) -> Listing[Completion]:
    listing = await store.completions.list(owner, page or Page(), model, metadata)
    assert listing is not None
    return listing


@with_two_stores
async def test_completion_lifecycle(store: Store, other: Store) -> None:
    await store.completions.save(completion("a", topic="x"))
    assert await other.completions.load("me", "a") == completion("a", topic="x")
    assert await store.completions.update_metadata("me", "a", {"topic": "y", "more": "z"})
    assert await other.completions.load("me", "a") == completion("a", topic="y", more="z")
    assert await list_ids(store, topic="x") == []
    assert await list_ids(store, topic="y", more="z") == ["a"]
    assert await store.completions.delete("me", "a")
    assert not await store.completions.delete("me", "a")
    assert await other.completions.load("me", "a") is None
    assert await list_ids(other) == []


@with_two_stores
async def test_completions_of_other_owners_do_not_exist(store: Store, other: Store) -> None:
    await store.completions.save(completion("a"))
    for owner, completion_id in (("you", "a"), ("me", "unknown")):
        assert await other.completions.load(owner, completion_id) is None
        assert not await other.completions.update_metadata(owner, completion_id, {})
        assert not await other.completions.delete(owner, completion_id)
        assert await other.completions.list(owner, Page(after=completion_id), None, {}) is None
    assert (await list_page(other, None, owner="you")).data == ()


@with_two_stores
async def test_lists_are_filtered_and_paged(store: Store, other: Store) -> None:
    for number in range(6):
        labels = {"even": str(number % 2), "by": str(number % 3)}
        await store.completions.save(completion(f"c{number}", f"m{number % 2}", **labels))
    await store.completions.save(completion("foreign", owner="you"))
    assert await list_ids(other) == [f"c{number}" for number in range(6)]
    assert await list_ids(other, Page(newest_first=True), model="m1") == ["c5", "c3", "c1"]
    assert await list_ids(other, even="0", by="1") == ["c4"]
    assert await list_ids(other, even="0", model="m1") == []
    assert await list_ids(other, Page("c1", 2)) == ["c2", "c3"]
    assert await list_ids(other, Page("c2", 5, newest_first=True)) == ["c1", "c0"]
    for limit, has_more in ((6, False), (5, True)):
        assert (await list_page(other, Page(limit=limit))).has_more is has_more


@with_two_stores
async def test_completion_with_the_same_id_is_replaced(store: Store, other: Store) -> None:
    await store.completions.save(completion("a", topic="x"))
    await store.completions.save(completion("b"))
    await other.completions.save(completion("a", owner="you", topic="yours"))
    # Some at once, in one transaction or in two concurrent ones.
    nodes = (store, other, store)
    await asyncio.gather(
        *(node.completions.save(completion("a", model=f"m{node is other}")) for node in nodes)
    )
    await store.completions.save(completion("a", model="last", topic="z"))
    assert await other.completions.load("me", "a") == completion("a", model="last", topic="z")
    assert await list_ids(other) == ["b", "a"]
    assert await list_ids(other, topic="x") == []
    assert await list_ids(other, topic="z") == ["a"]
    foreign = await store.completions.load("you", "a")
    assert foreign == completion("a", owner="you", topic="yours")
    assert await store.completions.delete("me", "a")
    assert (await list_page(store, None, owner="you", topic="yours")).data == (foreign,)
