"""Data written by earlier versions of the gateway stays readable.

`version_1/database.sql` is a dump of a database whose gateway was killed with one background job in
progress and one queued. `version_1/client_items.json` holds the ids of its objects, and the items
that the same gateway encrypted for its clients; the key is in the database.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import ScriptedBackend
from tests.gateway.backend_replies import Turn, script_turns
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import backend_table, backend_tables, state_table
from tests.gateway.gateway_process import run_gateway
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.waiting import wait_until

VERSION_1 = Path(__file__).parent / "version_1"
ITEMS: Any = json.loads((VERSION_1 / "client_items.json").read_text())


@pytest.fixture(scope="module")
def old(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway on the old database; the leases of its jobs have expired."""
    folder = tmp_path_factory.mktemp("compatibility")
    with closing(sqlite3.connect(folder / "state.db")) as database:
        database.executescript((VERSION_1 / "database.sql").read_text())
        database.execute("UPDATE jobs SET lease = 0")
        database.commit()
    script_turns(backend, "chat", "chat-queued", Turn("Counted."))
    config = (
        state_table(f"sqlite:{folder}/state.db", "retention_days = 0")
        + backend_tables(backend.address)
        + backend_table(backend.address, "deepseek", "chat", 'profile = "deepseek"\n')
        + backend_table(backend.address, "openai", "responses")
    )
    with run_gateway(config, folder) as gateway, sdk_client(gateway) as sdk:
        yield Harness(gateway, backend, sdk)


def test_stored_response_is_continued(old: Harness) -> None:
    first, second = ITEMS["chain"]
    assert old.sdk.responses.retrieve(first).output_text == "Hello, Ada."
    model, call_id = old.script("chat", "Take an umbrella."), ITEMS["call_id"]
    output = {"type": "function_call_output", "call_id": call_id, "output": "Rain."}
    old.respond(model=model, input=[output], previous_response_id=second)
    history = ("My name is Ada.", "Hello, Ada.", "weather in Oslo?", call_id, "Rain.")
    old.assert_sent_in_order(model, *history)


def test_conversation_is_read(old: Harness) -> None:
    name, conversations = ITEMS["conversation"], old.sdk.conversations
    assert conversations.retrieve(name).metadata == {"topic": "history"}
    listed = [item.model_dump_json() for item in conversations.items.list(name, order="asc")]
    texts = ("Be brief.", "When was Ada born?", "It was 1815.")
    assert all(text in item for text, item in zip(texts, listed, strict=True))


def test_stored_completion_is_found_by_its_metadata(old: Harness) -> None:
    (listed,) = old.sdk.chat.completions.list(metadata={"team": "blue"})
    assert listed.id == ITEMS["completion"]
    assert listed.choices[0].message.content == "Stored."
    (message,) = old.sdk.chat.completions.messages.list(listed.id)
    assert message.content == "Count."


@pytest.mark.parametrize("source", ["database", "client"])
def test_reasoning_is_restored_for_a_chat_client(source: str, old: Harness) -> None:
    message = deepcopy(ITEMS["chat_message"])
    # Nothing is stored for another key.
    key = "sk-me" if source == "database" else "sk-somebody-else"
    if source == "database":
        del message["tool_calls"][0]["extra_content"]
    model = old.new_model("openai")
    script_turns(old.backend, "responses", model, Turn("Done."))
    messages: Any = [
        {"role": "user", "content": "Count."},
        message,
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
    ]
    with sdk_client(old.gateway, key) as client:
        client.chat.completions.create(model=model, messages=messages)
    old.assert_sent(model, "gAAAA-of-the-backend")


def test_reasoning_is_restored_for_a_responses_client(old: Harness) -> None:
    reasoning, call = ITEMS["responses_output"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "0"}
    model = old.script("deepseek", "Done.")
    items: Any = [{"role": "user", "content": "Count."}, {**reasoning, "summary": []}, call, output]
    old.respond(model=model, input=items, store=False)
    old.assert_sent(model, '"reasoning_content":"I count on. ☀"')


def test_summary_is_opened(old: Harness) -> None:
    model = old.script("chat", "Ada.")
    items = [*ITEMS["summary_output"], {"role": "user", "content": "Who am I?"}]
    old.respond(model=model, input=items, store=False)
    old.assert_sent(model, "The user is called Ada.")


def test_background_jobs_are_taken_over(old: Harness) -> None:
    responses, queued, in_progress = old.sdk.responses, ITEMS["queued"], ITEMS["in_progress"]
    wait_until(lambda: responses.retrieve(queued).status == "completed")
    assert responses.retrieve(queued).output_text == "Counted."
    # The job has the client's own key, which was encrypted with it.
    assert old.backend.received("chat-queued")[0].headers["authorization"] == "Bearer sk-me"
    # A request that was sent already is not repeated.
    wait_until(lambda: responses.retrieve(in_progress).status == "failed")
    numbers: list[int] = []
    with responses.retrieve(in_progress, stream=True) as events, pytest.raises(openai.APIError):
        numbers.extend(event.sequence_number for event in events)
    # The seven events of the old gateway come first.
    assert numbers[:7] == list(range(7))
