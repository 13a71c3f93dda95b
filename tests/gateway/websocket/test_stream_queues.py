"""Streams of a WebSocket: turns of one are served in order, those of several concurrently."""

import pytest

from gateway.pytest_plugin.scripted_backend import Gate, stream_reply
from tests.gateway.backend_replies import Turn, reply_script, stream_events
from tests.gateway.conftest import Harness
from tests.gateway.websocket_client import (
    FINAL_EVENT_TYPES,
    Events,
    WebSocketClient,
    tool_output,
    validate_error,
    validate_turn,
)
from tests.judges.reading import text_in


def script_waiting(harness: Harness, dialect: str, gate: Gate, *turns: Turn) -> str:
    """Return a new model whose replies all wait for the gate after their beginning."""
    replies = [stream_events(dialect, turn) for turn in turns]
    scripts = [stream_reply(*events[:2], gate, *events[2:]) for events in replies]
    return harness.enqueue(dialect, *scripts)


def script_behind_gate(harness: Harness) -> tuple[str, Gate]:
    """Return a new model that replies to every request after the gate is open."""
    gate, model = Gate(), harness.new_model("chat")
    harness.backend.respond_with(
        model, lambda it: (gate, *reply_script("chat", Turn("Hi."), it.json()))
    )
    return model, gate


def receive_streams(socket: WebSocketClient, ends: int) -> dict[str | None, list[Events]]:
    """Return the turns of each stream, until so many have ended."""
    streams: dict[str | None, list[Events]] = {}
    while ends:
        event = socket.receive()
        stream_id = text_in(event, "stream_id") if "stream_id" in event else None
        turns = streams.setdefault(stream_id, [])
        if not turns or turns[-1][-1]["type"] in FINAL_EVENT_TYPES:
            turns.append([])
        turns[-1].append(event)
        ends -= event["type"] in FINAL_EVENT_TYPES
    return streams


def test_streams_are_served_concurrently(
    dialect: str, harness: Harness, socket: WebSocketClient
) -> None:
    slow, quick = Gate(), Gate()
    first = script_waiting(harness, dialect, slow, Turn("First."))
    second = script_waiting(harness, dialect, quick, Turn("Second."))
    socket.create(model=first, input="x", stream_id="a.1", store=False)
    socket.create(model=second, input="x", stream_id="b-2", store=False)
    harness.backend.wait_for_request(first)
    harness.backend.wait_for_request(second)
    quick.open()
    received = receive_streams(socket, 1)
    assert validate_turn(received["b-2"][0], "b-2").output_text == "Second."
    slow.open()
    rest = receive_streams(socket, 1)["a.1"][0]
    before = received.get("a.1", [[]])[0]
    assert validate_turn([*before, *rest], "a.1").output_text == "First."


def test_turns_of_one_stream_are_served_in_order(harness: Harness, socket: WebSocketClient) -> None:
    gate = Gate()
    model = script_waiting(harness, "chat", gate, *(Turn(f"{number}.") for number in range(6)))
    for _ in range(3):
        socket.create(model=model, input="x", store=False)
        socket.create(model=model, input="x", store=False, stream_id="n")
    harness.backend.wait_for_request(model, 2)
    gate.open()
    streams = receive_streams(socket, 6)
    texts = {it: [validate_turn(turn, it).output_text for turn in streams[it]] for it in streams}
    assert {it: len(texts[it]) for it in texts} == {None: 3, "n": 3}
    assert sorted(text for it in texts for text in texts[it]) == [f"{n}." for n in range(6)]


def test_unnamed_stream_serves_one_turn_at_a_time(
    harness: Harness, socket: WebSocketClient
) -> None:
    gates = [Gate(), Gate()]
    models = [script_waiting(harness, "chat", gate, Turn("Done.")) for gate in gates]
    for model in models:
        socket.create(model=model, input="x", store=False)
    harness.backend.wait_for_request(models[0])
    # Both messages are read before the reply to a third arrives.
    socket.send({"type": "response.steer", "previous_response_id": "resp_1", "input": "x"})
    socket.receive_until("response.steer.failed")
    assert harness.backend.received(models[1]) == []
    gates[0].open()
    harness.backend.wait_for_request(models[1])
    gates[1].open()


def test_stream_continues_a_response_of_another_stream(
    harness: Harness, socket: WebSocketClient
) -> None:
    shared = {"model": harness.script("chat", "One.", "Two.", "Three."), "store": False}
    first = socket.create_response("a", **shared, input="one")
    forked = {**shared, "previous_response_id": first.id}
    without_call = {**forked, "input": tool_output("call_none")}
    # A failure in another stream does not concern the one where the response was created.
    assert socket.create_error("b", **without_call)["param"] == "input"
    assert socket.create_response("b", **forked, input="two").output_text == "Two."
    assert socket.create_response("a", **forked, input="three").output_text == "Three."
    assert socket.create_error("a", **without_call)["param"] == "input"
    error = socket.create_error("b", **forked, input="two")
    assert error["code"] == "previous_response_not_found"


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 257, "a/b", 7, ["a"]])
def test_invalid_stream_id_is_refused(
    name: object, harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script("chat", "Hi.")
    (event,) = socket.create_turn(model=model, input="x", stream_id=name)
    error = validate_error(event)
    assert (error["code"], error["param"]) == ("invalid_stream_id", "stream_id")
    longest = "aZ09_.-" + "x" * 249
    assert socket.create_response(longest, model=model, input="x").output_text == "Hi."


def test_number_of_streams_is_limited(harness: Harness, socket: WebSocketClient) -> None:
    model, gate = script_behind_gate(harness)
    fields = {"model": model, "input": "x", "store": False}
    for number in range(16):
        socket.create(**fields, stream_id=f"stream-{number}")
    harness.backend.wait_for_request(model, 16)
    error = socket.create_error("stream-16", **fields)
    assert (error["code"], error["status"]) == ("websocket_stream_limit_reached", 400)
    gate.open()
    assert len(receive_streams(socket, 16)) == 16
    for number in range(16, 32):
        socket.create_response(f"stream-{number}", **fields)
    assert socket.create_error("stream-32", **fields)["code"] == "websocket_stream_limit_reached"
    # The existing streams can still be used, and so can the one without a name.
    socket.create_response("stream-0", **fields)
    socket.create_response(**fields)


def test_number_of_waiting_messages_is_limited(harness: Harness, socket: WebSocketClient) -> None:
    model, gate = script_behind_gate(harness)
    fields = {"model": model, "input": "x", "store": False}
    socket.create(**fields)
    harness.backend.wait_for_request(model)
    for _ in range(32):
        socket.create(**fields)
    error = socket.create_error(**fields)
    assert (error["code"], error["status"]) == ("websocket_queue_limit_reached", 429)
    gate.open()
    assert len(receive_streams(socket, 33)[None]) == 33
