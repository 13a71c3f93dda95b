"""Responses and their chains on both databases."""

import asyncio

from msgspec import Raw

from gateway.store import Item, Store, StoredTurn
from tests.gateway.stores import (
    bodies,
    ids,
    item,
    load,
    opened_store,
    response,
    turn,
    with_two_stores,
    with_url,
)


async def history(store: Store, response_id: str, owner: str = "me") -> list[str] | None:
    chain = await store.responses.load_chain(owner, response_id)
    if chain is None:
        return None
    return [one for link in chain for one in ids(link.input + link.output)]


@with_url
async def test_response_is_loaded_as_it_was_saved(url: str) -> None:
    body = Raw('{ "id" : "a", "text":"ü \\u2028 \U0001f600\x7f" }'.encode())
    saved = StoredTurn(
        response("a", body=body, settings=Raw(b'{"s":1}'), model="m", conversation="none"),
        (item("i1", "one"), item("i2", "two")),
        (item("o1"),),
    )
    async with opened_store(url) as store:
        await store.responses.save(saved)
    async with opened_store(url) as store:
        loaded = await load(store, "a")
    assert loaded.response == saved.response
    assert (ids(loaded.input), bodies(loaded.input)) == (ids(saved.input), bodies(saved.input))
    assert ids(loaded.output) == ["o1"]


@with_two_stores
async def test_chain_is_the_whole_history_in_order(store: Store, other: Store) -> None:
    await store.responses.save(turn("a", settings=Raw(b"1")))
    await store.responses.save(turn("b", "a"))
    await store.responses.save(turn("c", "b"))
    # A fork, and a response without items.
    await store.responses.save(turn("d", "a", settings=Raw(b"2"), status="incomplete"))
    await store.responses.save(StoredTurn(response("e", parent="d")))
    first = ["a-in", "a-out"]
    assert await history(other, "c") == [*first, "b-in", "b-out", "c-in", "c-out"]
    assert await history(other, "e") == [*first, "d-in", "d-out"]
    chain = await other.responses.load_chain("me", "e")
    assert chain is not None
    assert [(link.id, bytes(link.settings), link.status) for link in chain] == [
        ("a", b"1", "completed"),
        ("d", b"2", "incomplete"),
        ("e", b"null", "completed"),
    ]


@with_two_stores
async def test_each_node_sees_the_turns_of_the_other_at_once(one: Store, other: Store) -> None:
    parent: str | None = None
    for number in range(30):
        writer, reader = (one, other) if number % 2 else (other, one)
        await writer.responses.save(turn(f"r{number}", parent))
        parent = f"r{number}"
        assert len(await history(reader, parent) or []) == 2 * (number + 1)


@with_two_stores
async def test_responses_of_other_owners_do_not_exist(store: Store, other: Store) -> None:
    await store.responses.save(turn("a"))
    # A foreign response as the parent is a missing one.
    await store.responses.save(turn("thief", "a", owner="you"))
    for owner, response_id in (("you", "a"), ("", "a"), ("me", "unknown"), ("you", "thief")):
        assert await history(other, response_id, owner) is None
    assert await other.responses.load("you", "a") is None
    assert await other.responses.find_items("you", ["a-in"]) == {}
    assert not await store.responses.delete("you", "a")
    assert await history(other, "a") == ["a-in", "a-out"]


@with_two_stores
async def test_chain_with_a_missing_response_does_not_exist(store: Store, other: Store) -> None:
    await store.responses.save(turn("b", "gone"))
    assert await history(other, "b") is None
    assert await other.responses.load("me", "b") is not None


@with_two_stores
async def test_items_of_a_deleted_response_that_is_continued_are_not_found(
    store: Store, other: Store
) -> None:
    await store.responses.save(turn("a"))
    await store.responses.save(turn("b", "a"))
    assert await store.responses.delete("me", "a")
    assert await other.responses.find_items("me", ["a-in"]) == {}


@with_two_stores
async def test_items_are_found_by_their_ids(store: Store, other: Store) -> None:
    await store.responses.save(turn("a"))
    await store.responses.save(turn("b", "a"))
    found = await other.responses.find_items("me", ["a-out", "b-in", 'o"dd', "none"])
    assert set(found) == {"a-out", "b-in"}
    assert found["a-out"].body == item("a-out").body
    assert await other.responses.find_items("me", []) == {}


@with_two_stores
async def test_repeated_item_outlives_its_first_response(store: Store, other: Store) -> None:
    await store.responses.save(StoredTurn(response("a"), (item("long", "x" * 1000),)))
    stored = (await store.responses.find_items("me", ["long"]))["long"]
    await store.responses.save(StoredTurn(response("b"), (stored, item("new"))))
    second = await load(other, "b")
    assert second.input[0] == stored
    await store.responses.save(StoredTurn(response("c"), second.input))
    await store.responses.delete("me", "a")
    # Read before the row that it refers to was deleted.
    await store.responses.save(StoredTurn(response("d"), (stored, item("new"))))
    for response_id in ("b", "c", "d"):
        assert bodies((await load(other, response_id)).input) == bodies([stored, item("new")])


@with_two_stores
async def test_items_with_the_same_id_keep_their_bodies(store: Store, other: Store) -> None:
    await store.responses.save(StoredTurn(response("a"), (item("same", "old"),)))
    old = (await other.responses.find_items("me", ["same"]))["same"]
    await store.responses.save(StoredTurn(response("b"), (Item("same", Raw(b'"new"')), old)))
    assert bodies((await load(other, "b")).input) == [Raw(b'"new"'), item("same", "old").body]


ODD_IDS = ("", "\0", "a\0b", "\ud800", "ü", "x" * 10_000, "'; DROP TABLE responses --")


@with_two_stores
async def test_odd_ids_are_not_found(store: Store, other: Store) -> None:
    for odd in ODD_IDS:
        assert await other.responses.load("me", odd) is None
        assert await other.responses.load_chain("me", odd) is None
        assert not await store.responses.delete("me", odd)
        assert not await store.jobs.request_cancel("me", odd)
        assert [event async for event in other.jobs.follow_events("me", odd, 2**70)] == []
        assert await other.conversations.load_item("me", odd, odd) is None
        assert await other.completions.load(odd, odd) is None
    assert await other.responses.find_items("me", ODD_IDS) == {}


@with_two_stores
async def test_items_with_odd_ids_are_saved(store: Store, other: Store) -> None:
    items = tuple(Item(odd, Raw(b'"\\u0000"')) for odd in ODD_IDS)
    await store.responses.save(StoredTurn(response("a", model="m\0\udfff"), items))
    assert bodies((await load(other, "a")).input) == bodies(items)
    assert set(await other.responses.find_items("me", ["ü"])) == {"ü"}


@with_two_stores
async def test_turn_keeps_its_history_if_the_parent_is_deleted_meanwhile(
    store: Store, other: Store
) -> None:
    for number in range(30):
        first, parent, child = (f"{name}{number}" for name in ("first", "parent", "child"))
        await store.responses.save(turn(first))
        await store.responses.save(turn(parent, first))
        chain = await store.responses.load_chain("me", parent) or ()
        before = tuple(one for link in chain for one in (*link.input, *link.output))
        new = turn(child, parent)
        saved = StoredTurn(new.response, new.input, new.output, before)
        await asyncio.gather(store.responses.save(saved), other.responses.delete("me", parent))
        assert await history(other, child) == [*ids(before), f"{child}-in", f"{child}-out"]
