"""Responses and their chains, over both databases."""

import asyncio
from pathlib import Path

from msgspec import Raw

from gateway.store import Item, Store, StoredTurn
from tests.gateway.stores import BOTH, item, names, new_url, opened, over_both, response, turn


async def history(store: Store, name: str, owner: str = "me") -> list[str] | None:
    steps = await store.responses.load_chain(owner, name)
    if steps is None:
        return None
    return [one for step in steps for one in names(step.input + step.output)]


@BOTH
def test_a_response_comes_back_as_it_was(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)
    body = Raw('{ "id" : "a", "text":"ü \\u2028 \U0001f600\x7f" }'.encode())
    kept = StoredTurn(
        response("a", body=body, settings=Raw(b'{"s":1}'), model="m", conversation="none"),
        (item("i1", "one"), item("i2", "two")),
        (item("o1"),),
    )

    async def run() -> None:
        async with opened(url) as store:
            await store.responses.save(kept)
        # Another process would find the same.
        async with opened(url) as store:
            found = await store.responses.load("me", "a")
            assert found is not None
            assert found.response == kept.response
            assert [(it.id, it.body) for it in found.input] == [
                (it.id, it.body) for it in kept.input
            ]
            assert names(found.output) == ["o1"]

    asyncio.run(run())


@over_both
async def test_a_chain_is_the_whole_history_in_order(store: Store, other: Store) -> None:
    await store.responses.save(turn("a"))
    await store.responses.save(turn("b", "a"))
    await store.responses.save(turn("c", "b"))
    # A fork, and one with nothing in it.
    await store.responses.save(turn("d", "a"))
    await store.responses.save(StoredTurn(response("e", parent="d")))
    first = ["a-in", "a-out"]
    assert await history(other, "c") == [*first, "b-in", "b-out", "c-in", "c-out"]
    assert await history(other, "e") == [*first, "d-in", "d-out"]
    steps = await other.responses.load_chain("me", "e")
    assert steps is not None
    assert [step.id for step in steps] == ["a", "d", "e"]


@over_both
async def test_settings_and_status_of_each_step_are_there(store: Store, other: Store) -> None:
    await store.responses.save(turn("a", settings=Raw(b"1")))
    await store.responses.save(turn("b", "a", settings=Raw(b"2"), status="incomplete"))
    steps = await other.responses.load_chain("me", "b")
    assert steps is not None
    assert [(bytes(step.settings), step.status) for step in steps] == [
        (b"1", "completed"),
        (b"2", "incomplete"),
    ]


@over_both
async def test_a_follow_up_on_another_node_finds_the_response(one: Store, other: Store) -> None:
    nodes = (one, other)
    parent: str | None = None
    for number in range(30):
        here, there = nodes[number % 2], nodes[(number + 1) % 2]
        await here.responses.save(turn(f"r{number}", parent))
        found = await history(there, f"r{number}")
        assert found is not None
        assert len(found) == 2 * (number + 1)
        parent = f"r{number}"


@over_both
async def test_what_is_another_owner_s_is_not_there(store: Store, other: Store) -> None:
    await store.responses.save(turn("a"))
    # Nobody can put a foreign response under one of theirs.
    await store.responses.save(turn("thief", "a", owner="you"))
    for owner, name in (("you", "a"), ("", "a"), ("me", "unknown"), ("you", "thief")):
        assert await history(other, name, owner) is None
    assert await other.responses.load("you", "a") is None
    assert await other.responses.find_items("you", ["a-in"]) == {}
    assert not await store.responses.delete("you", "a")
    assert await history(other, "a") == ["a-in", "a-out"]


@over_both
async def test_a_chain_with_a_hole_is_not_there(store: Store, other: Store) -> None:
    await store.responses.save(turn("b", "gone"))
    assert await history(other, "b") is None
    assert await other.responses.load("me", "b") is not None


@over_both
async def test_what_was_deleted_stays_only_under_what_stands_on_it(
    store: Store, other: Store
) -> None:
    for name, parent in (("a", None), ("b", "a"), ("c", "b")):
        await store.responses.save(turn(name, parent))
    assert await store.responses.delete("me", "b")
    assert not await store.responses.delete("me", "b")
    assert await other.responses.load("me", "b") is None
    assert await history(other, "b") is None
    assert await other.responses.find_items("me", ["b-in"]) == {}
    whole = ["a-in", "a-out", "b-in", "b-out", "c-in", "c-out"]
    assert await history(other, "c") == whole
    assert await store.responses.delete("me", "c")
    assert await history(other, "c") is None
    assert await history(other, "a") == ["a-in", "a-out"]
    assert await store.responses.delete("me", "a")


@over_both
async def test_items_are_found_by_their_ids(store: Store, other: Store) -> None:
    await store.responses.save(turn("a"))
    await store.responses.save(turn("b", "a"))
    found = await other.responses.find_items("me", ["a-out", "b-in", 'o"dd', "none"])
    assert set(found) == {"a-out", "b-in"}
    assert found["a-out"].body == item("a-out").body
    assert await other.responses.find_items("me", []) == {}


@over_both
async def test_what_is_repeated_is_stored_once_and_outlives_its_first_home(
    store: Store, other: Store
) -> None:
    await store.responses.save(StoredTurn(response("a"), (item("long", "x" * 1000),)))
    known = await store.responses.find_items("me", ["long"])
    await store.responses.save(StoredTurn(response("b"), (known["long"], item("new"))))
    second = await other.responses.load("me", "b")
    assert second is not None
    assert second.input[0] == known["long"]
    await store.responses.save(StoredTurn(response("c"), second.input))
    await store.responses.delete("me", "a")
    for name in ("b", "c"):
        found = await other.responses.load("me", name)
        assert found is not None
        assert [it.body for it in found.input] == [known["long"].body, item("new").body]
    # One that was read before what it repeats was deleted.
    await store.responses.save(StoredTurn(response("d"), (known["long"],)))
    last = await store.responses.load("me", "d")
    assert last is not None
    assert last.input[0].body == known["long"].body


@over_both
async def test_of_two_items_with_one_id_each_keeps_its_own_body(store: Store, other: Store) -> None:
    await store.responses.save(StoredTurn(response("a"), (item("same", "old"),)))
    old = (await other.responses.find_items("me", ["same"]))["same"]
    await store.responses.save(StoredTurn(response("b"), (Item("same", Raw(b'"new"')), old)))
    found = await other.responses.load("me", "b")
    assert found is not None
    assert [it.body for it in found.input] == [Raw(b'"new"'), item("same", "old").body]


ODD_NAMES = ("", "\0", "a\0b", "\ud800", "ü", "x" * 10_000, "'; DROP TABLE responses --")


@over_both
async def test_names_of_any_kind_are_just_not_there(store: Store, other: Store) -> None:
    for name in ODD_NAMES:
        assert await other.responses.load("me", name) is None
        assert await other.responses.load_chain("me", name) is None
        assert not await store.responses.delete("me", name)
        assert not await store.jobs.request_cancel("me", name)
        assert [event async for event in other.jobs.follow_events("me", name, 2**70)] == []
        assert await other.conversations.load_item("me", name, name) is None
        assert await other.completions.load(name, name) is None
    assert await other.responses.find_items("me", ODD_NAMES) == {}


@over_both
async def test_names_of_any_kind_can_be_kept(store: Store, other: Store) -> None:
    odd = tuple(Item(name, Raw(b'"\\u0000"')) for name in ODD_NAMES)
    await store.responses.save(StoredTurn(response("a", model="m\0\udfff"), odd))
    found = await other.responses.load("me", "a")
    assert found is not None
    assert [it.body for it in found.input] == [it.body for it in odd]
    assert set(await other.responses.find_items("me", ["ü"])) == {"ü"}


@over_both
async def test_a_turn_saved_while_its_parent_is_deleted_is_whole(
    store: Store, other: Store
) -> None:
    for number in range(30):
        first, parent, child = (f"{name}{number}" for name in ("first", "parent", "child"))
        await store.responses.save(turn(first))
        await store.responses.save(turn(parent, first))
        steps = await store.responses.load_chain("me", parent) or ()
        before = tuple(one for step in steps for one in (*step.input, *step.output))
        made = turn(child, parent)
        saved = StoredTurn(made.response, made.input, made.output, before)
        await asyncio.gather(store.responses.save(saved), other.responses.delete("me", parent))
        expected = [*names(before), f"{child}-in", f"{child}-out"]
        assert await history(other, child, "me") == expected
