"""Streams of a WebSocket: turns of one are served in order, those of several concurrently."""

import pytest

from tests.gateway.backend_replies import Turn, reply_script, stream_events
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.scripted_backend import Gate, stream_reply
from tests.gateway.websocket.test_websocket import output_of, says
from tests.gateway.websocket_client import (
    FINAL_EVENT_TYPES,
    Events,
    WebSocketClient,
    validate_error,
    validate_turn,
)
from tests.judges.reading import text_in


def held(harness: Harness, dialect: str, gate: Gate, *turns: Turn) -> str:
    """Have a new model say these, each only when the gate is open; give its name."""
    model = harness.new_model(dialect)
    for turn in turns:
        said = stream_events(dialect, turn)
        harness.backend.enqueue(model, stream_reply(*said[:2], gate, *said[2:]))
    return model


def hear_lanes(socket: WebSocketClient, ends: int) -> dict[str | None, list[Events]]:
    """Give the turns of each lane, until so many have ended."""
    lanes: dict[str | None, list[Events]] = {}
    while ends:
        event = socket.receive()
        lane = text_in(event, "stream_id") if "stream_id" in event else None
        turns = lanes.setdefault(lane, [])
        if not turns or turns[-1][-1]["type"] in FINAL_EVENT_TYPES:
            turns.append([])
        turns[-1].append(event)
        ends -= event["type"] in FINAL_EVENT_TYPES
    return lanes


@pytest.mark.parametrize("dialect", DIALECTS)
def test_streams_are_served_concurrently(dialect: str, harness: Harness) -> None:
    slow, quick = Gate(), Gate()
    first = held(harness, dialect, slow, Turn("First."))
    second = held(harness, dialect, quick, Turn("Second."))
    with WebSocketClient(harness.gateway) as socket:
        socket.create(model=first, input="x", stream_id="a.1", store=False)
        socket.create(model=second, input="x", stream_id="b-2", store=False)
        harness.backend.wait_for_request(first)
        harness.backend.wait_for_request(second)
        quick.open()
        heard = hear_lanes(socket, 1)
        assert validate_turn(heard["b-2"][0], "b-2").output_text == "Second."
        slow.open()
        rest = hear_lanes(socket, 1)["a.1"][0]
        before = heard.get("a.1", [[]])[0]
        assert validate_turn([*before, *rest], "a.1").output_text == "First."


def test_turns_of_one_stream_are_served_in_order(harness: Harness) -> None:
    gate = Gate()
    model = held(harness, "chat", gate, *(Turn(f"{number}.") for number in range(6)))
    with WebSocketClient(harness.gateway) as socket:
        for _ in range(3):
            socket.create(model=model, input="x", store=False)
            socket.create(model=model, input="x", store=False, stream_id="n")
        harness.backend.wait_for_request(model, 2)
        gate.open()
        lanes = hear_lanes(socket, 6)
    texts = {
        lane: [validate_turn(turn, lane).output_text for turn in lanes[lane]] for lane in lanes
    }
    assert {lane: len(texts[lane]) for lane in texts} == {None: 3, "n": 3}
    assert sorted(text for lane in texts for text in texts[lane]) == [f"{n}." for n in range(6)]


def test_unnamed_stream_serves_one_turn_at_a_time(harness: Harness) -> None:
    gates = [Gate(), Gate()]
    models = [held(harness, "chat", gate, Turn("Done.")) for gate in gates]
    with WebSocketClient(harness.gateway) as socket:
        for model in models:
            socket.create(model=model, input="x", store=False)
        harness.backend.wait_for_request(models[0])
        # Both messages are read before the answer to a third is here.
        socket.send({"type": "response.steer", "previous_response_id": "resp_1", "input": "x"})
        while socket.receive()["type"] != "response.steer.failed":
            pass
        assert harness.backend.received(models[1]) == []
        gates[0].open()
        harness.backend.wait_for_request(models[1])
        gates[1].open()


def test_stream_continues_a_response_of_another_stream(harness: Harness) -> None:
    model = says(harness, "chat", Turn("One."), Turn("Two."), Turn("Three."))
    with WebSocketClient(harness.gateway) as socket:
        shared = {"model": model, "store": False}
        first = validate_turn(socket.create_turn(**shared, input="one", stream_id="a"), "a")
        forked = {**shared, "previous_response_id": first.id}
        # What fails in another lane does not concern the one where it began.
        (event,) = socket.create_turn(**forked, input=output_of("call_none"), stream_id="b")
        assert validate_error(event, "b")["param"] == "input"
        second = validate_turn(socket.create_turn(**forked, input="two", stream_id="b"), "b")
        third = validate_turn(socket.create_turn(**forked, input="three", stream_id="a"), "a")
        assert (second.output_text, third.output_text) == ("Two.", "Three.")
        (event,) = socket.create_turn(**forked, input=output_of("call_none"), stream_id="a")
        assert validate_error(event, "a")["param"] == "input"
        (event,) = socket.create_turn(**forked, input="two", stream_id="b")
        assert validate_error(event, "b")["code"] == "previous_response_not_found"


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 257, "a/b", 7, ["a"]])
def test_invalid_stream_id_is_refused(name: object, harness: Harness) -> None:
    model = says(harness, "chat", Turn("Hi."))
    with WebSocketClient(harness.gateway) as socket:
        error = socket.create_error(model=model, input="x", stream_id=name)
        assert (error["code"], error["param"]) == ("invalid_stream_id", "stream_id")
        longest = "aZ09_.-" + "x" * 249
        response = validate_turn(
            socket.create_turn(model=model, input="x", stream_id=longest), longest
        )
        assert response.output_text == "Hi."


def test_number_of_streams_is_limited(harness: Harness) -> None:
    gate, model = Gate(), harness.new_model("chat")
    harness.backend.respond_with(
        model, lambda it: (gate, *reply_script("chat", Turn("Hi."), it.json()))
    )
    with WebSocketClient(harness.gateway) as socket:
        for number in range(16):
            socket.create(model=model, input="x", store=False, stream_id=f"lane-{number}")
        harness.backend.wait_for_request(model, 16)
        (event,) = socket.create_turn(model=model, input="x", store=False, stream_id="lane-16")
        error = validate_error(event, "lane-16")
        assert (error["code"], error["status"]) == ("websocket_stream_limit_reached", 400)
        gate.open()
        assert len(hear_lanes(socket, 16)) == 16
        for number in range(16, 32):
            lane = f"lane-{number}"
            validate_turn(
                socket.create_turn(model=model, input="x", store=False, stream_id=lane), lane
            )
        (event,) = socket.create_turn(model=model, input="x", store=False, stream_id="lane-32")
        assert validate_error(event, "lane-32")["code"] == "websocket_stream_limit_reached"
        # The lanes that are there go on, and so does the one without a name.
        validate_turn(
            socket.create_turn(model=model, input="x", store=False, stream_id="lane-0"), "lane-0"
        )
        validate_turn(socket.create_turn(model=model, input="x", store=False))


def test_number_of_waiting_messages_is_limited(harness: Harness) -> None:
    gate, model = Gate(), harness.new_model("chat")
    harness.backend.respond_with(
        model, lambda it: (gate, *reply_script("chat", Turn("Hi."), it.json()))
    )
    with WebSocketClient(harness.gateway) as socket:
        socket.create(model=model, input="x", store=False)
        harness.backend.wait_for_request(model)
        for _ in range(32):
            socket.create(model=model, input="x", store=False)
        error = socket.create_error(model=model, input="x", store=False)
        assert (error["code"], error["status"]) == ("websocket_queue_limit_reached", 429)
        gate.open()
        assert len(hear_lanes(socket, 33)[None]) == 33
