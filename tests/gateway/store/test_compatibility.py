"""Data written by earlier versions of the gateway stays readable.

`version_1/database.sql` is a dump of a database whose gateway was killed with one background job in
progress and one queued. `version_1/client_items.json` holds the ids of its objects, and the items
that the same gateway encrypted for its clients; the key is in the database.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway.backend_replies import Turn, script_turns
from tests.gateway.backend_requests import received_body
from tests.gateway.gateway_config import backend_table, state_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.scripted_backend import ScriptedBackend
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.waiting import wait_until

VERSION_1 = Path(__file__).parent / "version_1"
ITEMS: Any = json.loads((VERSION_1 / "client_items.json").read_text())


@pytest.fixture(scope="module")
def gateway(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Run a gateway on the old database; the leases of its jobs have expired."""
    folder = tmp_path_factory.mktemp("compatibility")
    with closing(sqlite3.connect(folder / "state.db")) as database:
        database.executescript((VERSION_1 / "database.sql").read_text())
        database.execute("UPDATE jobs SET lease = 0")
        database.commit()
    script_turns(backend, "chat", "chat-queued", Turn("Counted."))
    settings = state_table(f"sqlite:{folder}/state.db", "retention_days = 0") + "".join(
        (
            backend_table(backend.address, "chat", "chat"),
            backend_table(backend.address, "deepseek", "chat", 'profile = "deepseek"\n'),
            backend_table(backend.address, "openai", "responses"),
        )
    )
    with run_gateway(settings, folder) as running_gateway:
        yield running_gateway


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with sdk_client(gateway) as sdk:
        yield sdk


def test_stored_response_is_continued(client: openai.OpenAI, backend: ScriptedBackend) -> None:
    first, second = ITEMS["chain"]
    assert client.responses.retrieve(first).output_text == "Hello, Ada."
    script_turns(backend, "chat", "chat-continued", Turn("Take an umbrella."))
    output: Any = {
        "type": "function_call_output",
        "call_id": ITEMS["call_id"],
        "output": "Rain.",
    }
    client.responses.create(model="chat-continued", input=[output], previous_response_id=second)
    sent = received_body(backend, "chat-continued")
    history = ("My name is Ada.", "Hello, Ada.", "weather in Oslo?", ITEMS["call_id"], "Rain.")
    places = [sent.index(text) for text in history]
    assert places == sorted(places)


def test_conversation_is_read(client: openai.OpenAI) -> None:
    conversation = ITEMS["conversation"]
    assert client.conversations.retrieve(conversation).metadata == {"topic": "history"}
    listed = [
        item.model_dump_json()
        for item in client.conversations.items.list(conversation, order="asc")
    ]
    texts = ("Be brief.", "When was Ada born?", "It was 1815.")
    assert all(text in item for text, item in zip(texts, listed, strict=True))


def test_stored_completion_is_found_by_its_metadata(client: openai.OpenAI) -> None:
    (listed,) = client.chat.completions.list(metadata={"team": "blue"})
    assert listed.id == ITEMS["completion"]
    assert listed.choices[0].message.content == "Stored."
    (message,) = client.chat.completions.messages.list(listed.id)
    assert message.content == "Count."


@pytest.mark.parametrize("source", ["database", "client"])
def test_reasoning_is_restored_for_a_chat_client(
    source: str, gateway: Gateway, backend: ScriptedBackend
) -> None:
    message = json.loads(json.dumps(ITEMS["chat_message"]))
    key = "sk-me"
    if source == "database":
        del message["tool_calls"][0]["extra_content"]
    else:
        # Nothing is stored for this key.
        key = "sk-somebody-else"
    model = f"openai-{source}"
    script_turns(backend, "responses", model, Turn("Done."))
    messages: Any = [
        {"role": "user", "content": "Count."},
        message,
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
    ]
    with sdk_client(gateway, key) as client:
        client.chat.completions.create(model=model, messages=messages)
    assert "gAAAA-of-the-backend" in received_body(backend, model)


def test_reasoning_is_restored_for_a_responses_client(
    client: openai.OpenAI, backend: ScriptedBackend
) -> None:
    reasoning, call = ITEMS["responses_output"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "0"}
    script_turns(backend, "chat", "deepseek-continued", Turn("Done."))
    items: Any = [{"role": "user", "content": "Count."}, {**reasoning, "summary": []}, call, output]
    client.responses.create(model="deepseek-continued", input=items, store=False)
    assert '"reasoning_content":"I count on. ☀"' in received_body(backend, "deepseek-continued")


def test_summary_is_opened(client: openai.OpenAI, backend: ScriptedBackend) -> None:
    script_turns(backend, "chat", "chat-summarized", Turn("Ada."))
    items: Any = [*ITEMS["summary_output"], {"role": "user", "content": "Who am I?"}]
    client.responses.create(model="chat-summarized", input=items, store=False)
    assert "The user is called Ada." in received_body(backend, "chat-summarized")


def test_background_jobs_are_taken_over(client: openai.OpenAI, backend: ScriptedBackend) -> None:
    def status(response_id: str) -> str | None:
        return client.responses.retrieve(response_id).status

    wait_until(lambda: status(ITEMS["queued"]) == "completed")
    assert client.responses.retrieve(ITEMS["queued"]).output_text == "Counted."
    # The job has the client's own key, which was encrypted with it.
    assert backend.received("chat-queued")[0].headers["authorization"] == "Bearer sk-me"
    # A request that was sent already is not repeated.
    wait_until(lambda: status(ITEMS["in_progress"]) == "failed")
    numbers: list[int] = []
    with (
        client.responses.retrieve(ITEMS["in_progress"], stream=True) as events,
        pytest.raises(openai.APIError),
    ):
        numbers.extend(event.sequence_number for event in events)
    # The seven events of the old gateway come first.
    assert numbers[:7] == list(range(7))
