"""Conversations and chat completions on both databases, with writers on two nodes."""

import asyncio

from msgspec import Raw

from gateway.store import Completion, Conversation, Item, Listing, Page, Store, StoredTurn
from tests.gateway.stores import (
    bodies,
    ids,
    item,
    load,
    load_items,
    response,
    turn,
    with_two_stores,
)


async def list_ids(store: Store, conversation_id: str = "c") -> list[str]:
    return ids((await load_items(store, conversation_id)).data)


@with_two_stores
async def test_conversation_lifecycle(store: Store, other: Store) -> None:
    created = Conversation("c", "me", 1000, Raw(b'{"a":"b"}'))
    await store.conversations.create(created, [item("one"), item("two")])
    assert await other.conversations.load("me", "c") == created
    assert await other.conversations.append_items("me", "c", [item("three")])
    assert await list_ids(store) == ["one", "two", "three"]
    assert await store.conversations.update_metadata("me", "c", Raw(b"{}"))
    updated = Conversation("c", "me", 1000, Raw(b"{}"))
    assert await other.conversations.load("me", "c") == updated
    loaded = await other.conversations.load_item("me", "c", "two")
    assert loaded is not None
    assert loaded.body == item("two").body
    assert await other.conversations.delete_items("me", "c", "two")
    assert not await other.conversations.delete_items("me", "c", "two")
    assert await store.conversations.load_item("me", "c", "two") is None
    assert await list_ids(store) == ["one", "three"]
    assert await store.conversations.delete("me", "c")
    assert not await other.conversations.delete("me", "c")
    assert await other.conversations.list_items("me", "c", Page()) is None
    assert await other.responses.find_items("me", ["one"]) == {}


@with_two_stores
async def test_conversations_of_other_owners_do_not_exist(store: Store, other: Store) -> None:
    await store.conversations.create(Conversation("c", "me", 1000), [item("one")])
    for owner, conversation_id in (("you", "c"), ("me", "unknown")):
        key = (owner, conversation_id)
        assert await other.conversations.load(*key) is None
        assert await other.conversations.list_items(*key, Page()) is None
        assert await other.conversations.list_items(*key, Page(after="one")) is None
        assert await other.conversations.load_item(*key, "one") is None
        assert not await other.conversations.update_metadata(*key, Raw(b"1"))
        assert not await other.conversations.append_items(*key, [item("two")])
        assert not await other.conversations.delete_items(*key, "one")
        assert not await other.conversations.delete(*key)
    await other.responses.save(turn("r", owner="you", conversation="c"))
    assert await list_ids(store) == ["one"]


@with_two_stores
async def test_items_are_paged_in_both_orders(store: Store, other: Store) -> None:
    all_ids = [f"i{number}" for number in range(7)]
    await store.conversations.create(Conversation("c", "me", 1), [item(it) for it in all_ids])
    for newest_first in (False, True):
        listed: list[str] = []
        more = True
        while more:
            page = Page(listed[-1] if listed else None, 3, newest_first=newest_first)
            part = await load_items(other, "c", page)
            listed += ids(part.data)
            more = part.has_more
        assert listed == (all_ids[::-1] if newest_first else all_ids)
    assert await other.conversations.list_items("me", "c", Page(after="none")) is None


@with_two_stores
async def test_repeated_item_ids_are_listed_completely(store: Store, other: Store) -> None:
    items = [item(name, str(number)) for number, name in enumerate("xaxbxc")]
    await store.conversations.create(Conversation("c", "me", 1), items)
    for newest_first in (False, True):
        listed: list[Item] = []
        page: Page | None = Page(None, 1, newest_first=newest_first)
        while page:
            part = await load_items(other, "c", page)
            listed += part.data
            page = Page(part.cursor, 1, newest_first=newest_first) if part.has_more else None
        assert bodies(listed[::-1] if newest_first else listed) == bodies(items)
    # A page after the bare id comes to an end as well.
    assert ids((await load_items(other, "c", Page("x"))).data) == ["c"]
    for cursor in ("x@1", "x@99", "y@0", "x@", "@1", "x@-1"):
        assert await other.conversations.list_items("me", "c", Page(cursor)) is None


@with_two_stores
async def test_responses_are_appended_to_their_conversation(store: Store, other: Store) -> None:
    await store.conversations.create(Conversation("c", "me", 1000), [item("zero")])
    await store.responses.save(turn("a", conversation="c"))
    await other.responses.save(turn("b", conversation="c", status="incomplete"))
    all_ids = ["zero", "a-in", "a-out", "b-in", "b-out"]
    assert await list_ids(store) == all_ids
    # An item is deleted only with both the response and the conversation that it belongs to.
    assert await store.responses.delete("me", "a")
    assert await list_ids(other) == all_ids
    assert await store.conversations.delete("me", "c")
    loaded = await load(other, "b")
    assert ids(loaded.input + loaded.output) == ["b-in", "b-out"]
    assert set(await store.responses.find_items("me", ["a-in", "b-in"])) == {"b-in"}


@with_two_stores
async def test_response_is_saved_without_its_deleted_conversation(
    store: Store, other: Store
) -> None:
    await store.responses.save(turn("a", conversation="gone"))
    assert ids((await load(other, "a")).output) == ["a-out"]
    assert await other.conversations.list_items("me", "gone", Page()) is None


@with_two_stores
async def test_failed_response_is_not_appended(store: Store, other: Store) -> None:
    await store.conversations.create(Conversation("c", "me", 1000), [item("zero")])
    await store.responses.save(turn("a", conversation="c", status="failed"))
    assert await list_ids(other) == ["zero"]
    assert await store.responses.load("me", "a") is not None


@with_two_stores
async def test_200_concurrent_writers_lose_nothing(store: Store, other: Store) -> None:
    await store.conversations.create(Conversation("c", "me", 1000))
    await store.conversations.create(Conversation("d", "me", 1000))

    async def write(number: int) -> None:
        node = (store, other)[number % 2]
        for round_number in range(2):
            name = f"w{number}.{round_number}"
            # Both conversations in either order must not deadlock.
            first, second = ("c", "d") if number % 3 else ("d", "c")
            items = (item(f"{name}.0"),), (item(f"{name}.1"),)
            await node.responses.save(StoredTurn(response(name, conversation=first), *items))
            assert await node.conversations.append_items("me", second, [item(f"{name}.2")])

    await asyncio.gather(*(write(number) for number in range(200)))
    lists = [await list_ids(other, "c"), await list_ids(other, "d")]
    for listed in lists:
        assert_order(listed)
    assert len({*lists[0], *lists[1]}) == len(lists[0]) + len(lists[1]) == 200 * 2 * 3


def assert_order(listed: list[str]) -> None:
    """Check that turns are not interleaved, and that each writer's turns are in order."""
    for index, name in enumerate(listed):
        writer, round_number, part = name.rsplit(".", 2)
        if part == "1":
            assert listed[index - 1] == f"{writer}.{round_number}.0"
        if round_number == "1" and part == "0":
            assert listed.index(f"{writer}.0.0") < index


# Chat completions


def completion(
    completion_id: str, model: str = "m", owner: str = "me", **metadata: str
) -> Completion:
    return Completion(completion_id, owner, 1000, Raw(b'{"c":1}'), Raw(b"[1,2]"), model, metadata)


async def list_completions(
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
    assert await list_completions(store, topic="x") == []
    assert await list_completions(store, topic="y", more="z") == ["a"]
    assert await store.completions.delete("me", "a")
    assert not await store.completions.delete("me", "a")
    assert await other.completions.load("me", "a") is None
    assert await list_completions(other) == []


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
    assert await list_completions(other) == [f"c{number}" for number in range(6)]
    assert await list_completions(other, Page(newest_first=True), model="m1") == ["c5", "c3", "c1"]
    assert await list_completions(other, even="0", by="1") == ["c4"]
    assert await list_completions(other, even="0", model="m1") == []
    assert await list_completions(other, Page("c1", 2)) == ["c2", "c3"]
    assert await list_completions(other, Page("c2", 5, newest_first=True)) == ["c1", "c0"]
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
    assert await list_completions(other) == ["b", "a"]
    assert await list_completions(other, topic="x") == []
    assert await list_completions(other, topic="z") == ["a"]
    foreign = await store.completions.load("you", "a")
    assert foreign == completion("a", owner="you", topic="yours")
    assert await store.completions.delete("me", "a")
    assert (await list_page(store, None, owner="you", topic="yours")).data == (foreign,)
