"""Requests of web pages of other sites, which only listed origins may send."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from gateway.config import ConfigError, load_config
from tests.gateway import raw_http
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.websocket_client import WebSocketClient

ALLOWED, OTHER = "https://app.example", "https://app.example.evil"
PATH = "/v1/responses"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
}
BODY = {"model": "demo", "input": "Hi"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = f'[server]\ncors_origins = ["{ALLOWED}"]\n'
    with run_gateway(config, tmp_path_factory.mktemp("cors")) as process:
        yield process


def test_listed_origin_may_send_requests(gateway: Gateway) -> None:
    asked = raw_http.send(gateway, "OPTIONS", PATH, headers={"Origin": ALLOWED} | PREFLIGHT)
    assert asked.status == 204
    assert asked.headers["access-control-allow-origin"] == ALLOWED
    assert "POST" in asked.headers["access-control-allow-methods"]
    for name in ("authorization", "content-type", "x-stainless-lang"):
        assert name in asked.headers["access-control-allow-headers"].lower()
    for body in (BODY, BODY | {"stream": True}, {}):
        reply = raw_http.post(gateway.port, PATH, body, {"Origin": ALLOWED})
        assert reply.headers["access-control-allow-origin"] == ALLOWED
        assert "dragoman-loss" in reply.headers["access-control-expose-headers"]


def test_other_origin_is_rejected(gateway: Gateway) -> None:
    asked = raw_http.send(gateway, "OPTIONS", PATH, headers={"Origin": OTHER} | PREFLIGHT)
    assert asked.status == 400
    reply = raw_http.post(gateway.port, PATH, BODY, {"Origin": OTHER})
    assert "access-control-allow-origin" not in reply.headers


def test_websocket_of_a_listed_origin_is_accepted(gateway: Gateway) -> None:
    with WebSocketClient(gateway, {"Origin": ALLOWED}) as socket:
        assert socket.create_response(**BODY).status == "completed"
    with pytest.raises(InvalidStatus):
        WebSocketClient(gateway, {"Origin": OTHER})


def test_no_origin_is_allowed_by_default(tmp_path: Path) -> None:
    with run_gateway("", tmp_path) as gateway:
        asked = raw_http.send(gateway, "OPTIONS", PATH, headers={"Origin": ALLOWED} | PREFLIGHT)
        reply = raw_http.post(gateway.port, PATH, BODY, {"Origin": ALLOWED})
    assert "access-control-allow-origin" not in asked.headers
    assert "access-control-allow-origin" not in reply.headers


def test_patterns_are_no_origins(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('[server]\ncors_origins = ["*", "https://*.example", "https://a.example/b"]\n')
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert [error.split(": ")[1] for error in caught.value.errors] == [
        "server.cors_origins[1]",
        "server.cors_origins[2]",
    ]
