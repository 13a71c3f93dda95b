"""How WebSockets are opened, and how they end when the service stops or they are too old."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection

import pytest
from websockets.exceptions import InvalidStatus

from gateway.pytest_plugin.scripted_backend import Gate, ScriptedBackend
from tests.gateway.backend_replies import Turn, script_turns
from tests.gateway.background.requests import TEXT, halved
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import backend_tables
from tests.gateway.gateway_process import Gateway
from tests.gateway.http.test_auth import BACKEND_KEY, KEY, guarded
from tests.gateway.raw_http import send
from tests.gateway.server.test_shutdown import wait_until_refused
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.gateway.websocket_client import WebSocketClient, validate_error, validate_turn

__all__ = ["guarded"]

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


# Handshakes


@pytest.mark.parametrize("authorization", ["", "Bearer dk-wrong"])
def test_missing_or_unknown_key_is_refused(authorization: str, guarded: Gateway) -> None:
    headers = {**HANDSHAKE, "Authorization": authorization}
    reply = send(guarded, "GET", "/v1/responses", headers=headers)
    assert reply.status == 401
    assert reply.error["code"] == "invalid_api_key"
    assert reply.headers["content-type"] == "application/json"


def test_known_key_is_accepted_and_output_is_not_redacted(
    guarded: Gateway, harness: Harness
) -> None:
    text = f"It is {BACKEND_KEY}."
    model = harness.new_model("with-key")
    script_turns(harness.backend, "chat", model, Turn(text))
    with WebSocketClient(guarded, {"Authorization": f"Bearer {KEY}"}) as socket:
        events = socket.create_turn(model=model, input="x")
    assert events[-1]["type"] == "response.completed"
    assert text in json.dumps(events[-1])
    assert BACKEND_KEY not in guarded.log
    received = harness.backend.wait_for_request(model)
    assert received.headers["authorization"] == f"Bearer {BACKEND_KEY}"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/models", 200), ("/v1/nothing", 404), ("/v1/translate", 405), ("/health", 200)],
)
def test_other_paths_do_not_upgrade(path: str, status: int, gateway: Gateway) -> None:
    assert send(gateway, "GET", path, headers=HANDSHAKE).status == status
    with pytest.raises(InvalidStatus):
        WebSocketClient(gateway, path=path)


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Sec-WebSocket-Key", "short", 400),
        ("Sec-WebSocket-Version", "7", 400),
        ("X-Long", "x" * 20_000, 400),
        ("Content-Length", "2", 426),
        # Pages of other sites.
        ("Origin", "https://example.org", 403),
        ("Origin", "http://127.0.0.1:1", 403),
        ("Origin", "null", 403),
        ("Origin", "http://[", 403),
    ],
)
def test_invalid_header_is_refused(name: str, value: str, status: int, gateway: Gateway) -> None:
    body = b"{}" if name == "Content-Length" else None
    reply = send(gateway, "GET", "/v1/responses", body, headers={**HANDSHAKE, name: value})
    assert reply.status == status
    if name == "Origin":
        assert reply.error["code"] == "origin_not_allowed"
    assert send(gateway, "GET", "/health").status == 200


@pytest.mark.parametrize(
    ("version", "more", "status"),
    [
        # An offer in an older version must be ignored (RFC 9110, 7.8).
        ("1.0", "Host: here\r\n", b" 426 "),
        ("1.1", "Origin: null\r\n", b" 403 "),
        ("1.1", "Host: here\r\n", b" 101 "),
    ],
    ids=["older version", "opaque origin", "valid"],
)
def test_unusual_handshake(version: str, more: str, status: bytes, gateway: Gateway) -> None:
    headers = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
    with create_connection(("127.0.0.1", gateway.port), TIMEOUT_SECONDS) as connection:
        connection.sendall(f"GET /v1/responses HTTP/{version}\r\n{headers}{more}\r\n".encode())
        with connection.makefile("rb") as lines:
            assert status in lines.readline()


def test_page_of_the_same_site_is_accepted(harness: Harness) -> None:
    model = harness.script("chat", "Hi.")
    with WebSocketClient(harness.gateway, {"Origin": harness.gateway.address}) as socket:
        assert socket.create_response(model=model, input="x", store=False).output_text == "Hi."


@contextmanager
def run_with(backend: ScriptedBackend, folder: Path, setting: str) -> Generator[Harness]:
    """Run a gateway with a setting of its server."""
    config = f"[server]\n{setting}\n" + backend_tables(backend.address)
    with run_harness(backend, config, folder) as harness:
        yield harness


@pytest.fixture(scope="module")
def disabled(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    with run_with(backend, tmp_path_factory.mktemp("off"), "websocket = false") as harness:
        yield harness.gateway


@pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
def test_disabled_websocket_is_refused_with_426(path: str, disabled: Gateway) -> None:
    reply = send(disabled, "GET", path, headers=HANDSHAKE)
    assert (reply.status, reply.headers["upgrade"]) == (426, "HTTP/1.1")
    with pytest.raises(InvalidStatus) as refused:
        WebSocketClient(disabled, path=path)
    assert refused.value.response.status_code == 426


# Ends


def test_shutdown_waits_for_running_turns_and_closes_idle_connections(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    with run_with(backend, tmp_path, "shutdown_timeout = 60") as harness:
        gate, gateway = Gate(), harness.gateway
        model = harness.enqueue("chat", halved("chat", gate))
        with WebSocketClient(gateway) as idle, WebSocketClient(gateway) as busy:
            busy.create(model=model, input="x", store=False)
            busy.create(model=model, input="waits", store=False)
            backend.wait_for_request(model)
            events = [busy.receive()]
            gateway.terminate()
            assert idle.receive_close() == 1012
            wait_until_refused(gateway)
            # Turns that have not begun do not begin any more.
            events += busy.receive_until("error")
            assert validate_error(events.pop())["code"] == "stopping"
            assert busy.create_error(model=model, input="late", store=False)["code"] == "stopping"
            gate.open()
            assert validate_turn([*events, *busy.receive_turn()]).output_text == TEXT
            assert busy.receive_close() == 1012
        assert gateway.wait() == 0
    assert len(backend.received(model)) == 1


def test_shutdown_ends_turns_that_take_too_long(backend: ScriptedBackend, tmp_path: Path) -> None:
    with run_with(backend, tmp_path, "shutdown_timeout = 1") as harness:
        model = harness.enqueue("chat", halved("chat", Gate()))
        with WebSocketClient(harness.gateway) as socket:
            socket.create(model=model, input="x", store=False)
            request = backend.wait_for_request(model)
            events = [socket.receive()]
            harness.gateway.terminate()
            events += socket.receive_turn()
            assert "stopping" in str(events[-1]["error"])
            assert validate_turn([*events, *socket.receive_turn()]).status == "failed"
            assert socket.receive_close() == 1012
        harness.gateway.wait()
    assert request.closed.wait(TIMEOUT_SECONDS)


def test_old_connection_is_closed_after_its_running_turn(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    too_old = "websocket_connection_limit_reached"
    # Long enough for the busy connection to have begun its turn.
    with run_with(backend, tmp_path, "websocket_max_lifetime = 8") as harness:
        gate = Gate()
        model = harness.enqueue("chat", halved("chat", gate))
        with WebSocketClient(harness.gateway) as idle, WebSocketClient(harness.gateway) as busy:
            busy.create(model=model, input="x", store=False)
            busy.create(model=model, input="waits", store=False)
            error = validate_error(idle.receive())
            assert (error["code"], error["status"]) == (too_old, 400)
            assert idle.receive_close() == 1001
            events = busy.receive_turn()
            assert validate_error(events.pop())["code"] == too_old
            gate.open()
            assert validate_turn([*events, *busy.receive_turn()]).output_text == TEXT
            assert validate_error(busy.receive())["code"] == too_old
            assert busy.receive_close() == 1001
    assert len(backend.received(model)) == 1
