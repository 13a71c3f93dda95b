"""The store behaves like a simple model of it, whatever is done to both."""

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

from gateway.store import Conversation, Item, Page, Store, StoredTurn, open_store
from gateway.store.database import Database
from gateway.store.store import open_database
from tests.gateway.stores import ON_BOTH_DATABASES, bodies, ids, item, new_url, response

# The time between two turns: long enough for the use of a chain to be recorded.
TURN_SECONDS = 10_000
EXAMPLES = count()
# The result of a rule that created nothing.
NOTHING: MultipleResults[str] = multiple()
SIZES = st.tuples(st.integers(0, 2), st.integers(0, 2))


class ModelResponse:
    """A response in the model."""

    def __init__(self, turn: StoredTurn, parent: "ModelResponse | None") -> None:
        self.turn = turn
        self.parent = parent
        self.deleted = False

    def chain(self) -> "list[ModelResponse]":
        return [*(self.parent.chain() if self.parent else []), self]


class StoreMachine(RuleBasedStateMachine):
    """Makes the same changes to a store and to its model."""

    def __init__(self, runner: asyncio.Runner, store: Store, database: Database) -> None:
        super().__init__()
        self.run = runner.run
        self.store = store
        self.database = database
        self.owner = f"owner{next(EXAMPLES)}"
        self.numbers = count()
        self.time = 0
        self.responses: dict[str, ModelResponse] = {}
        self.conversations: dict[str, list[str]] = {}
        # The responses that brought items into a conversation.
        self.origins: dict[str, str] = {}

    response_ids = Bundle("response_ids")
    conversation_ids = Bundle("conversation_ids")

    def new_id(self) -> str:
        return f"{self.owner}-{next(self.numbers)}"

    def new_items(self, size: int) -> tuple[Item, ...]:
        return tuple(item(self.new_id()) for _ in range(size))

    def save(
        self,
        sizes: tuple[int, int],
        parent: str | None = None,
        repeated: tuple[Item, ...] = (),
        conversation: str | None = None,
    ) -> str:
        self.time += TURN_SECONDS
        links = {"parent": parent, "conversation": conversation}
        saved = response(self.new_id(), owner=self.owner, created=self.time, **links)
        turn = StoredTurn(saved, repeated + self.new_items(sizes[0]), self.new_items(sizes[1]))
        self.run(self.store.responses.save(turn))
        model_parent = self.responses[parent] if parent else None
        self.responses[saved.id] = ModelResponse(turn, model_parent)
        if conversation in self.conversations:
            added = ids(turn.input + turn.output)
            self.conversations[conversation] += added
            self.origins |= dict.fromkeys(added, saved.id)
        return saved.id

    def exists(self, response_id: str) -> bool:
        return response_id in self.responses and not self.responses[response_id].deleted

    @rule(target=response_ids, sizes=SIZES)
    def save_first(self, sizes: tuple[int, int]) -> str:
        return self.save(sizes)

    @rule(target=response_ids, sizes=SIZES, parent=response_ids)
    def save_next(self, sizes: tuple[int, int], parent: str) -> object:
        return self.save(sizes, parent) if self.exists(parent) else NOTHING

    @rule(target=response_ids, sizes=SIZES, other=response_ids)
    def save_repeated_items(self, sizes: tuple[int, int], other: str) -> object:
        loaded = self.run(self.store.responses.load(self.owner, other))
        if loaded is None:
            return NOTHING
        return self.save(sizes, repeated=loaded.input + loaded.output)

    @rule(target=response_ids, sizes=SIZES, conversation=conversation_ids)
    def save_in_conversation(self, sizes: tuple[int, int], conversation: str) -> str:
        return self.save(sizes, conversation=conversation)

    @rule(response_id=response_ids)
    def delete(self, response_id: str) -> None:
        deleted = self.run(self.store.responses.delete(self.owner, response_id))
        assert deleted == self.exists(response_id)
        if response_id in self.responses:
            self.responses[response_id].deleted = True

    @rule(response_id=response_ids)
    def delete_unused(self, response_id: str) -> None:
        """Delete the chains without a response as new as this one."""
        if response_id not in self.responses:
            return
        before = self.responses[response_id].turn.response.created
        while self.run(self.store.delete_unused(before)):
            pass
        newest: dict[ModelResponse, int] = {}
        for model in self.responses.values():
            root, created = model.chain()[0], model.turn.response.created
            newest[root] = max(newest.get(root, 0), created)
        for name, model in [*self.responses.items()]:
            if newest[model.chain()[0]] < before:
                del self.responses[name]

    @initialize(target=conversation_ids)
    def create_first_conversation(self) -> str:
        return self.create(1)

    @rule(target=conversation_ids, size=st.integers(0, 3))
    def create_conversation(self, size: int) -> str:
        return self.create(size)

    def create(self, size: int) -> str:
        # Later than all responses, so that it is never deleted as unused.
        conversation = Conversation(self.new_id(), self.owner, 10**9)
        items = self.new_items(size)
        self.run(self.store.conversations.create(conversation, items))
        self.conversations[conversation.id] = ids(items)
        return conversation.id

    @rule(conversation=conversation_ids, size=st.integers(0, 2))
    def append_items(self, conversation: str, size: int) -> None:
        items = self.new_items(size)
        done = self.run(self.store.conversations.append_items(self.owner, conversation, items))
        assert done == (conversation in self.conversations)
        if done:
            self.conversations[conversation] += ids(items)

    @rule(conversation=conversation_ids, data=st.data())
    def delete_item(self, conversation: str, data: st.DataObject) -> None:
        model = self.conversations.get(conversation)
        if model:
            name = data.draw(st.sampled_from(model))
            assert self.run(self.store.conversations.delete_items(self.owner, conversation, name))
            model.remove(name)

    @rule(conversation=consumes(conversation_ids))
    def delete_conversation(self, conversation: str) -> None:
        deleted = self.run(self.store.conversations.delete(self.owner, conversation))
        assert deleted == (self.conversations.pop(conversation, None) is not None)

    @invariant()
    def responses_are_equal(self) -> None:
        for name, model in self.responses.items():
            loaded = self.run(self.store.responses.load(self.owner, name))
            chain = self.run(self.store.responses.load_chain(self.owner, name))
            if model.deleted:
                assert loaded is None
                assert chain is None
                continue
            assert loaded is not None
            assert chain is not None
            assert loaded.response == model.turn.response
            assert bodies(loaded.input) == bodies(model.turn.input)
            assert bodies(loaded.output) == bodies(model.turn.output)
            assert [(link.id, bodies(link.input), bodies(link.output)) for link in chain] == [
                (it.turn.response.id, bodies(it.turn.input), bodies(it.turn.output))
                for it in model.chain()
            ]

    @invariant()
    def conversations_are_equal(self) -> None:
        for conversation, model in self.conversations.items():
            items = self.store.conversations.list_items(self.owner, conversation, Page())
            listing = self.run(items)
            assert listing is not None
            assert ids(listing.data) == model

    @invariant()
    def no_other_rows_are_left(self) -> None:
        existing = [model for name, model in self.responses.items() if self.exists(name)]
        turns = {it.turn.response.id: it.turn for model in existing for it in model.chain()}
        assert self.count("responses") == len(turns)
        in_turns = sum(len(turn.input) + len(turn.output) for turn in turns.values())
        in_conversations = [name for model in self.conversations.values() for name in model]
        only_there = [name for name in in_conversations if self.origins.get(name) not in turns]
        assert self.count("items") == in_turns + len(only_there)

    def count(self, table: str) -> int:
        statement = f"SELECT COUNT(*) FROM {table} WHERE owner = $1"  # noqa: S608 - our own names
        number: int = self.run(self.database.fetch(statement, self.owner))[0][0]
        return number


@ON_BOTH_DATABASES
def test_store_behaves_like_its_model(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)
    with asyncio.Runner() as runner:
        store = runner.run(open_store(url))
        database = runner.run(open_database(url))
        try:
            run_state_machine_as_test(
                lambda: StoreMachine(runner, store, database),  # type: ignore[arg-type]  # any factory
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
