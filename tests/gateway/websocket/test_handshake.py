"""Which clients may open a WebSocket, and what the others get."""

import json
from collections.abc import Iterator
from socket import create_connection

import pytest
from websockets.exceptions import InvalidStatus

from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.conftest import Harness, NewModel
from tests.gateway.gateway_config import backend_tables
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.http.test_auth import BACKEND_KEY, KEY, guarded
from tests.gateway.raw_http import send
from tests.gateway.scripted_backend import ScriptedBackend, stream_reply
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.gateway.websocket.test_websocket import says
from tests.gateway.websocket_client import WebSocketClient

__all__ = ["guarded"]

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize("authorization", ["", "Bearer dk-wrong"])
def test_missing_or_unknown_key_is_refused(authorization: str, guarded: Gateway) -> None:
    headers = {**HANDSHAKE, "Authorization": authorization}
    answered = send(guarded, "GET", "/v1/responses", headers=headers)
    assert answered.status == 401
    assert answered.error["code"] == "invalid_api_key"
    assert answered.headers["content-type"] == "application/json"


def test_known_key_is_accepted_and_output_is_not_redacted(
    guarded: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("with-key")
    said = Turn(f"It is {BACKEND_KEY}.")
    backend.enqueue(model, stream_reply(b"".join(stream_events("chat", said))))
    with WebSocketClient(guarded, {"Authorization": f"Bearer {KEY}"}) as socket:
        events = socket.create_turn(model=model, input="x")
    assert events[-1]["type"] == "response.completed"
    assert f"It is {BACKEND_KEY}." in json.dumps(events[-1])
    assert BACKEND_KEY not in guarded.log
    assert backend.wait_for_request(model).headers["authorization"] == f"Bearer {BACKEND_KEY}"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/models", 200), ("/v1/nothing", 404), ("/v1/translate", 405), ("/health", 200)],
)
def test_other_paths_do_not_upgrade(path: str, status: int, gateway: Gateway) -> None:
    assert send(gateway, "GET", path, headers=HANDSHAKE).status == status
    with pytest.raises(InvalidStatus):
        WebSocketClient(gateway, path=path)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Version": "7"}, 400),
        ({"X-Long": "x" * 20_000}, 400),
        ({"Content-Length": "2"}, 426),
    ],
)
def test_invalid_handshake_is_refused(
    changes: dict[str, str], status: int, gateway: Gateway
) -> None:
    body = b"{}" if "Content-Length" in changes else None
    answered = send(gateway, "GET", "/v1/responses", body, headers={**HANDSHAKE, **changes})
    assert answered.status == status
    assert send(gateway, "GET", "/health").status == 200


@pytest.mark.parametrize(
    "origin", ["https://example.org", "http://127.0.0.1:1", "null", "http://["]
)
def test_page_of_another_site_is_refused(origin: str, gateway: Gateway) -> None:
    answered = send(gateway, "GET", "/v1/responses", headers={**HANDSHAKE, "Origin": origin})
    assert answered.status == 403
    assert answered.error["code"] == "origin_not_allowed"


@pytest.mark.parametrize(
    ("version", "more", "status"),
    [
        # Nobody may take an offer that is made in an older version (RFC 9110, 7.8).
        ("1.0", "Host: here\r\n", b" 426 "),
        ("1.1", "Origin: null\r\n", b" 403 "),
        ("1.1", "Host: here\r\n", b" 101 "),
    ],
    ids=["older", "page of nowhere", "as it should be"],
)
def test_unusual_handshake(version: str, more: str, status: bytes, gateway: Gateway) -> None:
    said = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
    with create_connection(("127.0.0.1", gateway.port), TIMEOUT_SECONDS) as plug:
        plug.sendall(f"GET /v1/responses HTTP/{version}\r\n{said}{more}\r\n".encode())
        with plug.makefile("rb") as lines:
            assert status in lines.readline()


def test_page_of_the_same_site_is_accepted(harness: Harness) -> None:
    model = says(harness, "chat", Turn("Hi."))
    with WebSocketClient(harness.gateway, {"Origin": harness.gateway.address}) as socket:
        assert socket.create_response(model=model, input="x", store=False).output_text == "Hi."


def test_get_without_an_upgrade_is_not_found(gateway: Gateway) -> None:
    assert send(gateway, "GET", "/v1/responses").status == 404


@pytest.fixture(scope="module")
def off(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Run a gateway without sockets."""
    folder = tmp_path_factory.mktemp("off")
    with run_gateway(
        "[server]\nwebsocket = false\n" + backend_tables(backend.address), folder
    ) as gateway:
        yield gateway


@pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
def test_disabled_websocket_is_refused_with_426(path: str, off: Gateway) -> None:
    answered = send(off, "GET", path, headers=HANDSHAKE)
    assert (answered.status, answered.headers["upgrade"]) == (426, "HTTP/1.1")
    with pytest.raises(InvalidStatus) as refused:
        WebSocketClient(off, path=path)
    assert refused.value.response.status_code == 426
