"""Which backends serve a model, under which name, and failover between them."""

import socket
from collections.abc import Iterator

import pytest

from gateway.backends.client import BackendClient
from gateway.backends.routing import Router
from gateway.config import backend_capabilities
from gateway.config.schema import BackendConfig, RetryConfig, TimeoutConfig
from gateway.demo import DemoTransport
from gateway.errors import ModelNotFoundError
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.http.test_auth import REPLY
from tests.gateway.raw_http import send
from tests.gateway.scripted_backend import (
    ReceivedRequest,
    Script,
    ScriptedBackend,
    json_reply,
)
from tests.gateway.waiting import wait_until


def _backend(name: str, *models: str, default: bool = False, **aliases: str) -> BackendClient:
    config = BackendConfig(
        name, "http://127.0.0.1/v1", "chat", models=models, default=default, model_aliases=aliases
    )
    capabilities, rewrite = backend_capabilities(config)
    return BackendClient(
        config,
        DemoTransport(),
        capabilities=capabilities,
        rewrite=rewrite,
        timeouts=TimeoutConfig(),
        retries=RetryConfig(),
    )


ROUTER = Router(
    [
        _backend("exact", "gpt-4", "Case"),
        _backend("globs", "qwen*", "org/*-[ab]"),
        _backend("renaming", "other", nickname="its-real-name"),
        _backend("also", "qwen3*"),
        _backend("default", default=True),
    ]
)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4", [("exact", None)]),
        ("Case", [("exact", None)]),
        ("case", [("default", None)]),
        ("qwen2.5", [("globs", None)]),
        ("org/model-b", [("globs", None)]),
        ("org/model-c", [("default", None)]),
        ("nickname", [("renaming", "its-real-name")]),
        ("its-real-name", [("default", None)]),
        ("qwen3-8b", [("globs", None), ("also", None)]),
        ("gpt-4\n", [("default", None)]),
    ],
)
def test_all_matching_backends_in_order(model: str, expected: list[tuple[str, str | None]]) -> None:
    routes = [(route.backend.name, route.model) for route in ROUTER.find(model)]
    assert routes == expected


def test_unknown_model_is_an_error() -> None:
    with pytest.raises(ModelNotFoundError, match="no backend serves 'gpt-9'"):
        Router([_backend("one", "gpt-4")]).find("gpt-9")


@pytest.fixture(scope="module")
def failover_gateway(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Run a gateway whose first backend is down; its second has another dialect."""
    # Bound but not listening: no other process gets this port, and connections are rejected.
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    down = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    config = f"""
[retries]
max_retries = 1
initial_backoff = 0.01

[[backends]]
name = "down"
url = "{down}"
dialect = "responses"
models = ["shared-*", "lonely"]

[[backends]]
name = "up"
url = "{backend.address}/v1"
dialect = "chat"
models = ["shared-*"]
model_aliases = {{ "shared-nickname" = "real-name" }}

[[backends]]
name = "default"
url = "{backend.address}/default/v1"
dialect = "chat"
models = []
default = true
"""
    with closed, run_gateway(config, tmp_path_factory.mktemp("failover")) as gateway:
        yield gateway


def _reply(_: ReceivedRequest) -> Script:
    return json_reply(REPLY)


_CHAT_BODY = b'{"messages":[{"role":"user","content":"hi"}],"model":"%s","x":1}'


def _responses_body(model: str) -> bytes:
    return b'{"model":"%s","input":"hi"}' % model.encode()


def test_next_backend_replaces_one_that_is_down(
    failover_gateway: Gateway, backend: ScriptedBackend
) -> None:
    backend.respond_with("shared-1", _reply)
    response = send(failover_gateway, "POST", "/v1/responses", _responses_body("shared-1"))
    assert response.status == 200
    assert response.json()["object"] == "response"
    assert backend.wait_for_request("shared-1").target == "/v1/chat/completions"
    wait_until(lambda: '"event":"backend unreachable, trying the next one"' in failover_gateway.log)


def test_renamed_model_is_requested_by_its_real_name(
    failover_gateway: Gateway, backend: ScriptedBackend
) -> None:
    backend.respond_with("real-name", _reply)
    for path, body in (
        ("/v1/responses", _responses_body("shared-nickname")),
        ("/v1/chat/completions", _CHAT_BODY % b"shared-nickname"),
    ):
        assert send(failover_gateway, "POST", path, body).status == 200
    assert backend.wait_for_request("real-name", 2).body == _CHAT_BODY % b"real-name"


def test_default_backend_serves_other_models(
    failover_gateway: Gateway, backend: ScriptedBackend
) -> None:
    backend.respond_with("whatever", _reply)
    assert (
        send(failover_gateway, "POST", "/v1/responses", _responses_body("whatever")).status == 200
    )
    assert backend.wait_for_request("whatever").target == "/default/v1/chat/completions"


def test_error_if_all_backends_are_down(failover_gateway: Gateway) -> None:
    response = send(failover_gateway, "POST", "/v1/responses", _responses_body("lonely"))
    assert response.status == 502
    assert response.error == {
        "message": "cannot connect to the backend down",
        "type": "server_error",
        "param": None,
        "code": "backend_unreachable",
    }
