"""Transforms of backends: every pair of dialects, several choices, stored replies and faults."""

from collections.abc import Iterator

import pytest

from gateway.pytest_plugin.scripted_backend import ScriptedBackend, json_reply, stream_reply
from tests.gateway import raw_http
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import (
    DIALECTS,
    EVERY_PAIR,
    STREAMED_OR_NOT,
    backend_table,
    capability_table,
)
from tests.gateway.gateway_process import run_gateway
from tests.gateway.sdk_clients import WEATHER_TOOL, create_completion, make_client, sdk_client
from tests.gateway.waiting import wait_until
from tests.gateway.websocket_client import WebSocketClient
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject, object_in, objects_in, read_object, text_in

OWN = "tests.gateway.sample_transforms"
RENAME = '{ use = "adapters.transforms:RenameTools", options.names = { get_weather = "sky" } }'
NOTE = f'{{ use = "{OWN}:AddNote", options = {{ text = "Noted." }} }}'
REPLACE = f'{{ use = "{OWN}:ReplaceText", options = {{ old = "o", new = "0" }} }}'
LATER = f'{{ use = "{OWN}:ReplaceText", options = {{ old = "0", new = "u" }} }}'
KINDS = {
    "renamed": f"transforms = [{RENAME}]\n",
    "noted": f"transforms = [{NOTE}]\n",
    # Replies pass the last transform first.
    "replaced": f"transforms = [{LATER}, {REPLACE}]\n",
    "single": f"transforms = [{NOTE}, {REPLACE}]\n"
    + capability_table('unsupported_fields = ["n"]'),
    **{
        at: f'transforms = [{{ use = "{OWN}:Fail", options = {{ at = "{at}" }} }}]\n'
        for at in ("request", "rejected", "start", "delta", "order")
    },
    "compacting": f"transforms = [{NOTE}]\n" + capability_table("compaction = true"),
}


@pytest.fixture(scope="module")
def node(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway with a backend of each dialect for each list of transforms."""
    tables = (
        backend_table(backend.address, f"{kind}-{dialect}", dialect, settings)
        for kind, settings in KINDS.items()
        for dialect in DIALECTS
    )
    folder = tmp_path_factory.mktemp("transforms")
    with run_gateway("".join(tables), folder) as gateway, sdk_client(gateway) as sdk:
        yield Harness(gateway, backend, sdk)
    # Every traceback is that of a fault.
    assert gateway.log.count("Traceback") == gateway.log.count('"event":"transform failed"')
    assert "never retrieved" not in gateway.log


# Requests and replies


@EVERY_PAIR
@STREAMED_OR_NOT
def test_client_calls_a_tool_by_its_own_name(
    client: str, dialect: str, *, streamed: bool, node: Harness
) -> None:
    city = '{"city":  "Oslo"}'
    model = node.script(f"renamed-{dialect}", Turn(calls=(Call("sky", city),)), "Sunny.")
    conversation = make_client(client, node.sdk, model, "raw" if streamed else "unary")
    assert conversation.send_question().turn.calls == (Call("get_weather", city),)
    assert conversation.send_results(["sunny"]).turn == Turn("Sunny.")
    for index in (0, 1):
        assert "get_weather" not in node.sent(model, index).replace("Ask get_weather.", "")
        assert '"sky"' in node.sent(model, index)


@EVERY_PAIR
@STREAMED_OR_NOT
def test_requests_and_replies_are_changed(
    client: str, dialect: str, *, streamed: bool, node: Harness
) -> None:
    mode = "raw" if streamed else "unary"
    model = node.script(f"noted-{dialect}", "Oslo")
    assert node.ask(client, model, mode) == Turn("Oslo")
    node.assert_sent_in_order(model, "Zürich", "Noted.")
    assert node.ask(client, node.script(f"replaced-{dialect}", "Oslo, no"), mode) == Turn(
        "Oslu, nu"
    )


def test_losses_of_transforms_are_in_the_header(node: Harness) -> None:
    model = node.script("noted-chat", "Oslo")
    losses = node.request("responses", model).headers["dragoman-loss"]
    assert "AddNote: a note was added" in losses


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stream_is_forwarded_if_only_the_request_is_changed(dialect: str, node: Harness) -> None:
    events = stream_events(dialect, Turn("Oslo"))
    model = node.enqueue(f"noted-{dialect}", stream_reply(*events))
    reply = node.request(dialect, model, streamed=True, store=False)
    assert reply.body == b"".join(events)
    assert "Noted." in node.sent(model)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_request_is_forwarded_if_only_the_reply_is_changed(dialect: str, node: Harness) -> None:
    model = node.enqueue(f"replaced-{dialect}", json_reply(reply_body(dialect, Turn("Oslo"))))
    reply = node.request(dialect, model, unknown={"a": [1]})
    assert b"Oslu" in reply.body
    assert node.sent_json(model)["unknown"] == {"a": [1]}


@pytest.mark.parametrize("dialect", ["chat", "responses"])
@STREAMED_OR_NOT
def test_each_of_several_choices_is_changed(dialect: str, *, streamed: bool, node: Harness) -> None:
    model = node.script(f"single-{dialect}", "Oslo", "Rome")
    messages = [{"role": "user", "content": "hi"}]
    request: JsonObject = {"model": model, "messages": messages, "n": 2}
    completion = create_completion(node.sdk, "helper" if streamed else "unary", request)
    texts = sorted(str(choice.message.content) for choice in completion.choices)
    assert texts == ["Osl0", "R0me"]
    for received in node.backend.received(model):
        assert b"Noted." in received.body


# Stored state


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stored_response_is_that_of_the_client(dialect: str, node: Harness) -> None:
    model = node.script(f"renamed-{dialect}", Turn(calls=(Call("sky", "{}"),)), "Sunny.")
    tool = {**WEATHER_TOOL, "name": "get_weather"}
    first = node.respond(model=model, input="hi", tools=[tool])
    stored = node.sdk.responses.retrieve(first.id)
    [call] = stored.output
    assert call.type == "function_call"
    assert call.name == "get_weather"
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    second = node.respond(model=model, input=[result], tools=[tool], previous_response_id=first.id)
    assert second.output_text == "Sunny."
    assert "get_weather" not in node.sent(model)
    assert node.sent(model).count('"sky"') >= 2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_background_response_is_changed(dialect: str, node: Harness) -> None:
    model = node.script(f"replaced-{dialect}", "Oslo")
    queued = node.sdk.responses.create(model=model, input="hi", background=True)
    wait_until(lambda: node.sdk.responses.retrieve(queued.id).status == "completed")
    assert node.sdk.responses.retrieve(queued.id).output_text == "Oslu"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_response_is_changed(dialect: str, node: Harness) -> None:
    model = node.script(f"replaced-{dialect}", "Oslo")
    with WebSocketClient(node.gateway) as socket:
        assert socket.create_response(model=model, input="hi", store=False).output_text == "Oslu"


def test_tokens_of_the_changed_request_are_counted(node: Harness) -> None:
    body = {"input": "hi"}
    counts = [
        node.post({**body, "model": f"{kind}-chat-0"}, "/v1/responses/input_tokens").json()
        for kind in ("replaced", "noted")
    ]
    plain, noted = (int(str(count["input_tokens"])) for count in counts)
    assert noted > plain


def test_items_to_compact_are_changed(node: Harness) -> None:
    model = node.script("compacting-responses", "A summary.")
    node.post({"model": model, "input": "hi"}, "/v1/responses/compact")
    [received] = node.backend.received(model)
    assert received.target.endswith("/responses")
    assert b"Noted." in received.body


# Faults


@EVERY_PAIR
@STREAMED_OR_NOT
def test_fault_in_a_request_is_an_error_in_the_dialect_of_the_client(
    client: str, dialect: str, *, streamed: bool, node: Harness
) -> None:
    model = node.new_model(f"request-{dialect}")
    error = node.error(client, model, "raw" if streamed else "unary")
    assert (error.status_code, error.code) == (500, "transform_failed")
    assert error.body == {
        "message": "the transform Fail failed: raised KeyError",
        "type": "server_error",
        "param": None,
        "code": "transform_failed",
    }
    assert "a fault in a request" in node.gateway.log
    assert "sample_transforms.py" in node.gateway.log
    assert node.backend.received(model) == []


def test_transform_can_reject_a_request(node: Harness) -> None:
    error = node.error("chat", node.new_model("rejected-responses"))
    assert (error.status_code, error.param) == (400, "model")
    assert "model is not for you" in error.message


@EVERY_PAIR
@pytest.mark.parametrize("at", ["start", "order"])
def test_fault_in_a_whole_reply_is_an_error(
    client: str, dialect: str, at: str, node: Harness
) -> None:
    error = node.error(client, node.script(f"{at}-{dialect}", "Oslo"), "unary")
    assert (error.status_code, error.code) == (500, "transform_failed")


@EVERY_PAIR
def test_fault_in_a_stream_ends_it_with_an_error(client: str, dialect: str, node: Harness) -> None:
    model = node.script(f"delta-{dialect}", "Oslo is the capital of Norway.")
    reply = node.request(client, model, streamed=True)
    assert b"the transform Fail failed: " in reply.body
    if reply.status == 500:
        # Nothing was sent before the fault.
        judge.judge_error(reply.body)
    elif client == "responses":
        judge.judge_responses_stream(reply.body)
        assert b"event: response.failed\n" in reply.body
    else:
        judge.judge_chat_stream(reply.body)
        assert reply.body.endswith(b"data: [DONE]\n\n")


def test_fault_in_a_background_response_fails_it(node: Harness) -> None:
    queued = node.sdk.responses.create(
        model=node.script("delta-chat", "Oslo is the capital."), input="hi", background=True
    )
    wait_until(lambda: node.sdk.responses.retrieve(queued.id).status == "failed")
    error = node.sdk.responses.retrieve(queued.id).error
    assert error is not None
    assert error.message == "the transform Fail failed: raised KeyError"


def test_fault_in_a_websocket_turn_is_an_error_event(node: Harness) -> None:
    with WebSocketClient(node.gateway) as socket:
        model = node.new_model("request-chat")
        error = socket.create_error(model=model, input="hi", store=False)
        assert (error["code"], error["status"]) == ("transform_failed", 500)
        # The connection is still usable.
        model = node.script("replaced-chat", "Oslo")
        assert socket.create_response(model=model, input="hi", store=False).output_text == "Oslu"


def test_fault_is_logged_with_its_traceback(node: Harness) -> None:
    node.request("chat", node.script("start-chat", "Oslo"))

    def faults() -> list[str]:
        lines = (line for line in node.gateway.lines if "transform failed" in line)
        return [line for line in lines if "a fault in a reply" in line]

    wait_until(lambda: bool(faults()))
    entry = read_object(faults()[0])
    assert entry["error"] == "the transform Fail failed: raised KeyError"
    assert "sample_transforms.py" in text_in(entry, "exception")


# Dry runs


def dry_run(node: Harness, backend: str, **given: object) -> raw_http.RawResponse:
    """Translate between Chat and Chat with the transforms of a backend."""
    fields = {"from": "chat", "to": "chat", "transforms_of": backend}
    return node.post({**fields, **given}, "/v1/translate")


def test_dry_run_applies_the_transforms_of_a_backend(node: Harness) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    result = dry_run(node, "noted-chat", body=body).json()
    assert objects_in(object_in(result, "body"), "messages")[-1]["content"] == "Noted."
    assert objects_in(result, "losses")[0]["why"] == "AddNote: a note was added"
    stream = b"".join(stream_events("chat", Turn("Oslo"))).decode()
    assert b"Oslu" in dry_run(node, "replaced-chat", stream=stream).body


def test_dry_run_with_an_unknown_backend_is_rejected(node: Harness) -> None:
    reply = dry_run(node, "nobody", body={})
    assert reply.status == 400
    assert text_in(reply.error, "message").startswith("transforms_of must be one of renamed-chat, ")


def test_fault_in_a_dry_run_is_an_error(node: Harness) -> None:
    reply = dry_run(node, "request-chat", body={"model": "m", "messages": []})
    assert (reply.status, reply.error["code"]) == (500, "transform_failed")
