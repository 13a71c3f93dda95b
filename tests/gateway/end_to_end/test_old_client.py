"""The recorded conversation of a client of version 0.28 works with backends of every dialect."""

import json

import pytest

from tests.gateway import old_sdk_client
from tests.gateway.backend_replies import Call, Turn, finish_reason
from tests.gateway.backend_requests import parse_request
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.sdk_clients import chat_reply, stream_with_old_sdk
from tests.judges.reading import JsonObject, object_in, objects_in

PROPERTIES: JsonObject = {
    "city": {"type": "string", "description": "City, any script (東京)"},
    "unit": {"type": "string", "enum": ["c", "f"]},
    "note": {"type": "string"},
}
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": [*PROPERTIES]}
FUNCTION: JsonObject = {
    "name": "get_weather",
    "description": "Weather of a city ☃",
    "parameters": {**PARAMETERS, "additionalProperties": False},
}
OPENING: list[JsonObject] = [
    {"role": "system", "content": "You are a test ☃ assistant."},
    {"role": "user", "content": "What is the weather in Zürich ☃ and São Paulo? 東京"},
]
ZURICH = Call(
    "get_weather",
    '{"city": "Zürich \\u2603 東京", "unit":"c",  "note": "tab\\t nl\\n quote\\" back\\\\ slash/'
    ' parrot 🦜"}',
)
SAO_PAULO = Call("get_weather", '{"city":"São Paulo — 🌧","unit":"f","note":""}')
RESULTS = ("Zürich ☃ 東京|21°c|37|“ok” \\ ☀\nline2", "São Paulo — 🌧|21°f|0|“ok” \\ ☀\nline2")
TURNS = (
    Turn("Checking the weather… ⛅", (ZURICH,)),
    Turn(None, (SAO_PAULO,)),
    Turn(f"FINAL[{RESULTS[0]}|{RESULTS[1]}] ✅ done"),
)
# The length of each request, for a model of this name.
LENGTHS = (601, 1006, 1321)
MODEL = "fake-model"


def test_requests_equal_the_recording() -> None:
    messages = [*OPENING]
    lengths: list[int] = []
    for turn, result in zip(TURNS, (*RESULTS, ""), strict=True):
        lengths.append(len(json.dumps(request_body(MODEL, messages))))
        messages += history_after(turn, result)
    assert tuple(lengths) == LENGTHS


def request_body(model: str, messages: list[JsonObject]) -> JsonObject:
    body: JsonObject = {"stream": True, "model": model, "messages": messages}
    return {**body, "functions": [FUNCTION], "temperature": 0}


def history_after(turn: Turn, result: str) -> list[JsonObject]:
    """Return what the client adds to the history after a turn."""
    messages: list[JsonObject] = []
    for call in turn.calls:
        function_call = {"name": call.name, "arguments": call.arguments}
        messages.append({"role": "assistant", "content": turn.text, "function_call": function_call})
        messages.append({"role": "function", "name": call.name, "content": result})
    return messages


@pytest.mark.parametrize("dialect", DIALECTS)
def test_recorded_conversation(dialect: str, harness: Harness) -> None:
    model = harness.script(dialect, *TURNS)
    messages = [*OPENING]
    for turn, result in zip(TURNS, (*RESULTS, ""), strict=True):
        request = request_body(model, messages)
        reply = chat_reply(stream_with_old_sdk(harness.gateway.port, request))
        assert (reply.turn, reply.finish) == (turn, finish_reason("legacy", turn))
        messages += history_after(turn, result)
    last = parse_request(dialect, harness.backend.wait_for_request(model, 3))
    assert last.results == tuple(zip((ZURICH, SAO_PAULO), RESULTS, strict=True))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_reply_that_is_not_streamed(dialect: str, harness: Harness) -> None:
    body = request_body(harness.script(dialect, TURNS[0]), OPENING)
    completion = old_sdk_client.create(harness.gateway.port, {**body, "stream": False})
    choice = objects_in(completion, "choices")[0]
    message = object_in(choice, "message")
    assert message["content"] == TURNS[0].text
    assert message["function_call"] == {"name": ZURICH.name, "arguments": ZURICH.arguments}
    assert choice["finish_reason"] == "function_call"
    assert object_in(completion, "usage")["total_tokens"] == 12
