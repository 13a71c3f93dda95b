"""Conversations are summarized with every backend, and continue from the summary."""

from pathlib import Path

import pytest

from gateway.crypto import new_sealing_key
from gateway.pytest_plugin.scripted_backend import ScriptedBackend, json_reply
from tests.gateway.backend_replies import RESPONSES_USAGE, Call, Turn, reply_body
from tests.gateway.compaction.requests import (
    HISTORY,
    INVALID,
    SETTINGS,
    SUMMARY,
    TRIGGER,
    item_types,
    message,
    validated,
)
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT, backend_tables
from tests.gateway.raw_http import RawResponse
from tests.judges.open_responses import assert_compaction
from tests.judges.reading import JsonObject, object_in, objects_in, read_object, text_in
from tests.judges.samples import encoded

FOREIGN: JsonObject = {"type": "compaction", "id": "cmp_x", "encrypted_content": "gAAAAABpM0Yj"}
TOOL_FIELDS = {"tools", "functions", "tool_choice", "parallel_tool_calls"}
UNUSED = "chat-unused"
WEATHER = "What is the weather in Oslo?"


def create(
    harness: Harness, model: str, items: list[JsonObject], fields: JsonObject | None = None
) -> RawResponse:
    return harness.post({"model": model, "store": False, "input": items, **(fields or {})})


def summarize(harness: Harness, model: str) -> JsonObject:
    received = create(harness, model, [*HISTORY, TRIGGER], SETTINGS)
    (item,) = objects_in(validated(received), "output")
    return item


def compact(harness: Harness, **body: object) -> RawResponse:
    return harness.post(body, "/v1/responses/compact")


# Tools

SAIL: JsonObject = {"type": "function", "name": "sail", "parameters": {"type": "object"}}
ADDITIONAL: list[JsonObject] = [
    {"type": "additional_tools", "role": "developer", "tools": [SAIL]},
]
SEARCHED: list[JsonObject] = [
    {
        "type": "tool_search_call",
        "call_id": "call_123456789",
        "execution": "client",
        "arguments": {"query": "sail"},
        "status": "completed",
    },
    {
        "type": "tool_search_output",
        "call_id": "call_123456789",
        "execution": "client",
        "tools": [SAIL],
        "status": "completed",
    },
]


@pytest.mark.parametrize("declared", [ADDITIONAL, SEARCHED], ids=["additional", "searched"])
@pytest.mark.parametrize("endpoint", [False, True], ids=["trigger", "endpoint"])
def test_tools_that_only_items_declare_survive_the_summary(
    declared: list[JsonObject], *, endpoint: bool, harness: Harness
) -> None:
    model = harness.script("chat", SUMMARY, "On we go.")
    items = [*HISTORY[:2], *declared, *HISTORY[2:]]
    if endpoint:
        made = compact(harness, model=model, input=items)
    else:
        made = create(harness, model, [*items, TRIGGER])
    assert made.status == 200, made.body
    output = objects_in(made.json(), "output")
    assert create(harness, model, [*output, message("user", "Sail.")]).status == 200
    (tool,) = objects_in(harness.sent_json(model), "tools")
    assert object_in(tool, "function")["name"] == "sail"


# The trigger


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_codex_gets_exactly_one_item_and_continues_from_it(
    dialect: str, *, streamed: bool, harness: Harness
) -> None:
    model = harness.script(dialect, SUMMARY, "All is done.")
    fields: JsonObject = {**SETTINGS, "stream": streamed}
    first = create(harness, model, [*HISTORY, TRIGGER], fields)
    response = validated(first, streamed=streamed)
    (item,) = objects_in(response, "output")
    assert item["type"] == "compaction"
    assert SUMMARY not in text_in(item, "encrypted_content")
    # Legacy backends do not report the usage of streams.
    unknown = streamed and dialect == "legacy"
    assert object_in(response, "usage")["total_tokens"] == (0 if unknown else 12)
    # The backend had to summarize all of it, and could call nothing.
    words = ("You are Codex.", "Please do the task", "echo hi", "af4ba1", "write a summary")
    harness.assert_sent(model, *words)
    assert "web_search" not in harness.sent(model)
    request = harness.sent_json(model)
    assert not TOOL_FIELDS & request.keys()
    if dialect != "responses":
        # Servers reject messages of tools if no tools are declared.
        roles = {message["role"] for message in objects_in(request, "messages")}
        assert roles <= {"system", "user", "assistant"}
        assert "tools are not supported" not in str(first.headers)
    # Codex keeps the instructions and the user's messages, and adds the summary and what is new.
    second = create(harness, model, [*HISTORY[:3], item, message("user", "Go on.")], fields)
    assert second.status == 200
    assert b"All is done." in second.body
    harness.assert_sent(model, "Please do the task", SUMMARY, "summary of the earlier part")
    harness.assert_sent(model, "Go on.")
    assert harness.sent(model).count("You are Codex.") == 1
    assert "compaction" not in harness.sent(model)


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_codex_with_its_own_provider_asks_for_a_summary_in_words(
    dialect: str, *, streamed: bool, harness: Harness
) -> None:
    model = harness.script(dialect, SUMMARY)
    words = message("user", "You are performing a CONTEXT CHECKPOINT COMPACTION.")
    fields: JsonObject = {"stream": streamed, "tools": [], "parallel_tool_calls": False}
    received = create(harness, model, [*HISTORY, words], {**SETTINGS, **fields})
    assert received.status == 200
    assert SUMMARY.encode() in received.body.replace(b'"', b"") or streamed
    # Chat servers reject an empty list, and settings for tools that do not exist.
    if dialect != "responses":
        assert not TOOL_FIELDS & harness.sent_json(model).keys()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stored_history_begins_with_its_summary(dialect: str, harness: Harness) -> None:
    model = harness.script(dialect, "Sunny.", SUMMARY, "18 degrees.")
    first = harness.respond(model=model, input=WEATHER)
    second = harness.respond(model=model, input=[TRIGGER], previous_response_id=first.id)
    assert item_types(second) == ["compaction"]
    harness.assert_sent(model, WEATHER)
    third = harness.respond(model=model, input="How warm?", previous_response_id=second.id)
    assert third.output_text == "18 degrees."
    harness.assert_sent(model, SUMMARY)
    assert WEATHER not in harness.sent(model)
    assert item_types(harness.sdk.responses.retrieve(second.id)) == ["compaction"]


@pytest.mark.parametrize(
    ("items", "param"),
    [
        pytest.param([HISTORY[0], TRIGGER, HISTORY[1]], "input[1]", id="trigger is not last"),
        pytest.param([*HISTORY, INVALID, TRIGGER], "input[5].content[0]", id="item is invalid"),
    ],
)
def test_error_names_the_item(items: list[JsonObject], param: str, harness: Harness) -> None:
    received = create(harness, harness.new_model("chat"), items)
    assert (received.status, received.error["param"]) == (400, param)


@STREAMED_OR_NOT
def test_empty_summary_is_an_error(*, streamed: bool, harness: Harness) -> None:
    model = harness.script("chat", "")
    received = create(harness, model, [*HISTORY, TRIGGER], {"stream": streamed})
    assert b"empty_summary" in received.body or b"returned an empty summary" in received.body
    if not streamed:
        assert received.status == 502


# Owners and keys


@pytest.mark.parametrize("dialect", DIALECTS)
def test_summary_of_another_client_is_rejected(dialect: str, harness: Harness) -> None:
    model = harness.script(dialect, SUMMARY)
    item = summarize(harness, model)
    sealed = text_in(item, "encrypted_content")
    other = "A" if sealed[40] != "A" else "B"
    changed = {**item, "encrypted_content": f"{sealed[:40]}{other}{sealed[41:]}"}
    body = {"model": model, "store": False, "input": [HISTORY[0], item]}
    stolen = harness.post(body, headers={"Authorization": "Bearer sk-somebody-else"})
    tampered = create(harness, model, [HISTORY[0], changed])
    assert stolen.status == tampered.status == 400
    # The error does not reveal which of them exist.
    assert stolen.body == tampered.body
    assert stolen.error["param"] == "input[1]"
    assert stolen.error["code"] == "invalid_encrypted_content"
    if dialect != "responses":
        foreign = create(harness, model, [HISTORY[0], FOREIGN])
        assert (foreign.status, foreign.body) == (400, tampered.body)


def test_another_node_opens_a_summary(backend: ScriptedBackend, tmp_path: Path) -> None:
    environment = {"SEALING": new_sealing_key().hex()}
    config = '[sealing]\nkey_env = "SEALING"\n[state]\nurl = "memory:"\n'
    config += backend_tables(backend.address)
    with run_harness(backend, config, tmp_path, environment) as one:
        model = one.script("chat", SUMMARY, "Yes.")
        item = summarize(one, model)
    with run_harness(backend, config, tmp_path, environment) as other:
        assert create(other, model, [item]).status == 200
        other.assert_sent(model, SUMMARY)


# The endpoint


@pytest.mark.parametrize("dialect", DIALECTS)
def test_sdk_compacts_and_continues(dialect: str, harness: Harness) -> None:
    model = harness.script(dialect, "Sunny.", SUMMARY, "18 degrees.")
    first = harness.respond(model=model, input=WEATHER)
    raw = harness.sdk.responses.with_raw_response.compact(
        model=model,
        previous_response_id=first.id,
        input=[{"role": "assistant", "content": "I wrote it down."}],
        instructions="Be brief.",
        prompt_cache_key="k",
    )
    assert_compaction(read_object(raw.content))
    compacted = raw.parse()
    assert compacted.object == "response.compaction"
    assert compacted.usage.total_tokens == 12
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    harness.assert_sent(model, WEATHER, "Sunny.", "I wrote it down.", "Be brief.")
    assert len(harness.backend.received(model)) == 2
    # The types of the SDK have no messages of users here, unlike its documentation.
    items = [*objects_in(read_object(raw.content), "output"), message("user", "How warm?")]
    assert harness.respond(model=model, input=items, store=False).output_text == "18 degrees."
    harness.assert_sent(model, WEATHER, SUMMARY, "How warm?")
    assert "Sunny." not in harness.sent(model)


@pytest.mark.parametrize(
    ("body", "status", "field", "value"),
    [
        ({"model": UNUSED}, 400, "code", "nothing_to_compact"),
        ({"input": "Hello"}, 400, "param", "model"),
        (
            {"model": UNUSED, "previous_response_id": "resp_no"},
            *(400, "code", "previous_response_not_found"),
        ),
        ({"model": UNUSED, "input": [HISTORY[0], FOREIGN]}, 400, "param", "input[1]"),
        ({"model": "elsewhere", "input": "Hello"}, 404, "code", "model_not_found"),
        ({"model": UNUSED, "input": "Hello", "stream": True}, 400, "param", "stream"),
    ],
)
def test_request_that_cannot_be_compacted(
    body: JsonObject, status: int, field: str, value: str, harness: Harness
) -> None:
    received = compact(harness, **body)
    assert (received.status, received.error[field]) == (status, value)
    assert not harness.backend.received(UNUSED)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_error_of_the_backend_keeps_its_status(dialect: str, harness: Harness) -> None:
    error = b'{"error":{"message":"slower","type":"rate","param":null,"code":"rate_limit"}}'
    reply = json_reply(error, status=429, headers={"Retry-After": "7"})
    received = compact(harness, model=harness.enqueue(dialect, reply), input="Hello")
    assert (received.status, received.headers["retry-after"]) == (429, "7")
    assert received.error["message"] == "slower"


def test_calls_are_no_summary(harness: Harness) -> None:
    model = harness.script("chat", Turn(None, (Call("exec_command", "{}"),)))
    received = compact(harness, model=model, input="Hello")
    assert (received.status, received.error["code"]) == (502, "empty_summary")


# Backends with compaction


def test_backend_with_compaction_does_it_itself(harness: Harness) -> None:
    ours = summarize(harness, harness.script("chat", SUMMARY))
    native: JsonObject = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    head = {"id": "resp_1", "object": "response.compaction", "created_at": 1}
    compaction: JsonObject = {**head, "output": [native], "usage": RESPONSES_USAGE}
    replies = (json_reply(encoded(compaction)), json_reply(reply_body("responses", Turn("Done."))))
    model = harness.enqueue("native-responses", *replies)
    received = compact(harness, model=model, input=[ours, FOREIGN, message("user", "Hi")])
    assert (received.status, received.json()) == (200, compaction)
    request = harness.backend.received(model)[0]
    assert request.target.endswith("/v1/responses/compact")
    assert "store" not in request.json()
    # Our summary is opened, and that of the backend is passed on.
    harness.assert_sent(model, SUMMARY, "gAAAAABpM0Yj")
    settings: JsonObject = {"context_management": [{"type": "compaction", "compact_threshold": 1}]}
    items = [FOREIGN, message("user", "Hi"), TRIGGER]
    assert create(harness, model, items, settings).status == 200
    sent = harness.sent_json(model)
    kinds = [item["type"] for item in objects_in(sent, "input")]
    assert kinds == ["compaction", "message", "compaction_trigger"]
    assert sent["context_management"] == settings["context_management"]
    assert len(harness.backend.received(model)) == 2


@pytest.mark.parametrize("status", [404, 405, 501])
def test_backend_without_the_endpoint_gets_the_trigger(status: int, harness: Harness) -> None:
    reply = {**read_object(reply_body("responses", Turn("x"))), "output": [FOREIGN]}
    scripts = (json_reply(b"gone", status=status), json_reply(encoded(reply)))
    model = harness.enqueue("native-responses", *scripts)
    received = compact(harness, model=model, input="Hello")
    assert_compaction(received.json())
    words, item = objects_in(received.json(), "output")
    assert words["role"] == "user"
    assert item == FOREIGN
    assert objects_in(harness.sent_json(model), "input")[-1] == TRIGGER


def test_backend_that_returns_no_summary_is_at_fault(harness: Harness) -> None:
    scripts = (json_reply(b"", status=404), json_reply(reply_body("responses", Turn("No."))))
    model = harness.enqueue("native-responses", *scripts)
    received = compact(harness, model=model, input="Hello")
    assert (received.status, received.error["code"]) == (502, "bad_gateway")
