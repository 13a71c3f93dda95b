"""Which backends serve a model, under which name, and failover between them."""

import socket
from collections.abc import Iterator

import pytest

from gateway.backends.client import BackendClient
from gateway.backends.routing import Router
from gateway.errors import ModelNotFoundError
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.backends.test_models import backend_client, backend_config
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import backend_table
from tests.gateway.scripted_backend import ReceivedRequest, Script, ScriptedBackend, json_reply
from tests.gateway.waiting import wait_until


def _backend(name: str, *models: str, default: bool = False, **aliases: str) -> BackendClient:
    config = backend_config(name, models=models, default=default, model_aliases=aliases)
    return backend_client(config)


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
def failover(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """Run a gateway whose first backend is down; its second has another dialect."""
    # Bound but not listening: no other process gets this port, and connections are rejected.
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    aliases = 'model_aliases = { "shared-nickname" = "real-name" }\n'
    config = f"""
[retries]
max_retries = 1
initial_backoff = 0.01

[[backends]]
name = "down"
url = "http://127.0.0.1:{closed.getsockname()[1]}/v1"
dialect = "responses"
models = ["shared-*", "lonely"]
{backend_table(backend.address, "shared", "chat", aliases)}
[[backends]]
name = "default"
url = "{backend.address}/default/v1"
dialect = "chat"
models = []
default = true
"""
    with closed, run_harness(backend, config, tmp_path_factory.mktemp("failover")) as harness:
        yield harness


def _reply(_: ReceivedRequest) -> Script:
    return json_reply(reply_body("chat", Turn("Hello.")))


def test_next_backend_replaces_one_that_is_down(failover: Harness) -> None:
    failover.backend.respond_with("shared-1", _reply)
    response = failover.request("responses", "shared-1")
    assert response.status == 200
    assert response.json()["object"] == "response"
    request = failover.backend.wait_for_request("shared-1")
    assert request.target == "/shared/v1/chat/completions"
    event = '"event":"backend unreachable, trying the next one"'
    wait_until(lambda: event in failover.gateway.log)


def test_renamed_model_is_requested_by_its_real_name(failover: Harness) -> None:
    failover.backend.respond_with("real-name", _reply)
    assert failover.request("responses", "shared-nickname").status == 200
    body = b'{"messages":[{"role":"user","content":"hi"}],"model":"%s","x":1}'
    assert failover.post(body % b"shared-nickname", "/v1/chat/completions").status == 200
    assert failover.backend.wait_for_request("real-name", 2).body == body % b"real-name"


def test_default_backend_serves_other_models(failover: Harness) -> None:
    failover.backend.respond_with("whatever", _reply)
    assert failover.request("responses", "whatever").status == 200
    request = failover.backend.wait_for_request("whatever")
    assert request.target == "/default/v1/chat/completions"


def test_error_if_all_backends_are_down(failover: Harness) -> None:
    response = failover.request("responses", "lonely")
    assert response.status == 502
    assert response.error == {
        "message": "cannot connect to the backend down",
        "type": "server_error",
        "param": None,
        "code": "backend_unreachable",
    }
