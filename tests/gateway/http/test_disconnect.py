"""A client that disconnects ends the backend's work, at every stage."""

import socket
import struct
from itertools import product

import pytest

from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body, stream_events
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.scripted_backend import (
    JSON,
    Gate,
    Script,
    Step,
    chunk,
    json_reply,
    reply_head,
    stream_head,
    stream_reply,
)
from tests.gateway.waiting import TIMEOUT_SECONDS

TURN = Turn("One two three four five six.")


def stages(dialect: str) -> dict[str, tuple[bool, Script]]:
    """Return what a backend does until it waits, and whether the client wants a stream."""
    events: list[Step] = [chunk(event) for event in stream_events(dialect, TURN)[:5]]
    long = {**JSON, "Content-Length": "999"}
    half = reply_body(dialect, TURN)[:40]
    return {
        "before the first byte, whole": (False, (Gate(),)),
        "before the first byte, streamed": (True, (Gate(),)),
        "after the head": (True, (stream_head(), Gate())),
        "in a stream": (True, (stream_head(), *events, Gate())),
        "in a whole reply": (False, (reply_head(200, long) + half, Gate())),
        "in a stream that becomes a whole reply": (False, (stream_head(), *events, Gate())),
        "in an error": (True, (reply_head(500, long) + b"{", Gate())),
    }


def open_request(
    harness: Harness, client: str, model: str, *, streamed: bool, missing: int = 0
) -> socket.socket:
    """Send a request, without its last bytes, and return its connection."""
    body = request_body(client, model, streamed=streamed)
    request = raw_http.request_bytes(request_path(client), body)
    connection = raw_http.connect(harness.gateway.port)
    connection.sendall(request[: len(request) - missing])
    return connection


@pytest.mark.parametrize("stage", stages("chat"))
@pytest.mark.parametrize(
    ("client", "dialect", "how"),
    [*product(DIALECTS, DIALECTS, ["close"]), ("responses", "chat", "reset")],
)
def test_disconnect_closes_the_connection_to_the_backend(
    client: str, dialect: str, how: str, stage: str, harness: Harness
) -> None:
    streamed, script = stages(dialect)[stage]
    model = harness.enqueue(dialect, script)
    connection = open_request(harness, client, model, streamed=streamed)
    request = harness.backend.wait_for_request(model)
    if stage == "in a stream":
        assert b"text/event-stream" in connection.recv(65536)
    assert not request.closed.is_set()
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert request.closed.wait(TIMEOUT_SECONDS)
    assert not request.script_done.is_set()


def test_disconnect_does_not_affect_other_clients(harness: Harness) -> None:
    gate, events = Gate(), stream_events("chat", TURN)
    model = harness.enqueue(
        "chat",
        stream_reply(*events[:4], gate, *events[4:]),
        (Gate(),),
        json_reply(reply_body("chat", TURN)),
    )
    with harness.stream("chat", model) as staying:
        connection = open_request(harness, "chat", model, streamed=True)
        request = harness.backend.wait_for_request(model, 2)
        connection.close()
        assert request.closed.wait(TIMEOUT_SECONDS)
        gate.open()
        assert staying.read_all().endswith(b"data: [DONE]\n\n")
    assert harness.request("chat", model).status == 200


def test_disconnect_within_a_request(harness: Harness) -> None:
    open_request(harness, "responses", "chat-x", streamed=False, missing=10).close()
    assert raw_http.get(harness.gateway.port, "/health").status == 200
    assert "Traceback" not in harness.gateway.log
