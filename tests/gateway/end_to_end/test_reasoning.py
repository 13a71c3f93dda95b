"""Tool loops over backends that require their reasoning back, with clients that do not know it.

The backends here reject every turn whose reasoning is not exactly what they sent.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import (
    ReceivedRequest,
    Script,
    ScriptedBackend,
    ScriptFactory,
    json_reply,
    stream_reply,
)
from tests.adapters.test_loops import streamed
from tests.gateway.backend_replies import Turn, reply_body, reply_script
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import STREAMED_OR_NOT, backend_table, capability_table
from tests.gateway.gateway_process import log_line_naming
from tests.gateway.raw_http import RawResponse
from tests.gateway.rows import count_rows
from tests.gateway.sdk_clients import create_completion, create_response
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.samples import encoded, response

STEPS = 3
SEALING_KEYS = {"KEY": "c2VhbGVkIHdpdGggdGhpcnR5LXR3byBieXRlcyE9PTA=", "OTHER": "00" * 32}
PARAMETERS: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}


def run_reasoning_gateway(
    backend: ScriptedBackend, folder: Path, key: str = "KEY"
) -> AbstractContextManager[Harness]:
    text_items = capability_table('reasoning_items = "text"')
    tables = (
        f'[sealing]\nkey_env = "{key}"\n',
        backend_table(backend.address, "deepseek", "chat", 'profile = "deepseek"\n'),
        backend_table(backend.address, "gemini", "chat"),
        backend_table(backend.address, "router", "chat", 'profile = "openrouter"\n'),
        backend_table(backend.address, "openai", "responses"),
        backend_table(backend.address, "open", "responses", text_items),
    )
    return run_harness(backend, "".join(tables), folder, SEALING_KEYS)


@pytest.fixture(scope="module")
def node(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with run_reasoning_gateway(backend, tmp_path_factory.mktemp("reasoning")) as harness:
        yield harness


@pytest.fixture(scope="module")
def other_node(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """Run a gateway that shares the key with `node`, but no database."""
    with run_reasoning_gateway(backend, tmp_path_factory.mktemp("other")) as harness:
        yield harness


def serve(node: Harness, kind: str, backend: ScriptFactory) -> str:
    """Return a new model with this backend."""
    model = node.new_model(kind)
    node.backend.respond_with(model, backend)
    return model


# Backends


def rejection(message: str, **fields: object) -> Script:
    error = {"message": message, "type": "invalid_request_error", "code": None, **fields}
    return json_reply(encoded({"error": error}), status=400)


def reply_as_requested(dialect: str, reply: JsonObject, request: JsonObject) -> Script:
    body = encoded(reply)
    return stream_reply(streamed(dialect, body)) if request.get("stream") else json_reply(body)


# Returns the fields of the message and of the call in a step.
ReasoningFields = Callable[[int], tuple[JsonObject, JsonObject]]


def chat_backend(reasoning: ReasoningFields) -> ScriptFactory:
    """Return a Chat backend that calls a tool in each step and requires its reasoning back."""

    def reply(received: ReceivedRequest) -> Script:
        request = received.json()
        turns = [one for one in objects_in(request, "messages") if one["role"] == "assistant"]
        for number, turn in enumerate(turns):
            on_message, on_call = reasoning(number)
            call = objects_in(turn, "tool_calls")[0]
            if any(turn.get(name) != value for name, value in on_message.items()):
                return rejection(f"the reasoning of turn {number} must be passed back: {turn}")
            if any(call.get(name) != value for name, value in on_call.items()):
                return rejection(f"the call of turn {number} is missing its signature: {call}")
        step = len(turns)
        if step == STEPS:
            return reply_script("chat", Turn("Done."), request)
        on_message, on_call = reasoning(step)
        function = {"name": "count", "arguments": json.dumps({"n": step})}
        # Some servers use the same ids in every conversation.
        call = {"id": f"count:{step}", "type": "function", "function": function, **on_call}
        message = {"role": "assistant", "content": None, **on_message, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        completion = {**read_object(reply_body("chat", Turn())), "choices": [choice]}
        return reply_as_requested("chat", completion, request)

    return reply


def deepseek(step: int) -> tuple[JsonObject, JsonObject]:
    return {"reasoning_content": f"Step {step}: I count on. ☀"}, {}


def gemini(step: int) -> tuple[JsonObject, JsonObject]:
    return {}, {"extra_content": {"google": {"thought_signature": f"signature {step}"}}}


def router(step: int) -> tuple[JsonObject, JsonObject]:
    encrypted = {"type": "reasoning.encrypted", "data": f"blob {step}", "index": 1}
    text = {"type": "reasoning.text", "text": f"Step {step}.", "index": 0}
    return {"reasoning_details": [text, encrypted]}, {}


CHAT_BACKENDS = {"deepseek": deepseek, "gemini": gemini, "router": router}


def responses_backend(*, plain: bool = False) -> ScriptFactory:
    """Return a Responses backend that requires exactly its reasoning before each call."""

    def reasoning(step: int) -> JsonObject:
        item: JsonObject = {"type": "reasoning", "summary": list[object]()}
        if plain:
            return {**item, "content": [{"type": "reasoning_text", "text": f"Step {step}."}]}
        return {**item, "id": f"rs_{step}", "encrypted_content": f"gAAAAA{step}"}

    def reply(received: ReceivedRequest) -> Script:
        request = received.json()
        if not plain and request.get("include") != ["reasoning.encrypted_content"]:
            return rejection("encrypted reasoning was not requested")
        items = objects_in(request, "input")
        places = [place for place, item in enumerate(items) if item.get("type") == "function_call"]
        for step, place in enumerate(places):
            if items[place - 1] != reasoning(step):
                return rejection(f"function_call without its required 'reasoning' item: {items}")
        step = len(places)
        if step == STEPS:
            return reply_script("responses", Turn("Done."), request)
        call: JsonObject = {"type": "function_call", "id": f"fc_{step}", "status": "completed"}
        call |= {"call_id": f"call_{step}", "name": "count", "arguments": f'{{"n": {step}}}'}
        items = [{"id": f"rs_{step}", **reasoning(step)}, call]
        return reply_as_requested("responses", response("completed", items), request)

    return reply


# Responses clients


def responses_turn(sdk: openai.OpenAI, mode: str, request: JsonObject) -> bool:
    """Request a turn and add it to the input, with outputs; return whether there were calls."""
    made = create_response(sdk, mode, request)
    items = [item.to_dict() for item in made.output]
    outputs: list[JsonObject] = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "counted"}
        for item in made.output
        if item.type == "function_call"
    ]
    request["input"] = [*cast("list[object]", request["input"]), *items, *outputs]
    assert outputs or made.output_text == "Done."
    return bool(outputs)


def responses_request(model: str, *, include: bool = True) -> JsonObject:
    tool = {"type": "function", "name": "count", "parameters": PARAMETERS, "strict": False}
    request: JsonObject = {"model": model, "input": [{"role": "user", "content": "Count."}]}
    # A client that carries all items itself needs nothing stored.
    stateless: JsonObject = {"include": ["reasoning.encrypted_content"], "store": False}
    return request | {"tools": [tool]} | (stateless if include else {})


def remove_summaries(request: JsonObject) -> None:
    """Remove what was visible, as clients do that keep only the encrypted content."""
    for item in objects_in(request, "input"):
        if item.get("type") == "reasoning":
            item["summary"] = []


def run_loop(node: Harness, mode: str, request: JsonObject) -> None:
    """Request turns until there are no more calls, without what was visible of the reasoning."""
    while responses_turn(node.sdk, mode, request):
        if "include" in request:
            remove_summaries(request)
    assert len(node.backend.received(str(request["model"]))) == STEPS + 1


@pytest.mark.parametrize("mode", ["unary", "raw", "helper"])
@pytest.mark.parametrize("kind", CHAT_BACKENDS)
def test_responses_client_carries_chat_reasoning(kind: str, mode: str, node: Harness) -> None:
    run_loop(node, mode, responses_request(serve(node, kind, chat_backend(CHAT_BACKENDS[kind]))))


@pytest.mark.parametrize("mode", ["unary", "raw"])
def test_another_node_opens_sealed_reasoning(mode: str, node: Harness, other_node: Harness) -> None:
    request = responses_request(serve(node, "deepseek", chat_backend(deepseek)))
    for harness in (node, other_node, node):
        assert responses_turn(harness.sdk, mode, request)
        remove_summaries(request)
    assert not responses_turn(other_node.sdk, mode, request)


def test_reasoning_sealed_with_another_key_is_a_loss(node: Harness, tmp_path: Path) -> None:
    first = ReceivedRequest("POST", "/", {}, encoded(chat_request("gemini")), cast("Any", None))
    second = reply_script("chat", Turn("So be it."), {})
    model = node.enqueue("gemini", chat_backend(gemini)(first), second)
    request = responses_request(model)
    assert responses_turn(node.sdk, "unary", request)
    with run_reasoning_gateway(node.backend, tmp_path, "OTHER") as other:
        received = other.post(request)
    assert received.status == 200
    assert "input[1]" in received.headers["dragoman-loss"]
    sent = objects_in(node.sent_json(model), "messages")
    assert "extra_content" not in objects_in(sent[1], "tool_calls")[0]


@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("kind", ["gemini", "router"])
def test_reasoning_is_stored_if_the_client_drops_it(kind: str, mode: str, node: Harness) -> None:
    model = serve(node, kind, chat_backend(CHAT_BACKENDS[kind]))
    run_loop(node, mode, responses_request(model, include=False))


def test_reasoning_is_stored_if_the_stream_ends_without_done(node: Harness) -> None:
    def reply_without_done(received: ReceivedRequest) -> Script:
        *start, end, _ = chat_backend(gemini)(received)
        assert isinstance(end, bytes)
        assert end.endswith(b"data: [DONE]\n\n\r\n")
        events = end.partition(b"\r\n")[2].removesuffix(b"data: [DONE]\n\n\r\n")
        return (*start, *stream_reply(events)[1:])

    model = serve(node, "gemini", reply_without_done)
    run_loop(node, "raw", responses_request(model, include=False))


@STREAMED_OR_NOT
def test_unstored_reasoning_is_reported_as_lost(
    *, streamed: bool, backend: ScriptedBackend, tmp_path: Path
) -> None:
    with run_reasoning_gateway(backend, tmp_path) as node:
        model = serve(node, "gemini", chat_backend(gemini))
        body = responses_request(model, include=False) | {"store": False, "stream": streamed}
        received = node.post(body)
        assert received.status == 200
        assert count_rows(f"sqlite:{tmp_path / 'dragoman.db'}") == {}
        # The headers of a stream are sent before this loss is known.
        reported = log_line_naming(node.gateway, model) if streamed else str(received.headers)
        assert "reasoning that the backend may require with its calls is not stored" in reported


# Chat clients


def chat_request(model: str) -> JsonObject:
    return {"model": model, "messages": [{"role": "user", "content": "Count."}]}


def post_chat(node: Harness, request: JsonObject, key: str = "sk-test") -> RawResponse:
    return node.post(request, "/v1/chat/completions", {"Authorization": f"Bearer {key}"})


def message_in(received: RawResponse) -> JsonObject:
    assert received.status == 200, received.body
    return object_in(objects_in(received.json(), "choices")[0], "message")


def add_turn(request: JsonObject, message: JsonObject) -> bool:
    """Add a turn to the history, with the outputs of its calls; return whether it has calls."""
    calls = objects_in(message, "tool_calls") if message.get("tool_calls") else []
    outputs = [{"role": "tool", "tool_call_id": call["id"], "content": "1"} for call in calls]
    request["messages"] = [*objects_in(request, "messages"), message, *outputs]
    assert calls or message["content"] == "Done."
    return bool(calls)


@pytest.mark.parametrize("echoes", [True, False], ids=["echoing", "forgetful"])
@pytest.mark.parametrize("mode", ["unary", "raw", "helper"])
@pytest.mark.parametrize("kind", ["openai", "open"])
def test_chat_client_gets_back_the_reasoning_of_a_responses_backend(
    kind: str, mode: str, *, echoes: bool, node: Harness
) -> None:
    model = serve(node, kind, responses_backend(plain=kind == "open"))
    function = {"name": "count", "parameters": PARAMETERS}
    request = chat_request(model) | {"tools": [{"type": "function", "function": function}]}
    has_calls = True
    while has_calls:
        message: JsonObject = (
            create_completion(node.sdk, mode, request).choices[0].message.to_dict()
        )
        for call in objects_in(message, "tool_calls") if message.get("tool_calls") else ():
            if not echoes:
                call.pop("extra_content", None)
        has_calls = add_turn(request, message)
    assert len(node.backend.received(model)) == STEPS + 1


@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("kind", ["openai", "open"])
def test_reasoning_of_a_responses_backend_is_stored_for_legacy_clients(
    kind: str, mode: str, node: Harness
) -> None:
    model = serve(node, kind, responses_backend(plain=kind == "open"))
    functions = [{"name": "count", "parameters": PARAMETERS}]
    request = chat_request(model) | {"functions": functions}
    for _ in range(STEPS):
        choice = create_completion(node.sdk, mode, request).choices[0]
        call = choice.message.function_call
        assert call is not None
        made = {"name": call.name, "arguments": call.arguments}
        request["messages"] = [
            *objects_in(request, "messages"),
            {"role": "assistant", "content": None, "function_call": made},
            {"role": "function", "name": "count", "content": "1"},
        ]
    assert create_completion(node.sdk, mode, request).choices[0].message.content == "Done."


def test_another_node_opens_echoed_reasoning(node: Harness, other_node: Harness) -> None:
    request = chat_request(serve(node, "openai", responses_backend()))
    contents: list[object] = []
    for harness in (node, other_node, node, other_node):
        message = message_in(post_chat(harness, request))
        contents.append(message["content"])
        add_turn(request, message)
    assert contents == [None, None, None, "Done."]


def test_workers_share_a_key_by_default(backend: ScriptedBackend, tmp_path: Path) -> None:
    table = backend_table(backend.address, "deepseek", "chat", 'profile = "deepseek"\n')
    with run_harness(backend, f"[server]\nworkers = 2\n{table}", tmp_path) as node:
        # A connection for each request, so that both workers get some.
        sdk = node.sdk.with_options(default_headers={"Connection": "close"})
        for _ in range(5):
            request = responses_request(serve(node, "deepseek", chat_backend(deepseek)))
            while responses_turn(sdk, "unary", request):
                remove_summaries(request)


@pytest.mark.parametrize(
    "content", ["dragoman", ["dragoman"], {"dragoman": "x"}, {"dragoman": {"sealed": 5}}], ids=str
)
def test_invalid_extra_content_is_reported_as_lost(content: object, node: Harness) -> None:
    reply = reply_script("responses", Turn("Yes."), {})
    request = chat_request(node.enqueue("open", reply))
    function = {"name": "count", "arguments": "{}"}
    call = {"id": "call_0", "type": "function", "function": function, "extra_content": content}
    add_turn(request, {"role": "assistant", "content": None, "tool_calls": [call]})
    received = post_chat(node, request)
    assert received.status == 200
    assert "messages[1].tool_calls[0].extra_content" in received.headers["dragoman-loss"]


def test_stored_reasoning_belongs_to_one_client(node: Harness) -> None:
    request = chat_request(serve(node, "openai", responses_backend()))
    message = message_in(post_chat(node, request, "sk-one"))
    del objects_in(message, "tool_calls")[0]["extra_content"]
    add_turn(request, message)
    assert post_chat(node, request, "sk-two").status == 400
    assert post_chat(node, request, "sk-one").status == 200


def test_model_without_encrypted_reasoning_is_remembered(node: Harness) -> None:
    def reply(received: ReceivedRequest) -> Script:
        if "include" in received.json():
            message = "Encrypted content is not supported with this model."
            return rejection(message, param="include")
        return reply_script("responses", Turn("Yes."), received.json())

    model = serve(node, "openai", reply)
    for _ in range(2):
        assert node.request("chat", model).status == 200
    # Only the first request was sent twice.
    assert len(node.backend.received(model)) == 3


def test_other_rejections_reach_the_client(node: Harness) -> None:
    model = serve(node, "openai", lambda _: rejection("no such thing", param="tools"))
    received = node.request("chat", model)
    assert (received.status, received.error["message"]) == (400, "no such thing")
    assert len(node.backend.received(model)) == 1


def other_account(received: ReceivedRequest) -> Script:
    """Refuse encrypted reasoning as a backend does after a change of the account."""
    if b'"encrypted_content":' in received.body:
        message = "The encrypted content gAAA... could not be verified."
        return rejection(message, code="invalid_encrypted_content", param=None)
    return reply_script("responses", Turn("Done."), received.json())


@pytest.mark.parametrize("client", ["responses", "chat"])
@STREAMED_OR_NOT
def test_reasoning_of_another_account_is_left_out(
    client: str, *, streamed: bool, node: Harness
) -> None:
    model = serve(node, "openai", responses_backend())
    if client == "chat":
        request = chat_request(model)
        add_turn(request, message_in(post_chat(node, request)))
    else:
        request = responses_request(model)
        assert responses_turn(node.sdk, "unary", request)
    node.backend.respond_with(model, other_account)
    path = "/v1/responses" if client == "responses" else "/v1/chat/completions"
    received = node.post(request | {"stream": streamed}, path)
    assert received.status == 200, received.body
    assert (
        "encrypted reasoning that the backend cannot decrypt" in received.headers["dragoman-loss"]
    )
    refused, accepted = node.backend.received(model)[-2:]
    items = objects_in(refused.json(), "input")
    expected: list[JsonObject] = []
    for before, one in zip([{}, *items], items, strict=False):
        if one.get("type") != "reasoning":
            # Its id would require the reasoning.
            removed = "id" if before.get("type") == "reasoning" else ""
            expected.append({name: one[name] for name in one if name != removed})
    assert expected == accepted.json()["input"]


def test_encrypted_content_that_stays_invalid_is_an_error(node: Harness) -> None:
    def reply(_: ReceivedRequest) -> Script:
        return rejection("It could not be verified.", code="invalid_encrypted_content")

    request = responses_request(serve(node, "openai", responses_backend()))
    assert responses_turn(node.sdk, "unary", request)
    model = str(request["model"])
    node.backend.respond_with(model, reply)
    for sent, number in ((request, 3), (responses_request(model), 4)):
        received = node.post(sent)
        assert (received.status, received.error["code"]) == (400, "invalid_encrypted_content")
        # A request without encrypted reasoning is not sent again.
        assert len(node.backend.received(model)) == number
