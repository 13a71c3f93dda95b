"""Stored chat completions over both databases."""

import asyncio

from msgspec import Raw

from gateway.store import Completion, Page, Store
from tests.gateway.stores import over_both


def completion(name: str, model: str = "m", owner: str = "me", **metadata: str) -> Completion:
    return Completion(name, owner, 1000, Raw(b'{"c":1}'), Raw(b"[1,2]"), model, metadata)


async def found(
    store: Store, page: Page | None = None, model: str | None = None, **metadata: str
) -> list[str]:
    listing = await store.completions.list("me", page or Page(), model, metadata)
    assert listing is not None
    return [one.id for one in listing.data]


@over_both
async def test_a_completion_from_beginning_to_end(store: Store, other: Store) -> None:
    await store.completions.save(completion("a", topic="x"))
    assert await other.completions.load("me", "a") == completion("a", topic="x")
    assert await store.completions.update_metadata("me", "a", {"topic": "y", "more": "z"})
    changed = await other.completions.load("me", "a")
    assert changed is not None
    assert changed.metadata == {"topic": "y", "more": "z"}
    assert await found(store, topic="x") == []
    assert await found(store, topic="y", more="z") == ["a"]
    assert await store.completions.delete("me", "a")
    assert not await store.completions.delete("me", "a")
    assert await other.completions.load("me", "a") is None
    assert await found(other) == []


@over_both
async def test_a_completion_of_another_owner_is_not_there(store: Store, other: Store) -> None:
    await store.completions.save(completion("a"))
    for owner, name in (("you", "a"), ("me", "unknown")):
        assert await other.completions.load(owner, name) is None
        assert not await other.completions.update_metadata(owner, name, {})
        assert not await other.completions.delete(owner, name)
        assert await other.completions.list(owner, Page(after=name), None, {}) is None
    listing = await other.completions.list("you", Page(), None, {})
    assert listing is not None
    assert listing.data == ()


@over_both
async def test_lists_are_filtered_and_paged(store: Store, other: Store) -> None:
    for number in range(6):
        one = completion(f"c{number}", f"m{number % 2}", even=str(number % 2), by=str(number % 3))
        await store.completions.save(one)
    await store.completions.save(completion("foreign", owner="you"))
    assert await found(other) == [f"c{number}" for number in range(6)]
    assert await found(other, Page(newest_first=True), model="m1") == ["c5", "c3", "c1"]
    assert await found(other, even="0", by="1") == ["c4"]
    assert await found(other, even="0", model="m1") == []
    assert await found(other, Page("c1", 2)) == ["c2", "c3"]
    assert await found(other, Page("c2", 5, newest_first=True)) == ["c1", "c0"]
    listing = await other.completions.list("me", Page(limit=6), None, {})
    assert listing is not None
    assert not listing.has_more
    listing = await other.completions.list("me", Page(limit=5), None, {})
    assert listing is not None
    assert listing.has_more


@over_both
async def test_of_several_with_one_id_an_owner_has_the_latest(store: Store, other: Store) -> None:
    await store.completions.save(completion("a", topic="x"))
    await store.completions.save(completion("b"))
    await other.completions.save(completion("a", owner="you", topic="yours"))
    # Some at once, in one transaction or in two that meet.
    await asyncio.gather(
        *(
            node.completions.save(completion("a", model=f"m{node is other}"))
            for node in (store, other, store)
        )
    )
    await store.completions.save(completion("a", model="last", topic="z"))
    kept = await other.completions.load("me", "a")
    assert kept == completion("a", model="last", topic="z")
    assert await found(other) == ["b", "a"]
    assert await found(other, topic="x") == []
    assert await found(other, topic="z") == ["a"]
    yours = await store.completions.load("you", "a")
    assert yours == completion("a", owner="you", topic="yours")
    assert await store.completions.delete("me", "a")
    listing = await store.completions.list("you", Page(), None, {"topic": "yours"})
    assert listing is not None
    assert listing.data == (yours,)
