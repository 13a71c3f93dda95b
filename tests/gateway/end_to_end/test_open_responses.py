"""The rules of Open Responses (release 2026-04-24), tested over HTTP.

The requests are modeled on its compliance suite and run with a backend of each dialect. Rules that
the suite does not test follow.
"""

import base64
import re

import pytest

from gateway.pytest_plugin.scripted_backend import Pause, truncated_reply
from tests.gateway import raw_http
from tests.gateway.backend_replies import Call, Turn, error_events, stream_events
from tests.gateway.background.requests import events_of
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT
from tests.gateway.sdk_clients import PARAMETERS
from tests.judges.open_responses import assert_compaction, assert_response, assert_stream
from tests.judges.reading import JsonObject, object_in, objects_in, text_in

MODELS = ("demo", "demo-responses", "demo-legacy")
# An image of one pixel.
PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d49444154789c6360000000000500010d0a2db40000000049454e44ae426082"
    )
).decode()
IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
WEATHER: JsonObject = {
    "type": "function",
    "name": "get_weather",
    "description": "Tell the weather in a city.",
    "parameters": PARAMETERS,
}


def user(content: object) -> JsonObject:
    return {"type": "message", "role": "user", "content": content}


def assistant(content: object, **more: object) -> JsonObject:
    return user(content) | {"role": "assistant", **more}


# The requests of the compliance suite by their names in it.
REQUESTS: dict[str, JsonObject] = {
    "basic-response": {"input": [user("Say hello in exactly three words.")]},
    "assistant-phase": {
        "input": [
            assistant("Let me look.", phase="commentary"),
            assistant("It is blue.", phase="final_answer"),
            user("And at night?"),
        ]
    },
    "system-prompt": {"input": [{**user("Talk like a pirate."), "role": "system"}, user("Hello!")]},
    "image-input": {"input": [user([{"type": "input_text", "text": "What is this?"}, IMAGE])]},
    "multi-turn": {
        "input": [user("My name is Alice."), assistant("Hello, Alice."), user("Who am I?")]
    },
    "tool-calling": {"input": [user("What is the weather in Oslo?")], "tools": [WEATHER]},
}


def create(harness: Harness, **body: object) -> JsonObject:
    """Create a response and validate it."""
    received = harness.post(body)
    assert received.status == 200, received.body
    assert_response(received.json())
    return received.json()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", REQUESTS)
def test_whole(name: str, model: str, demo: Harness) -> None:
    response = create(demo, model=model, **REQUESTS[name])
    assert response["status"] == "completed"
    assert ("function_call" if name == "tool-calling" else "message") in item_types(response)
    for item in objects_in(response, "output"):
        for field in item.keys() & {"name", "call_id"}:
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", text_in(item, field))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", REQUESTS)
def test_streamed(name: str, model: str, demo: Harness) -> None:
    received = demo.post({"model": model, "stream": True, **REQUESTS[name]})
    assert received.status == 200
    assert_stream(received.body)
    last = last_response(received)
    assert last["status"] == "completed"
    assert objects_in(last, "output")
    if name == "tool-calling":
        kinds = {event["type"] for event in events_of(received.body)}
        assert {f"response.function_call_arguments.{end}" for end in ("delta", "done")} <= kinds


@pytest.mark.parametrize("model", MODELS)
def test_compact_response(model: str, demo: Harness) -> None:
    items = [user("My name is Alice."), assistant("Hello, Alice.")]
    body = {"model": model, "prompt_cache_key": "short", "input": items}
    received = demo.post(body, "/v1/responses/compact")
    assert received.status == 200, received.body
    assert_compaction(received.json())
    assert received.json()["object"] == "response.compaction"
    assert item_types(received.json()) == ["message", "compaction"]


def last_response(received: raw_http.RawResponse) -> JsonObject:
    """Return the response in the last event of a stream."""
    return object_in(events_of(received.body)[-1], "response")


def item_types(response: JsonObject) -> list[object]:
    return [item["type"] for item in objects_in(response, "output")]


# Rules that the compliance suite does not test


# A Responses backend applies allowed_tools itself, and its replies pass unchanged.
@pytest.mark.parametrize("dialect", ["chat", "legacy"])
@STREAMED_OR_NOT
def test_calls_of_tools_that_are_not_allowed_are_removed(
    dialect: str, *, streamed: bool, harness: Harness
) -> None:
    turn = Turn("I would rather not.", (Call("forbidden", "{}"),))
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [named("get_weather")]}
    tools = [WEATHER, {**WEATHER, "name": "forbidden"}]
    body = {"model": harness.script(dialect, turn), "input": "hi", "stream": streamed}
    received = harness.post({**body, "tools": tools, "tool_choice": allowed})
    assert received.status == 200
    response = last_response(received) if streamed else received.json()
    assert item_types(response) == ["message"]


def named(name: str) -> JsonObject:
    return {"type": "function", "name": name}


def test_long_input_is_not_truncated(harness: Harness) -> None:
    model = harness.script("chat", "Fine.")
    messages = [user(f"remember the number {number}") for number in range(500)]
    response = create(harness, model=model, input=messages)
    assert response["truncation"] == "disabled"
    harness.assert_sent(model, *(f"remember the number {number}" for number in range(500)))


@pytest.mark.parametrize("error", ["", "out of memory"], ids=["truncated", "error"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_failed_response_ends_with_its_only_incomplete_item(
    dialect: str, error: str, harness: Harness
) -> None:
    events = stream_events(dialect, Turn("Once upon a time"))[:4]
    # Each event arrives in a read of its own.
    frames = error_events(dialect, error) if error else []
    errors = [step for frame in frames for step in (frame, Pause(0.02))]
    model = harness.enqueue(dialect, truncated_reply(*events, *errors))
    received = harness.request("responses", model, streamed=True)
    kinds = [event["type"] for event in events_of(received.body)]
    assert kinds[-2:] == ["error", "response.failed"]
    response = last_response(received)
    assert response["status"] == "failed"
    statuses = [item.get("status") for item in objects_in(response, "output")]
    assert "incomplete" not in statuses[:-1]
