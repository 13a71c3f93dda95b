"""The requirements of Open Responses in prose, over a WebSocket of a running gateway."""

import re
from collections.abc import Iterator

import pytest

from tests.gateway.backend_replies import (
    Call,
    Turn,
    error_events,
    reply_script,
    stream_events,
)
from tests.gateway.conftest import Harness
from tests.gateway.end_to_end.test_open_responses import MODELS, REQUESTS, WEATHER, named, user
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.scripted_backend import truncated_reply
from tests.gateway.websocket_client import Events, WebSocketClient, validate_turn
from tests.judges.reading import JsonObject, object_in, objects_in, text_in


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Run the gateway as a newcomer does."""
    with run_gateway("", tmp_path_factory.mktemp("demo")) as gateway:
        yield gateway


def response_in(events: Events) -> JsonObject:
    """Judge each event; give the response that the last one tells."""
    validate_turn(events)
    return object_in(events[-1], "response")


def hear_failure(socket: WebSocketClient) -> Events:
    """Hear an answer that fails; as over HTTP, an error comes before the response."""
    events = [socket.receive()]
    while events[-1]["type"] != "response.failed":
        events.append(socket.receive())
    return events


@pytest.mark.parametrize("model", MODELS)
def test_requests_of_the_http_suite(model: str, demo: Gateway) -> None:
    # On one socket, one after the other; each event is judged.
    with WebSocketClient(demo) as socket:
        for name, asked in REQUESTS.items():
            response = socket.create_response(model=model, **asked)
            assert response.status == "completed"
            kinds = [item.type for item in response.output]
            assert ("function_call" if name == "tool-calling" else "message") in kinds


@pytest.mark.parametrize("model", MODELS)
def test_names_and_ids_are_legal(model: str, demo: Gateway) -> None:
    with WebSocketClient(demo) as socket:
        response = response_in(socket.create_turn(model=model, **REQUESTS["tool-calling"]))
    calls = [item for item in objects_in(response, "output") if item["type"] == "function_call"]
    assert calls
    for call in calls:
        for field in ("name", "call_id"):
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", text_in(call, field))


@pytest.mark.parametrize("store", [False, True], ids=["remembered", "stored"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_turn_continues_earlier_input_and_output(
    dialect: str, *, store: bool, harness: Harness
) -> None:
    model, turns = harness.new_model(dialect), iter((Turn("the output"), Turn("the end")))
    harness.backend.respond_with(model, lambda it: reply_script(dialect, next(turns), it.json()))
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(model=model, input="the input", store=store)
        socket.create_response(
            model=model, input="the rest", store=store, previous_response_id=first.id
        )
    body = harness.backend.received(model)[-1].body.decode()
    places = [body.index(words) for words in ("the input", "the output", "the rest")]
    assert places == sorted(places)


@pytest.mark.parametrize("dialect", ["chat", "legacy"])
def test_disallowed_call_is_removed(dialect: str, harness: Harness) -> None:
    model = harness.new_model(dialect)
    turn = Turn("I would rather not.", (Call("forbidden", "{}"),))
    harness.backend.respond_with(model, lambda it: reply_script(dialect, turn, it.json()))
    tools = [WEATHER, {**WEATHER, "name": "forbidden"}]
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [named("get_weather")]}
    with WebSocketClient(harness.gateway) as socket:
        events = socket.create_turn(model=model, input="hi", tools=tools, tool_choice=allowed)
    response = response_in(events)
    assert [item["type"] for item in objects_in(response, "output")] == ["message"]


def test_long_input_is_sent_completely(harness: Harness) -> None:
    model = harness.new_model("chat")
    harness.backend.respond_with(model, lambda it: reply_script("chat", Turn("Fine."), it.json()))
    said = [user(f"remember the number {number}") for number in range(500)]
    with WebSocketClient(harness.gateway) as socket:
        response = response_in(socket.create_turn(model=model, input=said))
    assert response["truncation"] == "disabled"
    body = harness.backend.received(model)[-1].body
    assert all(b"remember the number %d" % number in body for number in range(500))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_incomplete_item_is_last_and_the_response_fails(dialect: str, harness: Harness) -> None:
    model = harness.new_model(dialect)
    harness.backend.enqueue(
        model, truncated_reply(*stream_events(dialect, Turn("Once upon a time"))[:4])
    )
    with WebSocketClient(harness.gateway) as socket:
        socket.create(model=model, input="hi")
        events = hear_failure(socket)
    assert events[-2]["type"] == "error"
    response = response_in(events)
    statuses = [item.get("status") for item in objects_in(response, "output")]
    assert "incomplete" not in statuses[:-1]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_error_is_followed_by_a_failed_response(dialect: str, harness: Harness) -> None:
    model = harness.new_model(dialect)
    begun = stream_events(dialect, Turn("Once upon a time"))[:4]
    harness.backend.enqueue(model, truncated_reply(*begun, *error_events(dialect, "out of memory")))
    with WebSocketClient(harness.gateway) as socket:
        socket.create(model=model, input="hi")
        events = hear_failure(socket)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]


def test_empty_summary_is_a_failed_continuation(harness: Harness) -> None:
    # Its backend finished well, and gave nothing: the turn has failed all the same.
    model, turns = harness.new_model("chat"), iter((Turn("One."), Turn("")))
    harness.backend.respond_with(model, lambda it: reply_script("chat", next(turns), it.json()))
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(model=model, input="one", store=False)
        continued = {"model": model, "store": False, "previous_response_id": first.id}
        socket.create(**continued, input=[{"type": "compaction_trigger"}])
        assert response_in(hear_failure(socket))["status"] == "failed"
        error = socket.create_error(**continued, input="again")
    assert error["code"] == "previous_response_not_found"
