"""Whatever is done to a store, it holds what a simple picture of it holds."""

import asyncio
from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from msgspec import Raw

from gateway.store import Conversation, Item, Page, Response, Store, StoredTurn, open_store
from gateway.store.database import Database
from gateway.store.store import open_database
from tests.gateway.stores import BOTH, item, names, new_url

# Each turn comes this much later: long enough for its chain to be marked as used.
LATER = 10_000
EXAMPLES = count()
# What a rule gives that made nothing.
NONE: MultipleResults[str] = multiple()


class Kept:
    """What the picture knows of a response."""

    def __init__(self, turn: StoredTurn, parent: "Kept | None") -> None:
        self.turn = turn
        self.parent = parent
        self.deleted = False

    def chain(self) -> "list[Kept]":
        return [*(self.parent.chain() if self.parent else []), self]


class Machine(RuleBasedStateMachine):
    """Does things to a store and to a picture of it."""

    def __init__(self, runner: asyncio.Runner, store: Store, database: Database) -> None:
        super().__init__()
        self.run = runner.run
        self.store = store
        self.database = database
        self.owner = f"owner{next(EXAMPLES)}"
        self.numbers = count()
        self.time = 0
        self.responses: dict[str, Kept] = {}
        self.conversations: dict[str, list[str]] = {}
        # The responses with which items came into a conversation.
        self.origins: dict[str, str] = {}

    turns = Bundle("turns")
    talks = Bundle("talks")

    def name(self) -> str:
        return f"{self.owner}-{next(self.numbers)}"

    def fresh(self, size: int) -> tuple[Item, ...]:
        return tuple(item(self.name()) for _ in range(size))

    def save(
        self, sizes: tuple[int, int], parent: str | None, repeated: tuple[Item, ...] = ()
    ) -> Response:
        self.time += LATER
        made = Response(self.name(), self.owner, self.time, "completed", Raw(b"1"), parent=parent)
        turn = StoredTurn(made, repeated + self.fresh(sizes[0]), self.fresh(sizes[1]))
        self.run(self.store.responses.save(turn))
        self.responses[made.id] = Kept(turn, self.responses[parent] if parent else None)
        return made

    def visible(self, name: str) -> bool:
        return name in self.responses and not self.responses[name].deleted

    SIZES = st.tuples(st.integers(0, 2), st.integers(0, 2))

    @initialize(target=talks)
    def begin(self) -> str:
        return self.talk(1)

    @rule(target=turns, sizes=SIZES)
    def save_first(self, sizes: tuple[int, int]) -> str:
        return self.save(sizes, None).id

    @rule(target=turns, sizes=SIZES, parent=turns)
    def save_next(self, sizes: tuple[int, int], parent: str) -> object:
        # Who continues a response has found it first.
        return self.save(sizes, parent).id if self.visible(parent) else NONE

    @rule(target=turns, sizes=SIZES, other=turns)
    def save_what_repeats(self, sizes: tuple[int, int], other: str) -> object:
        found = self.run(self.store.responses.load(self.owner, other))
        if found is None:
            return NONE
        return self.save(sizes, None, found.input + found.output).id

    @rule(target=turns, sizes=SIZES, talk=talks)
    def save_in_conversation(self, sizes: tuple[int, int], talk: str) -> str:
        self.time += LATER
        made = Response(
            self.name(), self.owner, self.time, "completed", Raw(b"1"), conversation=talk
        )
        turn = StoredTurn(made, self.fresh(sizes[0]), self.fresh(sizes[1]))
        self.run(self.store.responses.save(turn))
        self.responses[made.id] = Kept(turn, None)
        if talk in self.conversations:
            added = names(turn.input + turn.output)
            self.conversations[talk] += added
            self.origins |= dict.fromkeys(added, made.id)
        return made.id

    @rule(name=turns)
    def delete(self, name: str) -> None:
        assert self.run(self.store.responses.delete(self.owner, name)) == self.visible(name)
        if name in self.responses:
            self.responses[name].deleted = True

    @rule(name=turns)
    def sweep(self, name: str) -> None:
        """Forget all chains of which nothing is as new as this."""
        if name not in self.responses:
            return
        before = self.responses[name].turn.response.created
        while self.run(self.store.delete_unused(before)):
            pass
        newest: dict[str, int] = {}
        for kept in self.responses.values():
            root, created = kept.chain()[0].turn.response.id, kept.turn.response.created
            newest[root] = max(newest.get(root, 0), created)
        self.responses = {
            name: kept
            for name, kept in self.responses.items()
            if newest[kept.chain()[0].turn.response.id] >= before
        }

    @rule(target=talks, size=st.integers(0, 3))
    def create_conversation(self, size: int) -> str:
        return self.talk(size)

    def talk(self, size: int) -> str:
        # Never swept here: these times are those of the picture, and far in the past.
        talk = Conversation(self.name(), self.owner, 10**9)
        items = self.fresh(size)
        self.run(self.store.conversations.create(talk, items))
        self.conversations[talk.id] = names(items)
        return talk.id

    @rule(talk=talks, size=st.integers(0, 2))
    def append(self, talk: str, size: int) -> None:
        items = self.fresh(size)
        done = self.run(self.store.conversations.append_items(self.owner, talk, items))
        assert done == (talk in self.conversations)
        if done:
            self.conversations[talk] += names(items)

    @rule(talk=talks, data=st.data())
    def remove(self, talk: str, data: st.DataObject) -> None:
        held = self.conversations.get(talk)
        if held:
            name = data.draw(st.sampled_from(held))
            assert self.run(self.store.conversations.delete_item(self.owner, talk, name))
            held.remove(name)

    @rule(talk=consumes(talks))
    def delete_conversation(self, talk: str) -> None:
        done = self.run(self.store.conversations.delete(self.owner, talk))
        assert done == (self.conversations.pop(talk, None) is not None)

    @invariant()
    def responses_are_the_same(self) -> None:
        for name, kept in self.responses.items():
            found = self.run(self.store.responses.load(self.owner, name))
            steps = self.run(self.store.responses.load_chain(self.owner, name))
            if kept.deleted:
                assert found is None
                assert steps is None
                continue
            assert found is not None
            assert steps is not None
            assert found.response == kept.turn.response
            assert bodies(found.input) == bodies(kept.turn.input)
            assert bodies(found.output) == bodies(kept.turn.output)
            assert [(step.id, bodies(step.input), bodies(step.output)) for step in steps] == [
                (it.turn.response.id, bodies(it.turn.input), bodies(it.turn.output))
                for it in kept.chain()
            ]

    @invariant()
    def conversations_are_the_same(self) -> None:
        for talk, held in self.conversations.items():
            found = self.run(self.store.conversations.list_items(self.owner, talk, Page()))
            assert found is not None
            assert names(found.data) == held

    @invariant()
    def nothing_else_is_left(self) -> None:
        """What is kept of responses: those that are there, and those under them."""
        alive = [kept for name, kept in self.responses.items() if self.visible(name)]
        kept = {it.turn.response.id: it.turn for one in alive for it in one.chain()}
        assert self.count("responses") == len(kept)
        owned = sum(len(turn.input) + len(turn.output) for turn in kept.values())
        talked = [name for held in self.conversations.values() for name in held]
        alone = [name for name in talked if self.origins.get(name) not in kept]
        assert self.count("items") == owned + len(alone)

    def count(self, table: str) -> int:
        statement = f"SELECT COUNT(*) FROM {table} WHERE owner = $1"  # noqa: S608 - names of ours
        found: int = self.run(self.database.fetch(statement, self.owner))[0][0]
        return found


def bodies(items: tuple[Item, ...]) -> list[bytes]:
    return [bytes(one.body) for one in items]


@BOTH
def test_a_store_is_what_it_is_thought_to_be(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)
    with asyncio.Runner() as runner:
        store = runner.run(open_store(url))
        database = runner.run(open_database(url))
        try:
            run_state_machine_as_test(
                lambda: Machine(runner, store, database),  # type: ignore[arg-type]  # whatever makes one
                settings=settings(
                    max_examples=20,
                    stateful_step_count=20,
                    deadline=None,
                    derandomize=True,
                    suppress_health_check=[HealthCheck.too_slow],
                ),
            )
        finally:
            runner.run(store.close())
            runner.run(database.close())
