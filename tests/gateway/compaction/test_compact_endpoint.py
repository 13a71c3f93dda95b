"""Conversations are summed up over every backend, and go on from the summary."""

import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from gateway.crypto import new_sealing_key
from tests.gateway.backend_replies import Call, Turn, reply_body
from tests.gateway.backend_requests import received_body
from tests.gateway.compaction.requests import (
    HISTORY,
    SETTINGS,
    SUMMARY,
    TRIGGER,
    message,
    script_texts,
)
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS, backend_table, backend_tables
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.raw_http import AUTHORIZED, RawResponse, post
from tests.gateway.scripted_backend import ScriptedBackend, json_reply
from tests.gateway.sdk_clients import sdk_client
from tests.judges.open_responses import (
    EVERYTHING,
    assert_compaction,
    assert_response,
    assert_stream,
)
from tests.judges.reading import JsonObject, object_in, objects_in, read_object, text_in
from tests.judges.sdk import judge_responses_reply, judge_responses_stream

STRANGER = {"Authorization": "Bearer sk-somebody-else", "Content-Type": "application/json"}
NATIVE = ("native", "responses", 'profile = "openai"\n')
FOREIGN: JsonObject = {"type": "compaction", "id": "cmp_x", "encrypted_content": "gAAAAABpM0Yj"}


@pytest.fixture(scope="module")
def compacting(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("compacting")
    configured = backend_tables(backend.address) + backend_table(backend.address, *NATIVE)
    with run_gateway(configured, folder) as gateway:
        yield gateway


@pytest.fixture
def client(compacting: Gateway) -> Iterator[openai.OpenAI]:
    with sdk_client(compacting, "sk-test") as sdk:
        yield sdk


def ask(gateway: Gateway, body: JsonObject, headers: dict[str, str] | None = None) -> RawResponse:
    return post(gateway.port, "/v1/responses", body, headers or AUTHORIZED)


def response_in(answer: RawResponse, *, streamed: bool) -> JsonObject:
    """Judge a whole answer or a stream by both judges; give the response."""
    assert answer.status == 200, answer.body
    if not streamed:
        judge_responses_reply(answer.body)
        body = answer.json()
        assert_response(body, allow=EVERYTHING)
        return body
    judge_responses_stream(answer.body)
    assert_stream(answer.body, allow=EVERYTHING)
    last = answer.body.decode().strip().split("\n\n")[-2]
    return object_in(read_object(last.partition("data: ")[2]), "response")


def summarise(gateway: Gateway, model: str, headers: dict[str, str] | None = None) -> JsonObject:
    body = {**SETTINGS, "model": model, "input": [*HISTORY, TRIGGER]}
    (item,) = objects_in(response_in(ask(gateway, body, headers), streamed=False), "output")
    return item


# The trigger


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_codex_gets_exactly_one_item_and_goes_on_from_it(
    dialect: str,
    *,
    streamed: bool,
    compacting: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    script_texts(backend, dialect, model, SUMMARY, "All is done.")
    body: JsonObject = {**SETTINGS, "model": model, "stream": streamed}
    first = ask(compacting, {**body, "input": [*HISTORY, TRIGGER]})
    response = response_in(first, streamed=streamed)
    (item,) = objects_in(response, "output")
    assert item["type"] == "compaction"
    assert SUMMARY not in text_in(item, "encrypted_content")
    assert object_in(response, "usage")["total_tokens"] == 12
    # The backend was asked for a summary of all of it, and could call nothing.
    for words in ("You are Codex.", "Please do the task", "echo hi", "af4ba1", "write a summary"):
        assert words in received_body(backend, model)
    assert "web_search" not in received_body(backend, model)
    asked = backend.received(model)[0].json()
    assert not {"tools", "functions", "tool_choice", "parallel_tool_calls"} & asked.keys()
    if dialect != "responses":
        # Servers refuse messages of tools where no tools are declared.
        roles = {message["role"] for message in objects_in(asked, "messages")}
        assert roles <= {"system", "user", "assistant"}
        assert "dragoman-loss" not in first.headers or "tools are not supported" not in str(
            first.headers
        )
    # As Codex goes on: instructions and users are kept, then the summary, then what is new.
    went_on = [*HISTORY[:3], item, message("user", "Go on.")]
    second = ask(compacting, {**body, "input": went_on})
    assert second.status == 200
    assert b"All is done." in second.body
    sent = received_body(backend, model)
    for words in ("Please do the task", SUMMARY, "summary of the earlier part", "Go on."):
        assert words in sent
    assert sent.count("You are Codex.") == 1
    assert "compaction" not in sent


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_codex_with_a_provider_of_its_own_asks_in_words(
    dialect: str,
    *,
    streamed: bool,
    compacting: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    script_texts(backend, dialect, model, SUMMARY)
    words = message("user", "You are performing a CONTEXT CHECKPOINT COMPACTION.")
    body: JsonObject = {**SETTINGS, "model": model, "stream": streamed, "tools": list[object]()}
    told = ask(compacting, {**body, "parallel_tool_calls": False, "input": [*HISTORY, words]})
    assert told.status == 200
    assert SUMMARY.encode() in told.body.replace(b'"', b"") or streamed
    # Chat servers refuse an empty list, and what is said of tools that are not there.
    if dialect != "responses":
        sent = backend.received(model)[0].json()
        assert not {"tools", "functions", "tool_choice", "parallel_tool_calls"} & sent.keys()


def test_what_a_summary_stands_for_is_left_out(
    compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, SUMMARY, "Yes.")
    item = summarise(compacting, model)
    said = [*HISTORY, message("assistant", "I did it."), item, message("user", "Really?")]
    assert ask(compacting, {"model": model, "store": False, "input": said}).status == 200
    messages = objects_in(backend.received(model)[-1].json(), "messages")
    assert [message["role"] for message in messages] == ["system", "user", "user", "user", "user"]
    assert "af4ba1" not in received_body(backend, model)


def test_instructions_come_with_the_summary(
    compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, SUMMARY, "Yes.")
    item = summarise(compacting, model)
    assert ask(compacting, {"model": model, "store": False, "input": [item]}).status == 200
    first, second = objects_in(backend.received(model)[-1].json(), "messages")
    assert "You are Codex." in str(first["content"])
    assert SUMMARY in str(second["content"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_chain_is_cut_at_its_summary(
    dialect: str, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    script_texts(backend, dialect, model, "Sunny.", SUMMARY, "18 degrees.")
    first = client.responses.create(model=model, input="What is the weather in Oslo?")
    second = client.responses.create(
        model=model, input=[{"type": "compaction_trigger"}], previous_response_id=first.id
    )
    assert [item.type for item in second.output] == ["compaction"]
    assert "What is the weather" in received_body(backend, model)
    third = client.responses.create(model=model, input="How warm?", previous_response_id=second.id)
    assert third.output_text == "18 degrees."
    assert SUMMARY in received_body(backend, model)
    assert "What is the weather" not in received_body(backend, model)
    shown = client.responses.retrieve(second.id)
    assert [item.type for item in shown.output] == ["compaction"]


def test_trigger_must_be_last(compacting: Gateway, new_model: NewModel) -> None:
    given = [HISTORY[0], TRIGGER, HISTORY[1]]
    answer = ask(compacting, {"model": new_model("chat"), "store": False, "input": given})
    assert answer.status == 400
    assert answer.error["param"] == "input[1]"


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
def test_empty_summary_is_an_error(
    *, streamed: bool, compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, "")
    body: JsonObject = {"model": model, "store": False, "stream": streamed}
    answer = ask(compacting, {**body, "input": [*HISTORY, TRIGGER]})
    assert b"empty_summary" in answer.body or b"returned an empty summary" in answer.body
    if not streamed:
        assert answer.status == 502


def test_path_of_an_error_is_the_clients(compacting: Gateway, new_model: NewModel) -> None:
    unknown = {"type": "message", "role": "user", "content": [{"type": "nonsense"}]}
    given = [*HISTORY, unknown, TRIGGER]
    answer = ask(compacting, {"model": new_model("chat"), "store": False, "input": given})
    assert answer.status == 400
    assert text_in(answer.error, "param").startswith("input[5]")


# Whose it is


@pytest.mark.parametrize("dialect", DIALECTS)
def test_whoever_it_is_not_for_is_refused(
    dialect: str, compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    script_texts(backend, dialect, model, SUMMARY)
    item = summarise(compacting, model)
    sealed = text_in(item, "encrypted_content")
    other = "A" if sealed[40] != "A" else "B"
    changed = {**item, "encrypted_content": f"{sealed[:40]}{other}{sealed[41:]}"}
    body: JsonObject = {"model": model, "store": False}
    stolen = ask(compacting, {**body, "input": [HISTORY[0], item]}, STRANGER)
    spoiled = ask(compacting, {**body, "input": [HISTORY[0], changed]})
    assert stolen.status == spoiled.status == 400
    # One answer for all: nobody learns what there is.
    assert stolen.body == spoiled.body
    assert stolen.error["param"] == "input[1]"
    assert stolen.error["code"] == "invalid_encrypted_content"
    if dialect != "responses":
        foreign = ask(compacting, {**body, "input": [HISTORY[0], FOREIGN]})
        assert (foreign.status, foreign.body) == (400, spoiled.body)


def test_another_node_opens_it_after_a_restart(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, SUMMARY, "Yes.")
    environment = {"SEALING": new_sealing_key().hex()}
    configured = '[sealing]\nkey_env = "SEALING"\n[state]\nurl = "memory:"\n'
    configured += backend_tables(backend.address)
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    with run_gateway(configured, folders[0], environment) as one:
        item = summarise(one, model)
    with run_gateway(configured, folders[1], environment) as other:
        assert ask(other, {"model": model, "store": False, "input": [item]}).status == 200
    assert SUMMARY in received_body(backend, model)


# The address


@pytest.mark.parametrize("dialect", DIALECTS)
def test_sdk_compacts_and_goes_on(
    dialect: str, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    script_texts(backend, dialect, model, "Sunny.", SUMMARY, "18 degrees.")
    first = client.responses.create(model=model, input="What is the weather in Oslo?")
    raw = client.responses.with_raw_response.compact(
        model=model,
        previous_response_id=first.id,
        input=[{"role": "assistant", "content": "I wrote it down."}],
        instructions="Be brief.",
        prompt_cache_key="k",
    )
    assert_compaction(read_object(raw.content))
    made = raw.parse()
    assert made.object == "response.compaction"
    assert made.usage.total_tokens == 12
    assert [item.type for item in made.output] == ["message", "compaction"]
    for words in ("What is the weather", "Sunny.", "I wrote it down.", "Be brief."):
        assert words in received_body(backend, model)
    assert len(backend.received(model)) == 2
    # The output as it is: the SDK's own types know no users here, whom its documentation names.
    replayed = objects_in(read_object(raw.content), "output")
    third = client.responses.create(
        model=model,
        input=[*replayed, {"role": "user", "content": "How warm?"}],  # type: ignore[list-item] # pyright: ignore[reportArgumentType] - as the API's guide does
        store=False,
    )
    assert third.output_text == "18 degrees."
    for words in ("What is the weather", SUMMARY, "How warm?"):
        assert words in received_body(backend, model)
    assert "Sunny." not in received_body(backend, model)


def compact(gateway: Gateway, body: JsonObject) -> RawResponse:
    return post(gateway.port, "/v1/responses/compact", body, AUTHORIZED)


def test_what_cannot_be_compacted(
    compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    nothing = compact(compacting, {"model": model})
    assert (nothing.status, nothing.error["code"]) == (400, "nothing_to_compact")
    missing = compact(compacting, {"input": "Hello"})
    assert (missing.status, missing.error["param"]) == (400, "model")
    unknown = compact(compacting, {"model": model, "previous_response_id": "resp_no"})
    assert (unknown.status, unknown.error["code"]) == (400, "previous_response_not_found")
    foreign = compact(compacting, {"model": model, "input": [HISTORY[0], FOREIGN]})
    assert (foreign.status, foreign.error["param"]) == (400, "input[1]")
    nowhere = compact(compacting, {"model": "elsewhere", "input": "Hello"})
    assert (nowhere.status, nowhere.error["code"]) == (404, "model_not_found")
    streamed = compact(compacting, {"model": model, "input": "Hello", "stream": True})
    assert (streamed.status, streamed.error["param"]) == (400, "stream")
    assert not backend.received(model)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_error_of_the_backend_keeps_its_status(
    dialect: str, compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    refused = b'{"error":{"message":"slower","type":"rate","param":null,"code":"rate_limit"}}'
    backend.enqueue(model, json_reply(refused, status=429, headers={"Retry-After": "7"}))
    told = compact(compacting, {"model": model, "input": "Hello"})
    assert (told.status, told.headers["retry-after"]) == (429, "7")
    assert told.error["message"] == "slower"


def test_calls_are_no_summary(
    compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(
        model, json_reply(reply_body("chat", Turn(None, (Call("exec_command", "{}"),))))
    )
    told = compact(compacting, {"model": model, "input": "Hello"})
    assert (told.status, told.error["code"]) == (502, "empty_summary")


# Backends that do it themselves


def test_native_backend_does_it_all_itself(
    compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, chat = new_model("native"), new_model("chat")
    script_texts(backend, "chat", chat, SUMMARY)
    ours = summarise(compacting, chat)
    native: JsonObject = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    made = {
        "id": "resp_1",
        "object": "response.compaction",
        "created_at": 1,
        "output": [native],
        "usage": read_object(reply_body("responses", Turn("x")))["usage"],
    }
    backend.enqueue(model, json_reply(_encoded(made)))
    told = compact(compacting, {"model": model, "input": [ours, FOREIGN, message("user", "Hi")]})
    assert (told.status, told.json()) == (200, made)
    received = backend.received(model)[0]
    assert received.target.endswith("/v1/responses/compact")
    assert "store" not in received.json()
    # What is ours is opened, what is its own passes.
    assert SUMMARY in received.body.decode()
    assert "gAAAAABpM0Yj" in received.body.decode()
    script_texts(backend, "responses", model, "Done.")
    body = {"model": model, "store": False, "input": [FOREIGN, message("user", "Hi"), TRIGGER]}
    settings = {"context_management": [{"type": "compaction", "compact_threshold": 1}]}
    assert ask(compacting, {**body, **settings}).status == 200
    sent = backend.received(model)[1].json()
    assert [item["type"] for item in objects_in(sent, "input")] == [
        "compaction",
        "message",
        "compaction_trigger",
    ]
    assert sent["context_management"] == settings["context_management"]
    assert len(backend.received(model)) == 2


@pytest.mark.parametrize("status", [404, 405, 501])
def test_native_backend_without_the_address_gets_the_trigger(
    status: int, compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("native")
    response = read_object(reply_body("responses", Turn("x")))
    response["output"] = [FOREIGN]
    backend.enqueue(model, json_reply(b"gone", status=status), json_reply(_encoded(response)))
    told = compact(compacting, {"model": model, "input": "Hello"})
    assert_compaction(told.json())
    words, item = objects_in(told.json(), "output")
    assert words["role"] == "user"
    assert item == FOREIGN
    asked = objects_in(backend.received(model)[1].json(), "input")
    assert asked[-1] == TRIGGER


def test_native_backend_that_gives_no_summary_is_at_fault(
    compacting: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("native")
    backend.enqueue(
        model, json_reply(b"", status=404), json_reply(reply_body("responses", Turn("No.")))
    )
    told = compact(compacting, {"model": model, "input": "Hello"})
    assert (told.status, told.error["code"]) == (502, "bad_gateway")


def _encoded(body: JsonObject) -> bytes:
    return json.dumps(body).encode()
