"""Conversations that are summed up by themselves once they are too long."""

import socket
from collections.abc import Iterator

import openai
import pytest
from openai.types.responses import (
    Response,
    ResponseInputItemParam,
)
from openai.types.responses.response_create_params import ContextManagement

from tests.gateway.backend_replies import Call, Turn, reply_body, reply_script
from tests.gateway.backend_requests import received_body
from tests.gateway.compaction.requests import (
    EXEC_COMMAND_TOOL,
    HISTORY,
    SUMMARY,
    message,
    script_texts,
)
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS, backend_tables
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.raw_http import AUTHORIZED, RawResponse, post, request_bytes
from tests.gateway.scripted_backend import Gate, ScriptedBackend, json_reply
from tests.gateway.sdk_clients import WEATHER_TOOL, sdk_client
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.open_responses import EVERYTHING, assert_response, assert_stream
from tests.judges.reading import JsonObject, objects_in, text_in
from tests.judges.sdk import judge_responses_reply, judge_responses_stream

LONG = "What is the weather in Oslo? " * 20
SOON: list[ContextManagement] = [{"type": "compaction", "compact_threshold": 100}]
LATE: list[ContextManagement] = [{"type": "compaction", "compact_threshold": 100_000}]


@pytest.fixture(scope="module")
def managing(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("managing")
    with run_gateway(backend_tables(backend.address), folder) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def strict(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("strict")
    with run_gateway(
        'loss_policy = "refuse"\n' + backend_tables(backend.address), folder
    ) as gateway:
        yield gateway


@pytest.fixture
def client(managing: Gateway) -> Iterator[openai.OpenAI]:
    with sdk_client(managing, "sk-test") as sdk:
        yield sdk


def create(
    client: openai.OpenAI,
    model: str,
    given: str | list[ResponseInputItemParam],
    previous: str | None,
    *,
    streamed: bool,
) -> Response:
    """Ask the next question, with the wish that long conversations are summed up."""
    if not streamed:
        return client.responses.create(
            model=model,
            input=given,
            previous_response_id=previous,
            context_management=SOON,
            tools=[WEATHER_TOOL],
        )
    with client.responses.stream(
        model=model,
        input=given,
        previous_response_id=previous,
        context_management=SOON,
        tools=[WEATHER_TOOL],
    ) as events:
        return events.get_final_response()


def ask(gateway: Gateway, **body: object) -> RawResponse:
    return post(gateway.port, "/v1/responses", {"store": False, **body}, AUTHORIZED)


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_long_chain_goes_on_from_a_summary(
    dialect: str,
    *,
    streamed: bool,
    client: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    script_texts(backend, dialect, model, "Sunny.", SUMMARY, "18 degrees.", "Yes.")
    first = client.responses.create(model=model, input=LONG, instructions="Be brief.")
    second = create(client, model, "How warm?", first.id, streamed=streamed)
    assert [item.type for item in second.output] == ["compaction", "message"]
    assert second.output_text == "18 degrees."
    assert second.previous_response_id == first.id
    # What both answers cost.
    assert second.usage is not None
    assert second.usage.total_tokens == 24
    # The summary is of what was before, and nothing but the answer is streamed.
    assert LONG in received_body(backend, model, 1)
    assert "How warm?" not in received_body(backend, model, 1)
    assert backend.received(model)[1].json().get("stream") is not True
    for words in (SUMMARY, "How warm?"):
        assert words in received_body(backend, model, 2)
    assert "Sunny." not in received_body(backend, model, 2)
    # The next turn starts from the summary, and from the question that stood behind it.
    third = client.responses.create(model=model, input="Sure?", previous_response_id=second.id)
    assert third.output_text == "Yes."
    for words in (SUMMARY, "How warm?", "18 degrees.", "Sure?"):
        assert received_body(backend, model, 3).count(words) == 1
    assert "Oslo?" not in received_body(backend, model, 3)


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_answer_is_what_clients_can_read(
    dialect: str,
    *,
    streamed: bool,
    managing: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    script_texts(backend, dialect, model, SUMMARY, "18 degrees.")
    given = [message("user", LONG), message("assistant", "Sunny."), message("user", "How warm?")]
    told = ask(managing, model=model, input=given, context_management=SOON, stream=streamed)
    assert told.status == 200
    if streamed:
        judge_responses_stream(told.body)
        assert_stream(told.body, allow=EVERYTHING)
    else:
        judge_responses_reply(told.body)
        assert_response(told.json(), allow=EVERYTHING)
    assert "context_management" not in told.headers.get("dragoman-loss", "")


def test_client_that_carries_all_itself_goes_on_from_the_summary(
    managing: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, SUMMARY, "18 degrees.", "Yes.")
    given = [
        message("developer", "Be brief."),
        message("user", LONG),
        message("assistant", "Sunny."),
        message("user", "How warm?"),
    ]
    first = ask(managing, model=model, input=given, context_management=SOON)
    # It does not know what it could leave out.
    given += [*objects_in(first.json(), "output"), message("user", "Sure?")]
    second = ask(managing, model=model, input=given, context_management=SOON)
    assert [item["type"] for item in objects_in(second.json(), "output")] == ["message"]
    messages = objects_in(backend.received(model)[2].json(), "messages")
    said = [str(message["content"]) for message in messages]
    assert len(said) == 5
    for text, words in zip(
        said, ("Be brief.", SUMMARY, "How warm?", "18 degrees.", "Sure?"), strict=True
    ):
        assert words in text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_stay_with_their_outputs(
    dialect: str, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    turns = iter((Turn(None, (Call("weather", '{"city": "Oslo"}'),)), Turn(SUMMARY), Turn("Warm.")))
    backend.respond_with(
        model, lambda received: reply_script(dialect, next(turns), received.json())
    )
    first = client.responses.create(model=model, input=LONG, tools=[WEATHER_TOOL])
    (call,) = first.output
    assert call.type == "function_call"
    second = create(
        client,
        model,
        [{"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}],
        first.id,
        streamed=False,
    )
    assert second.output_text == "Warm."
    assert "city" not in received_body(backend, model, 1)
    sent = received_body(backend, model, 2)
    for words in (SUMMARY, "city", "18 degrees", '"weather"'):
        assert words in sent
    assert "Oslo? What" not in sent


def test_short_conversation_is_left_alone(
    managing: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, "Sunny.")
    given = [message("user", LONG), message("assistant", "Sunny."), message("user", "How warm?")]
    told = ask(managing, model=model, input=given, context_management=LATE)
    assert [item["type"] for item in objects_in(told.json(), "output")] == ["message"]
    assert "dragoman-loss" not in told.headers
    assert len(backend.received(model)) == 1
    assert "context_management" not in received_body(backend, model)


def test_what_cannot_be_done_is_reported(
    managing: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, "Sunny.", "Sunny.")
    unknown = ask(managing, model=model, input="Hi", context_management=[{"type": "magic"}])
    assert unknown.status == 200
    assert 'path="context_management[0].type"' in unknown.headers["dragoman-loss"]
    # One question, as long as it is, belongs to the turn that is going on.
    single = ask(managing, model=model, input=LONG, context_management=SOON)
    assert single.status == 200
    assert "nothing to summarize" in single.headers["dragoman-loss"]
    wrong = [{"type": "compaction", "compact_threshold": 0}]
    refused = ask(managing, model=model, input="Hi", context_management=wrong)
    assert refused.status == 400
    assert refused.error["param"] == "context_management[0].compact_threshold"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_without_a_summary_the_answer_goes_on(
    dialect: str, managing: Gateway, strict: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    failed = json_reply(
        b'{"error":{"message":"no","type":"x","param":null,"code":null}}', status=500
    )
    backend.enqueue(model, failed, json_reply(reply_body(dialect, Turn("18 degrees."))), failed)
    given = [message("user", LONG), message("assistant", "Sunny."), message("user", "How warm?")]
    told = ask(managing, model=model, input=given, context_management=SOON)
    assert told.status == 200
    assert [item["type"] for item in objects_in(told.json(), "output")] == ["message"]
    assert "could not be summarized" in told.headers["dragoman-loss"]
    assert LONG in received_body(backend, model)
    # Where nothing may be lost, this may not be.
    refused = ask(strict, model=model, input=given, context_management=SOON)
    assert refused.status == 400
    assert refused.error["param"] == "context_management"


def test_places_are_those_of_the_client(
    managing: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, SUMMARY)
    odd: JsonObject = {"type": "message", "role": "user", "content": [{"type": "nonsense"}]}
    given = [message("user", LONG), message("assistant", "Sunny."), odd]
    told = ask(managing, model=model, input=given, context_management=SOON)
    assert told.status == 400
    assert text_in(told.error, "param").startswith("input[2]")


def test_what_the_summary_could_not_be_told_is_reported(
    managing: Gateway, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_texts(backend, "chat", model, "Sunny.", SUMMARY, "18 degrees.")
    first = client.responses.create(model=model, input=LONG)
    search: JsonObject = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    given = [
        {**search, "action": {"type": "search", "query": "Oslo"}},
        message("assistant", "I see."),
        message("user", "How warm?"),
    ]
    body: JsonObject = {"model": model, "input": given, "context_management": SOON}
    told = ask(managing, **body, previous_response_id=first.id)
    assert told.status == 200
    assert 'path="input[0]"' in told.headers["dragoman-loss"]


def test_client_that_leaves_ends_the_summary(
    managing: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(model, (Gate(),))
    given = [*HISTORY, message("assistant", LONG), message("user", "How warm?")]
    body = {
        "model": model,
        "input": given,
        "context_management": SOON,
        "tools": [EXEC_COMMAND_TOOL],
    }
    with socket.create_connection(("127.0.0.1", managing.port), timeout=TIMEOUT_SECONDS) as plug:
        plug.sendall(request_bytes("/v1/responses", body))
        request = backend.wait_for_request(model)
    assert request.closed.wait(TIMEOUT_SECONDS), "the backend works on for nobody"
    assert len(backend.received(model)) == 1
    assert "Traceback" not in managing.log
