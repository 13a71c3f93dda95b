"""Conversations over both databases, with writers on two nodes."""

import asyncio

from msgspec import Raw

from gateway.store import Conversation, Item, Page, Store, StoredTurn
from tests.gateway.stores import item, names, over_both, response, turn


async def everything(store: Store, name: str = "c") -> list[str] | None:
    found = await store.conversations.list_items("me", name, Page())
    return None if found is None else names(found.data)


@over_both
async def test_a_conversation_from_beginning_to_end(store: Store, other: Store) -> None:
    made = Conversation("c", "me", 1000, Raw(b'{"a":"b"}'))
    await store.conversations.create(made, [item("one"), item("two")])
    assert await other.conversations.load("me", "c") == made
    assert await other.conversations.append_items("me", "c", [item("three")])
    assert await everything(store) == ["one", "two", "three"]
    assert await store.conversations.update_metadata("me", "c", Raw(b"{}"))
    changed = await other.conversations.load("me", "c")
    assert changed is not None
    assert changed.metadata == Raw(b"{}")
    found = await other.conversations.load_item("me", "c", "two")
    assert found is not None
    assert found.body == item("two").body
    assert await other.conversations.delete_item("me", "c", "two")
    assert not await other.conversations.delete_item("me", "c", "two")
    assert await store.conversations.load_item("me", "c", "two") is None
    assert await everything(store) == ["one", "three"]
    assert await store.conversations.delete("me", "c")
    assert not await other.conversations.delete("me", "c")
    assert await everything(other) is None
    assert await other.responses.find_items("me", ["one"]) == {}


@over_both
async def test_a_conversation_of_another_owner_is_not_there(store: Store, other: Store) -> None:
    await store.conversations.create(Conversation("c", "me", 1000), [item("one")])
    for owner, name in (("you", "c"), ("me", "unknown")):
        assert await other.conversations.load(owner, name) is None
        assert await other.conversations.list_items(owner, name, Page()) is None
        assert await other.conversations.list_items(owner, name, Page(after="one")) is None
        assert await other.conversations.load_item(owner, name, "one") is None
        assert not await other.conversations.update_metadata(owner, name, Raw(b"1"))
        assert not await other.conversations.append_items(owner, name, [item("two")])
        assert not await other.conversations.delete_item(owner, name, "one")
        assert not await other.conversations.delete(owner, name)
    await other.responses.save(turn("r", owner="you", conversation="c"))
    assert await everything(store) == ["one"]


@over_both
async def test_pages_go_both_ways(store: Store, other: Store) -> None:
    everyone = [f"i{number}" for number in range(7)]
    await store.conversations.create(Conversation("c", "me", 1), [item(it) for it in everyone])
    for newest_first in (False, True):
        seen: list[str] = []
        more = True
        while more:
            page = Page(seen[-1] if seen else None, 3, newest_first=newest_first)
            part = await other.conversations.list_items("me", "c", page)
            assert part is not None
            seen += names(part.data)
            more = part.has_more
        assert seen == (everyone[::-1] if newest_first else everyone)
    assert await other.conversations.list_items("me", "c", Page(after="none")) is None


@over_both
async def test_a_response_is_appended_to_its_conversation(store: Store, other: Store) -> None:
    await store.conversations.create(Conversation("c", "me", 1000), [item("zero")])
    await store.responses.save(turn("a", conversation="c"))
    await other.responses.save(turn("b", conversation="c"))
    assert await everything(store) == ["zero", "a-in", "a-out", "b-in", "b-out"]
    # The same item stands in both, and goes only when both have gone.
    assert await store.responses.delete("me", "a")
    assert await everything(other) == ["zero", "a-in", "a-out", "b-in", "b-out"]
    assert await store.conversations.delete("me", "c")
    kept = await other.responses.load("me", "b")
    assert kept is not None
    assert names(kept.input + kept.output) == ["b-in", "b-out"]
    assert set(await store.responses.find_items("me", ["a-in", "b-in"])) == {"b-in"}


@over_both
async def test_a_response_outlives_a_conversation_deleted_meanwhile(
    store: Store, other: Store
) -> None:
    await store.responses.save(turn("a", conversation="gone"))
    kept = await other.responses.load("me", "a")
    assert kept is not None
    assert names(kept.output) == ["a-out"]
    assert await everything(other, "gone") is None


@over_both
async def test_two_hundred_writers_keep_order_and_count(store: Store, other: Store) -> None:
    await store.conversations.create(Conversation("c", "me", 1000))
    await store.conversations.create(Conversation("d", "me", 1000))

    async def write(number: int) -> None:
        node = (store, other)[number % 2]
        for round_number in range(2):
            name = f"w{number}.{round_number}"
            # Both conversations in either order: nobody may wait for ever.
            first, second = ("c", "d") if number % 3 else ("d", "c")
            made = response(name, conversation=first)
            await node.responses.save(StoredTurn(made, (item(f"{name}.0"),), (item(f"{name}.1"),)))
            assert await node.conversations.append_items("me", second, [item(f"{name}.2")])

    await asyncio.gather(*(write(number) for number in range(200)))
    for name in ("c", "d"):
        found = await everything(other, name)
        assert found is not None
        check_order(found)
    both = [*(await everything(store, "c") or []), *(await everything(store, "d") or [])]
    assert len(both) == len(set(both)) == 200 * 2 * 3


def check_order(found: list[str]) -> None:
    """Each turn stands together, and each writer's first turn before the second."""
    for place, name in enumerate(found):
        writer, round_number, part = name.rsplit(".", 2)
        if part == "1":
            assert found[place - 1] == f"{writer}.{round_number}.0"
        if round_number == "1" and part == "0":
            assert found.index(f"{writer}.0.0") < place


@over_both
async def test_what_failed_leaves_no_trace_in_a_conversation(store: Store, other: Store) -> None:
    await store.conversations.create(Conversation("c", "me", 1000), [item("zero")])
    await store.responses.save(turn("a", conversation="c", status="failed"))
    await other.responses.save(turn("b", conversation="c", status="incomplete"))
    assert await everything(other) == ["zero", "b-in", "b-out"]
    assert await store.responses.load("me", "a") is not None


@over_both
async def test_lists_are_whole_even_where_ids_are_repeated(store: Store, other: Store) -> None:
    said = ["x", "a", "x", "b", "x", "c"]
    made = [item(name, str(number)) for number, name in enumerate(said)]
    await store.conversations.create(Conversation("c", "me", 1), made)
    for newest_first in (False, True):
        found: list[Item] = []
        page = Page(None, 1, newest_first=newest_first)
        while part := await other.conversations.list_items("me", "c", page):
            found += part.data
            if not part.has_more:
                break
            page = Page(part.cursor, 1, newest_first=newest_first)
        bodies = [one.body for one in (found[::-1] if newest_first else found)]
        assert bodies == [one.body for one in made]
    # Who goes on from the bare id comes to the end all the same.
    part = await other.conversations.list_items("me", "c", Page("x"))
    assert part is not None
    assert names(part.data) == ["c"]
    for nowhere in ("x@1", "x@99", "y@0", "x@", "@1", "x@-1"):
        assert await other.conversations.list_items("me", "c", Page(nowhere)) is None
