"""Streams are sent at once and in whole events, with heartbeats and with the right status."""

import asyncio
import gzip
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import adapters
from gateway.pytest_plugin.scripted_backend import Gate, Pause, json_reply, stream_reply
from tests.gateway import raw_http
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECT_PAIRS, DIALECTS, EVERY_PAIR
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges import sdk as judge

Replies = dict[tuple[str, str], raw_http.RawResponse]
TURN = Turn("Grüezi ☃ mitenand.")


def validate_stream(client: str, body: bytes) -> None:
    """Validate a whole stream by the rules of a dialect."""
    without_comments = re.sub(rb"(?m)^:.*\n\n", b"", body)
    if client == "responses":
        judge.judge_responses_stream(without_comments)
    else:
        judge.judge_chat_stream(without_comments)
    assert adapters.check(client, body) == []


@EVERY_PAIR
def test_events_are_sent_when_they_arrive(client: str, dialect: str, harness: Harness) -> None:
    gate, events = Gate(), stream_events(dialect, TURN)
    # The rest does not arrive before the client has read the first words.
    place = 1 + next(number for number, frame in enumerate(events) if b"Gr" in frame)
    model = harness.enqueue(dialect, stream_reply(*events[:place], gate, *events[place:]))
    with harness.stream(client, model) as response:
        start = response.read_until(b"Gr")
        assert start.endswith(b"\n\n"), "an event is split"
        gate.open()
        validate_stream(client, start + response.read_all())
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-accel-buffering"] == "no"
    assert "no-transform" in response.headers["cache-control"]
    assert not {"connection", "content-length"} & response.headers.keys()


@EVERY_PAIR
def test_events_of_one_read_are_one_write(client: str, dialect: str, harness: Harness) -> None:
    events = stream_events(dialect, Turn("word " * 100))
    # All at once, split within an event.
    data = b"".join(events)
    half = data.index(b"word") + 2
    model = harness.enqueue(dialect, stream_reply(data[:half], Pause(0.05), data[half:]))
    port, body = harness.gateway.port, request_body(client, model, streamed=True)
    pieces = asyncio.run(raw_http.fetch_chunks(port, request_path(client), body))
    assert all(piece.endswith(b"\n\n") for piece in pieces), "an event is split"
    # The socket may split large writes, but the gateway must not write event by event.
    assert len(pieces) < len(events) / 2
    validate_stream(client, b"".join(pieces))


def request_all_pairs(request: Callable[[str, str], raw_http.RawResponse]) -> Replies:
    """Send a request for every pair at the same time, because each takes long."""
    with ThreadPoolExecutor(len(DIALECT_PAIRS)) as pool:
        replies = pool.map(request, *zip(*DIALECT_PAIRS, strict=True))
        return dict(zip(DIALECT_PAIRS, replies, strict=True))


def test_status_is_that_of_the_backend_even_if_it_takes_long(heartbeats: Harness) -> None:
    def request(client: str, dialect: str) -> raw_http.RawResponse:
        error = json_reply(b'{"error":{"message":"no"}}', status=429)
        # Longer than the heartbeat interval.
        model = heartbeats.enqueue(dialect, (Pause(0.5), *error))
        return heartbeats.request(client, model, streamed=True)

    assert {response.status for response in request_all_pairs(request).values()} == {429}


# Heartbeats


def count_heartbeats(client: str, body: bytes) -> int:
    """Count what a client accepts as a heartbeat."""
    if client == "responses":
        # Codex does not count comments; one such event is sent in any case.
        return body.count(b"event: response.in_progress\n") - 1
    return len(re.findall(rb"(?m)^:.*\n\n", body))


@pytest.fixture(scope="module")
def silent_streams(heartbeats: Harness) -> Replies:
    """Return streams with silence at the start, between events and within an event."""

    def request(client: str, dialect: str) -> raw_http.RawResponse:
        gates = [Gate(), Gate(), Gate()]
        events = stream_events(dialect, TURN)
        half = len(events[3]) // 2
        split = (events[3][:half], gates[1], events[3][half:])
        script = stream_reply(gates[0], *events[:3], *split, gates[2], *events[4:])
        with heartbeats.stream(client, heartbeats.enqueue(dialect, script)) as response:
            # Each silence ends when a heartbeat has arrived; the first one with any bytes.
            body = response.read_some()
            gates[0].open()
            for number, gate in enumerate(gates[1:], 2):
                while count_heartbeats(client, body) < number:
                    piece = response.read_some()
                    assert piece, body
                    body += piece
                gate.open()
            body += response.read_all()
        return raw_http.RawResponse(response.status, response.headers, body)

    return request_all_pairs(request)


@EVERY_PAIR
def test_heartbeats_are_sent_in_silence(client: str, dialect: str, silent_streams: Replies) -> None:
    response = silent_streams[client, dialect]
    assert response.status == 200
    assert count_heartbeats(client, response.body) >= 3
    body = response.body
    if client == dialect == "responses":
        # The backend numbers its events itself, so heartbeats between them have no number.
        start, first, *rest = re.split(rb"(?=event: response.in_progress\n)", body)
        body = b"".join([start, first, *(piece.partition(b"\n\n")[2] for piece in rest)])
    validate_stream(client, body)


@pytest.mark.parametrize("client", DIALECTS)
def test_sdk_reads_a_stream_with_heartbeats(client: str, heartbeats: Harness) -> None:
    events = stream_events("chat", TURN, usage=False)
    script = stream_reply(Pause(0.3), *events[:3], Pause(0.3), *events[3:])
    assert heartbeats.ask(client, heartbeats.enqueue("chat", script)) == TURN


HEARTBEAT = {"chat": b": ", "legacy": b": ", "responses": b"response.in_progress"}


@pytest.mark.parametrize("client", DIALECTS)
def test_client_that_disconnects_after_a_heartbeat(client: str, heartbeats: Harness) -> None:
    model = heartbeats.enqueue("chat", stream_reply(Gate()))
    with heartbeats.stream(client, model) as response:
        response.read_until(HEARTBEAT[client])
    request = heartbeats.backend.wait_for_request(model)
    assert request.closed.wait(TIMEOUT_SECONDS), "the request to the backend is still open"


@pytest.mark.parametrize("client", DIALECTS)
def test_timeout_after_heartbeats(client: str, heartbeats: Harness) -> None:
    model = heartbeats.enqueue("steady-chat", stream_reply(Gate()))
    response = heartbeats.request(client, model, streamed=True)
    assert response.status == 200
    assert HEARTBEAT[client] in response.body
    assert b"5 seconds" in response.body
    validate_stream(client, response.body)


def test_fast_streams_have_no_heartbeats(harness: Harness) -> None:
    model = harness.enqueue("chat", stream_reply(*stream_events("chat", TURN)))
    body = harness.request("responses", model, streamed=True).body
    validate_stream("responses", body)
    assert count_heartbeats("responses", body) == 0


# Long events


@EVERY_PAIR
def test_very_long_event(client: str, dialect: str, harness: Harness) -> None:
    # Ten times the limit of common readers, in one event and one line.
    turn = Turn(None, (Call("get_weather", '{"city":"' + "Zürich " * 100_000 + '"}'),))
    data = b"".join(_in_one_event(dialect, turn))
    pieces = (data[place : place + 50_000] for place in range(0, len(data), 50_000))
    assert harness.ask(client, harness.enqueue(dialect, stream_reply(*pieces))) == turn


def _in_one_event(dialect: str, turn: Turn) -> list[bytes]:
    if dialect == "responses":
        return stream_events(dialect, turn)
    events = stream_events(dialect, Turn(None, (Call("get_weather", "@"),)))
    arguments = raw_http.encode_body({"a": turn.calls[0].arguments})[len(b'{"a": "') : -len(b'"}')]
    return [frame.replace(b"@", arguments) for frame in events]


# Replies in another form than requested


@pytest.mark.parametrize("mode", ["raw", "unary"])
@EVERY_PAIR
def test_whole_reply_and_stream_in_place_of_each_other(
    client: str, dialect: str, mode: str, harness: Harness
) -> None:
    turn = Turn("Here.", (Call("get_time", '{"city":"Bern"}'),))
    whole, streamed = json_reply(reply_body(dialect, turn)), stream_events(dialect, turn)
    model = harness.enqueue(dialect, whole if mode == "raw" else stream_reply(*streamed))
    assert harness.ask(client, model, mode) == turn


@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_unrequested_compression(dialect: str, mode: str, harness: Harness) -> None:
    headers = {"Content-Encoding": "gzip"}
    events = gzip.compress(b"".join(stream_events(dialect, TURN)))
    streamed = stream_reply(events[:50], events[50:], headers=headers)
    whole = json_reply(gzip.compress(reply_body(dialect, TURN)), headers=headers)
    model = harness.enqueue(dialect, *[whole if mode == "unary" else streamed] * len(DIALECTS))
    for client in DIALECTS:
        assert harness.ask(client, model, mode) == TURN


@EVERY_PAIR
def test_error_with_status_200_for_a_stream(client: str, dialect: str, harness: Harness) -> None:
    error = b'{"error":{"message":"slow down","type":"x","code":"rate_limit_exceeded"}}'
    response = harness.request(client, harness.enqueue(dialect, json_reply(error)), streamed=True)
    assert response.status == 429
    assert b"slow down" in response.body


@EVERY_PAIR
def test_empty_stream_is_an_error(client: str, dialect: str, harness: Harness) -> None:
    empty_bodies = (b"", b": ping\n\n", b"data: [DONE]\n\n")
    model = harness.enqueue(dialect, *map(stream_reply, empty_bodies))
    for _ in empty_bodies:
        response = harness.request(client, model, streamed=True)
        assert response.status == 502
        judge.judge_error(response.body)
