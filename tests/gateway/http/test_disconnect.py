"""A client that leaves ends the backend's work, at whatever stage."""

import socket
import struct
from itertools import product

import pytest

from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body, stream_events
from tests.gateway.backend_requests import ENDPOINT_PATHS
from tests.gateway.conftest import Harness, NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.scripted_backend import (
    JSON,
    Gate,
    Script,
    ScriptedBackend,
    Step,
    chunk,
    json_reply,
    reply_head,
    stream_head,
    stream_reply,
)
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import JsonObject

TURN = Turn("One two three four five six.")
QUESTION = [{"role": "user", "content": "hi"}]


def asked(client: str, model: str, *, streamed: bool) -> JsonObject:
    body: JsonObject = {"model": model, "stream": streamed}
    if client == "responses":
        return {**body, "input": QUESTION}
    if client == "legacy":
        body["functions"] = [{"name": "f", "parameters": {"type": "object"}}]
    return {**body, "messages": QUESTION}


def stages(spoken: str) -> dict[str, tuple[bool, Script]]:
    """Give what a backend does until it waits, and whether the client wants a stream."""
    said: list[Step] = [chunk(frame) for frame in stream_events(spoken, TURN)[:5]]
    half = reply_body(spoken, TURN)[:40]
    return {
        "before the first byte, whole": (False, (Gate(),)),
        "before the first byte, streamed": (True, (Gate(),)),
        "after the head": (True, (stream_head(), Gate())),
        "in a stream": (True, (stream_head(), *said, Gate())),
        "in a whole answer": (
            False,
            (reply_head(200, {**JSON, "Content-Length": "999"}) + half, Gate()),
        ),
        "in a stream that becomes a whole answer": (False, (stream_head(), *said, Gate())),
        "in an error": (True, (reply_head(500, {**JSON, "Content-Length": "999"}) + b"{", Gate())),
    }


def leave(plug: socket.socket, how: str) -> None:
    if how == "reset":
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plug.close()


@pytest.mark.parametrize("stage", stages("chat"))
@pytest.mark.parametrize(
    ("client", "spoken", "how"),
    [*product(DIALECTS, DIALECTS, ["close"]), ("responses", "chat", "reset")],
)
def test_backend_sees_the_close(
    client: str, spoken: str, how: str, stage: str, harness: Harness
) -> None:
    backend, model = harness.backend, harness.new_model(spoken)
    streamed, played = stages(spoken)[stage]
    backend.enqueue(model, played)
    plug = socket.create_connection(("127.0.0.1", harness.gateway.port), timeout=TIMEOUT_SECONDS)
    body = asked(client, model, streamed=streamed)
    plug.sendall(raw_http.request_bytes(f"/v1{ENDPOINT_PATHS[client]}", body))
    request = backend.wait_for_request(model)
    if stage == "in a stream":
        assert b"text/event-stream" in plug.recv(65536)
    assert not request.closed.is_set()
    leave(plug, how)
    assert request.closed.wait(TIMEOUT_SECONDS), "the backend works on for nobody"
    assert not request.script_done.is_set()


def test_others_are_served_on(
    gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("chat"), Gate()
    said = stream_events("chat", TURN)
    backend.enqueue(
        model,
        stream_reply(*said[:4], gate, *said[4:]),
        (Gate(),),
        json_reply(reply_body("chat", TURN)),
    )
    path = f"/v1{ENDPOINT_PATHS['chat']}"
    with raw_http.StreamedResponse(
        gateway.port, path, asked("chat", model, streamed=True)
    ) as staying:
        plug = socket.create_connection(("127.0.0.1", gateway.port), timeout=TIMEOUT_SECONDS)
        plug.sendall(raw_http.request_bytes(path, asked("chat", model, streamed=True)))
        gone = backend.wait_for_request(model, 2)
        plug.close()
        assert gone.closed.wait(TIMEOUT_SECONDS)
        gate.open()
        assert staying.read_all().endswith(b"data: [DONE]\n\n")
    assert raw_http.post(gateway.port, path, asked("chat", model, streamed=False)).status == 200


def test_client_that_leaves_in_its_own_request(gateway: Gateway) -> None:
    request = raw_http.request_bytes("/v1/responses", {"model": "chat-x", "input": "hi"})
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=TIMEOUT_SECONDS) as plug:
        plug.sendall(request[:-10])
    assert raw_http.get(gateway.port, "/health").status == 200
    assert "Traceback" not in gateway.log
