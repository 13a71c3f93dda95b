"""Long conversations are summarized by the gateway if the client asks for it."""

import socket
from collections.abc import Iterator

import pytest

from gateway.pytest_plugin.scripted_backend import Gate, ScriptedBackend, json_reply
from tests.gateway.backend_replies import Call, Turn, reply_body
from tests.gateway.compaction.requests import (
    EXEC_COMMAND_TOOL,
    HISTORY,
    INVALID,
    SUMMARY,
    item_types,
    message,
    validated,
)
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT, backend_tables
from tests.gateway.raw_http import RawResponse, request_bytes
from tests.gateway.sdk_clients import WEATHER_TOOL
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import JsonObject, objects_in

LONG = "What is the weather in Oslo? " * 20
CONVERSATION = [message("user", LONG), message("assistant", "Sunny."), message("user", "How warm?")]


def management(threshold: int) -> list[JsonObject]:
    return [{"type": "compaction", "compact_threshold": threshold}]


SOON = management(100)
MANAGED: JsonObject = {"context_management": SOON, "tools": [WEATHER_TOOL]}


def create(
    harness: Harness, model: str, given: object, managed: object = SOON, **fields: object
) -> RawResponse:
    body = {"model": model, "input": given, "context_management": managed, "store": False}
    return harness.post({**body, **fields})


def types_in(received: RawResponse) -> list[object]:
    return [item["type"] for item in objects_in(received.json(), "output")]


@pytest.fixture(scope="module")
def strict(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway that refuses losses."""
    config = 'loss_policy = "refuse"\n' + backend_tables(backend.address)
    with run_harness(backend, config, tmp_path_factory.mktemp("strict")) as harness:
        yield harness


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_long_stored_history_continues_from_a_summary(
    dialect: str, *, streamed: bool, harness: Harness
) -> None:
    model = harness.script(dialect, "Sunny.", SUMMARY, "18 degrees.", "Yes.")
    first = harness.respond(model=model, input=LONG, instructions="Be brief.")
    question: JsonObject = {"input": "How warm?", "previous_response_id": first.id, **MANAGED}
    second = harness.respond(streamed=streamed, model=model, **question)
    assert item_types(second) == ["compaction", "message"]
    assert second.output_text == "18 degrees."
    assert second.previous_response_id == first.id
    # The usage of both replies; legacy backends do not report that of streams.
    unknown = streamed and dialect == "legacy"
    assert second.usage is not None
    assert second.usage.total_tokens == (0 if unknown else 24)
    # The history is summarized, and only the reply is streamed.
    harness.assert_sent(model, LONG, index=1)
    assert "How warm?" not in harness.sent(model, 1)
    assert harness.sent_json(model, 1).get("stream") is not True
    harness.assert_sent(model, SUMMARY, "How warm?")
    assert "Sunny." not in harness.sent(model)
    # The next turn begins with the summary and the question after it.
    third = harness.respond(model=model, input="Sure?", previous_response_id=second.id)
    assert third.output_text == "Yes."
    for words in (SUMMARY, "How warm?", "18 degrees.", "Sure?"):
        assert harness.sent(model).count(words) == 1
    assert "Oslo?" not in harness.sent(model)


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_reply_with_a_summary_is_valid(dialect: str, *, streamed: bool, harness: Harness) -> None:
    model = harness.script(dialect, SUMMARY, "18 degrees.")
    received = create(harness, model, CONVERSATION, stream=streamed)
    validated(received, streamed=streamed)
    assert "context_management" not in received.headers.get("dragoman-loss", "")


def test_stateless_client_continues_from_the_summary(harness: Harness) -> None:
    model = harness.script("chat", SUMMARY, "18 degrees.", "Yes.")
    given = [message("developer", "Be brief."), *CONVERSATION]
    first = create(harness, model, given)
    # The client does not know which items it could omit.
    given += [*objects_in(first.json(), "output"), message("user", "Sure?")]
    assert types_in(create(harness, model, given)) == ["message"]
    messages = objects_in(harness.sent_json(model), "messages")
    expected = ("Be brief.", SUMMARY, "How warm?", "18 degrees.", "Sure?")
    for sent, words in zip(messages, expected, strict=True):
        assert words in str(sent["content"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_are_not_separated_from_their_outputs(dialect: str, harness: Harness) -> None:
    call_turn = Turn(None, (Call("weather", '{"city": "Oslo"}'),))
    model = harness.script(dialect, call_turn, SUMMARY, "Warm.")
    first = harness.respond(model=model, input=LONG, tools=[WEATHER_TOOL])
    (call,) = first.output
    assert call.type == "function_call"
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
    fields: JsonObject = {"input": [output], "previous_response_id": first.id, **MANAGED}
    assert harness.respond(streamed=False, model=model, **fields).output_text == "Warm."
    assert "city" not in harness.sent(model, 1)
    harness.assert_sent(model, SUMMARY, "city", "18 degrees", '"weather"')
    assert "Oslo? What" not in harness.sent(model)


def test_short_conversation_is_not_summarized(harness: Harness) -> None:
    model = harness.script("chat", "Sunny.")
    received = create(harness, model, CONVERSATION, management(100_000))
    assert types_in(received) == ["message"]
    assert "dragoman-loss" not in received.headers
    assert len(harness.backend.received(model)) == 1
    assert "context_management" not in harness.sent(model)


@pytest.mark.parametrize(
    ("given", "managed", "loss"),
    [
        ("Hi", [{"type": "magic"}], 'path="context_management[0].type"'),
        # One question, however long, belongs to the current turn.
        (LONG, SOON, "nothing to summarize"),
    ],
)
def test_unsupported_management_is_reported(
    given: str, managed: object, loss: str, harness: Harness
) -> None:
    received = create(harness, harness.script("chat", "Sunny."), given, managed)
    assert received.status == 200
    assert loss in received.headers["dragoman-loss"]


@pytest.mark.parametrize(
    ("given", "threshold", "param"),
    [
        ("Hi", 0, "context_management[0].compact_threshold"),
        ([*CONVERSATION[:2], INVALID], 100, "input[2].content[0]"),
    ],
)
def test_error_names_the_item(given: object, threshold: int, param: str, harness: Harness) -> None:
    received = create(harness, harness.script("chat", SUMMARY), given, management(threshold))
    assert (received.status, received.error["param"]) == (400, param)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_reply_if_summarizing_fails(dialect: str, harness: Harness, strict: Harness) -> None:
    error = b'{"error":{"message":"no","type":"x","param":null,"code":null}}'
    failed = json_reply(error, status=500)
    reply = json_reply(reply_body(dialect, Turn("18 degrees.")))
    model = harness.enqueue(dialect, failed, reply, failed)
    received = create(harness, model, CONVERSATION)
    assert received.status == 200
    assert types_in(received) == ["message"]
    assert "could not be summarized" in received.headers["dragoman-loss"]
    harness.assert_sent(model, LONG)
    refused = create(strict, model, CONVERSATION)
    assert (refused.status, refused.error["param"]) == (400, "context_management")


def test_loss_names_the_path_of_the_client(harness: Harness) -> None:
    model = harness.script("chat", "Sunny.", SUMMARY, "18 degrees.")
    first = harness.respond(model=model, input=LONG)
    search: JsonObject = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    search["action"] = {"type": "search", "query": "Oslo"}
    given = [search, message("assistant", "I see."), message("user", "How warm?")]
    received = create(harness, model, given, previous_response_id=first.id)
    assert received.status == 200
    assert 'path="input[0]"' in received.headers["dragoman-loss"]


def test_client_that_disconnects_cancels_the_summary(harness: Harness) -> None:
    model = harness.enqueue("chat", (Gate(),))
    given = [*HISTORY, message("assistant", LONG), message("user", "How warm?")]
    body = {"model": model, "input": given, **MANAGED, "tools": [EXEC_COMMAND_TOOL]}
    address = ("127.0.0.1", harness.gateway.port)
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(request_bytes("/v1/responses", body))
        request = harness.backend.wait_for_request(model)
    assert request.closed.wait(TIMEOUT_SECONDS), "the request to the backend is still open"
    assert len(harness.backend.received(model)) == 1
    assert "Traceback" not in harness.gateway.log
