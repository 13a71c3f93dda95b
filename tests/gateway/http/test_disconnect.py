"""A client that leaves ends the backend's work, at whatever stage."""

import socket
import struct
from itertools import product

import pytest

from tests.gateway import wire
from tests.gateway.asked import PATHS
from tests.gateway.conftest import DIALECTS, Fresh, Scene
from tests.gateway.process import Gateway
from tests.gateway.scripted import (
    JSON,
    PATIENCE,
    Gate,
    Script,
    ScriptedBackend,
    Step,
    answer,
    begun,
    chunk,
    head,
    stream,
)
from tests.gateway.speech import Turn, frames, whole
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
    said: list[Step] = [chunk(frame) for frame in frames(spoken, TURN)[:5]]
    half = whole(spoken, TURN)[:40]
    return {
        "before the first byte, whole": (False, (Gate(),)),
        "before the first byte, streamed": (True, (Gate(),)),
        "after the head": (True, (begun(), Gate())),
        "in a stream": (True, (begun(), *said, Gate())),
        "in a whole answer": (False, (head(200, {**JSON, "Content-Length": "999"}) + half, Gate())),
        "in a stream that becomes a whole answer": (False, (begun(), *said, Gate())),
        "in an error": (True, (head(500, {**JSON, "Content-Length": "999"}) + b"{", Gate())),
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
    client: str, spoken: str, how: str, stage: str, scene: Scene
) -> None:
    backend, model = scene.backend, scene.fresh(spoken)
    streamed, played = stages(spoken)[stage]
    backend.play(model, played)
    plug = socket.create_connection(("127.0.0.1", scene.gateway.port), timeout=PATIENCE)
    body = asked(client, model, streamed=streamed)
    plug.sendall(wire.request_bytes(f"/v1{PATHS[client]}", body))
    request = backend.wait(model)
    if stage == "in a stream":
        assert b"text/event-stream" in plug.recv(65536)
    assert not request.closed.is_set()
    leave(plug, how)
    assert request.closed.wait(PATIENCE), "the backend works on for nobody"
    assert not request.played.is_set()


def test_others_are_served_on(gateway: Gateway, backend: ScriptedBackend, fresh: Fresh) -> None:
    model, gate = fresh("chat"), Gate()
    said = frames("chat", TURN)
    backend.play(model, stream(*said[:4], gate, *said[4:]), (Gate(),), answer(whole("chat", TURN)))
    path = f"/v1{PATHS['chat']}"
    with wire.Streamed(gateway.port, path, asked("chat", model, streamed=True)) as staying:
        plug = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE)
        plug.sendall(wire.request_bytes(path, asked("chat", model, streamed=True)))
        gone = backend.wait(model, 2)
        plug.close()
        assert gone.closed.wait(PATIENCE)
        gate.open()
        assert staying.read_all().endswith(b"data: [DONE]\n\n")
    assert wire.post(gateway.port, path, asked("chat", model, streamed=False)).status == 200


def test_client_that_leaves_in_its_own_request(gateway: Gateway) -> None:
    request = wire.request_bytes("/v1/responses", {"model": "chat-x", "input": "hi"})
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as plug:
        plug.sendall(request[:-10])
    assert wire.get(gateway.port, "/health").status == 200
    assert "Traceback" not in gateway.log
