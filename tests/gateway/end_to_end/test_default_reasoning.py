"""Reasoning returns to the backend that sent it, without a profile, across nodes and restarts.

The backends here reject every turn whose reasoning is not exactly what they sent.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import (
    ReceivedRequest,
    Script,
    ScriptedBackend,
    json_reply,
)
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.end_to_end.test_reasoning import (
    STEPS,
    ReasoningFields,
    add_turn,
    chat_backend,
    deepseek,
    gemini,
    message_in,
    post_chat,
    responses_request,
    responses_turn,
    router,
)
from tests.gateway.gateway_config import backend_table, capability_table, state_table
from tests.gateway.raw_http import RawResponse
from tests.gateway.rows import count_rows, execute
from tests.gateway.sdk_clients import create_completion
from tests.gateway.stores import DATABASES, new_url
from tests.judges.reading import JsonObject, objects_in, read_object
from tests.judges.samples import encoded


def renamed(step: int) -> tuple[JsonObject, JsonObject]:
    return {"reasoning": f"Step {step}: I count on."}, {}


def listed(step: int) -> tuple[JsonObject, JsonObject]:
    on_message, _ = router(step)
    return {**on_message, "reasoning": f"Step {step}."}, {}


FIELDS: dict[str, ReasoningFields] = {
    "reasoning_content": deepseek,
    "reasoning": renamed,
    "reasoning_details": router,
    "both": listed,
    "signature": gemini,
}
EVERY_FIELD = pytest.mark.parametrize("name", FIELDS)


def run_node(backend: ScriptedBackend, url: str, folder: Path) -> AbstractContextManager[Harness]:
    """Run a gateway in front of backends of which only the dialect is known."""
    folder.mkdir(exist_ok=True)
    tables = (
        state_table(url),
        backend_table(backend.address, "plain", "chat"),
        # With any capability, requests in the same dialect are translated too.
        backend_table(backend.address, "set", "chat", capability_table("text_parts = false")),
    )
    return run_harness(backend, "".join(tables), folder)


@pytest.fixture(scope="module", params=DATABASES)
def nodes(
    request: pytest.FixtureRequest,
    backend: ScriptedBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Harness, Harness]]:
    """Run two gateways on one database."""
    folder = tmp_path_factory.mktemp("nodes")
    url = new_url(str(request.param), folder)
    with (
        run_node(backend, url, folder / "one") as one,
        run_node(backend, url, folder / "two") as two,
    ):
        yield one, two


def chat_request(model: str) -> JsonObject:
    """Return a request that no other test sends, because call ids are the same in all tests."""
    return {"model": model, "messages": [{"role": "user", "content": f"Count with {model}."}]}


def serve(node: Harness, kind: str, name: str) -> str:
    """Return a new model of a backend that requires its reasoning in these fields."""
    model = node.new_model(kind)
    node.backend.respond_with(model, chat_backend(FIELDS[name]))
    return model


def forgetful(message: JsonObject) -> JsonObject:
    """Return a message as a client stores it that knows only the documented fields."""
    calls = objects_in(message, "tool_calls") if message.get("tool_calls") else []
    known = [{key: call[key] for key in ("id", "type", "function")} for call in calls]
    fields = {"role": "assistant", "content": message["content"]}
    return {**fields, "tool_calls": known} if known else fields


@EVERY_FIELD
@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("kind", ["plain", "set"])
def test_chat_client_that_drops_reasoning(
    kind: str, mode: str, name: str, nodes: tuple[Harness, Harness]
) -> None:
    model = serve(nodes[0], kind, name)
    request = chat_request(model)
    for step in range(STEPS + 1):
        sdk: openai.OpenAI = nodes[step % 2].sdk
        message: JsonObject = create_completion(sdk, mode, request).choices[0].message.to_dict()
        assert add_turn(request, forgetful(message)) == (step < STEPS)


@EVERY_FIELD
@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("kind", ["plain", "set"])
def test_legacy_client_has_no_call_ids(
    kind: str, mode: str, name: str, nodes: tuple[Harness, Harness]
) -> None:
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}
    request = chat_request(serve(nodes[0], kind, name))
    request |= {"functions": [{"name": "count", "parameters": parameters}]}
    for step in range(STEPS):
        message = create_completion(nodes[step % 2].sdk, mode, request)
        call = message.choices[0].message.function_call
        assert call is not None
        turn = {"role": "assistant", "content": None, "function_call": call.to_dict()}
        output = {"role": "function", "name": "count", "content": "counted"}
        request["messages"] = [*objects_in(request, "messages"), turn, output]
    assert post_chat(nodes[0], request).status == 200


@EVERY_FIELD
@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("include", [True, False], ids=["carrying", "stored"])
def test_responses_client_needs_no_setting(
    mode: str, name: str, nodes: tuple[Harness, Harness], *, include: bool
) -> None:
    request = responses_request(serve(nodes[0], "plain", name), include=include)
    for step in range(STEPS + 1):
        assert responses_turn(nodes[step % 2].sdk, mode, request) == (step < STEPS)


@EVERY_FIELD
def test_continued_response_needs_no_setting(name: str, nodes: tuple[Harness, Harness]) -> None:
    request = responses_request(serve(nodes[0], "plain", name), include=False)
    for step in range(STEPS):
        received = nodes[step % 2].post(request)
        assert received.status == 200, received.body
        output = objects_in(received.json(), "output")
        [call] = [item for item in output if item["type"] == "function_call"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "1"}
        request |= {"previous_response_id": received.json()["id"], "input": [result]}
    assert nodes[0].post(request).status == 200


def topical_backend(received: ReceivedRequest) -> Script:
    """Reason about the user's message, and require that back; call ids begin at 0 every time."""
    request = received.json()
    topic = objects_in(request, "messages")[0]["content"]
    turns = [one for one in objects_in(request, "messages") if one["role"] == "assistant"]
    for turn in turns:
        assert turn.get("reasoning_content") == f"About {topic}", turn
    call = {"id": "look:0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message: JsonObject = {"role": "assistant", "content": None}
    message["reasoning_content"] = f"About {topic}"
    message["tool_calls"] = [call]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return json_reply(encoded({**read_object(reply_body("chat", Turn())), "choices": [choice]}))


def test_reasoning_of_two_conversations_with_the_same_call_ids(
    nodes: tuple[Harness, Harness],
) -> None:
    model = nodes[0].new_model("plain")
    nodes[0].backend.respond_with(model, topical_backend)
    requests: list[JsonObject] = [
        {"model": model, "messages": [{"role": "user", "content": topic}]}
        for topic in ("warm-up", "tides", "ports")
    ]
    # The first reasoning of a model is stored before the gateway reads its requests.
    for _ in range(2):
        for number, request in enumerate(requests):
            message = message_in(post_chat(nodes[number % 2], request))
            add_turn(request, forgetful(message))


def test_reasoning_survives_a_restart(backend: ScriptedBackend, tmp_path: Path) -> None:
    url = new_url("sqlite", tmp_path)
    request: JsonObject | None = None
    for step in range(STEPS + 1):
        with run_node(backend, url, tmp_path / "node") as node:
            request = request or chat_request(serve(node, "plain", "reasoning_content"))
            message = message_in(post_chat(node, request))
            assert add_turn(request, forgetful(message)) == (step < STEPS)


def turns_of(node: Harness, model: str, message: JsonObject) -> RawResponse:
    request = chat_request(model)
    add_turn(request, message)
    # Spaces, the order of fields and escapes are the client's own.
    body = json.dumps(request, indent=1).encode()
    return node.post(body, "/v1/chat/completions")


def test_only_the_reasoning_is_added(nodes: tuple[Harness, Harness]) -> None:
    node = nodes[0]
    model = serve(node, "plain", "reasoning_content")
    message = message_in(post_chat(node, chat_request(model)))
    assert turns_of(node, model, forgetful(message)).status == 200
    sent = node.sent(model)
    added = ',"reasoning_content":"Step 0: I count on. ☀"'
    assert sent.count(added) == 1
    request = chat_request(model)
    add_turn(request, forgetful(message))
    assert sent.replace(added, "") == json.dumps(request, indent=1)


def test_nothing_is_added_for_a_client_that_sends_reasoning_back(
    nodes: tuple[Harness, Harness],
) -> None:
    node = nodes[0]
    model = serve(node, "plain", "reasoning_content")
    message = message_in(post_chat(node, chat_request(model)))
    assert turns_of(node, model, message).status == 200
    request = chat_request(model)
    add_turn(request, message)
    assert node.sent(model) == json.dumps(request, indent=1)


def test_reasoning_is_not_stored_without_permission(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    url = new_url("sqlite", tmp_path)
    with run_node(backend, url, tmp_path / "node") as node:
        model = serve(node, "plain", "reasoning_content")
        assert post_chat(node, chat_request(model) | {"store": False}).status == 200
        assert "notes" not in count_rows(url)


def test_chat_is_served_without_the_database(backend: ScriptedBackend, tmp_path: Path) -> None:
    url = new_url("sqlite", tmp_path)
    with run_node(backend, url, tmp_path / "node") as node:
        model = serve(node, "plain", "reasoning_content")
        execute(url, "DROP TABLE notes")
        message = message_in(post_chat(node, chat_request(model)))
        assert message["reasoning_content"] == "Step 0: I count on. ☀"
        assert turns_of(node, model, message).status == 200
        assert turns_of(node, model, forgetful(message)).status == 400
