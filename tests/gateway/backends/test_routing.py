"""Which backend is asked for which model, under which name, and what if it is down."""

import socket
from collections.abc import Iterator

import pytest

from gateway.backends.client import BackendClient
from gateway.backends.routing import Router
from gateway.config import backend_capabilities
from gateway.config.schema import BackendConfig, RetryConfig, TimeoutConfig
from gateway.demo import DemoTransport
from gateway.errors import ModelNotFoundError
from tests.gateway.calling import post
from tests.gateway.http.test_auth import REPLY
from tests.gateway.keeping import until
from tests.gateway.process import Gateway, running
from tests.gateway.scripted import Received, Script, ScriptedBackend, answer


def _upstream(backend: BackendConfig) -> BackendClient:
    capabilities, rewrite = backend_capabilities(backend)
    return BackendClient(
        backend,
        DemoTransport(),
        capabilities=capabilities,
        rewrite=rewrite,
        timeouts=TimeoutConfig(),
        retries=RetryConfig(),
    )


def _backend(name: str, *models: str, default: bool = False, **rename: str) -> BackendClient:
    url = "http://127.0.0.1/v1"
    return _upstream(
        BackendConfig(name, url, "chat", models=models, default=default, model_aliases=dict(rename))
    )


ROUTER = Router(
    [
        _backend("exact", "gpt-4", "Case"),
        _backend("globs", "qwen*", "org/*-[ab]"),
        _backend("renaming", "other", nickname="its-real-name"),
        _backend("also", "qwen3*"),
        _backend("rest", default=True),
    ]
)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4", [("exact", None)]),
        ("Case", [("exact", None)]),
        ("case", [("rest", None)]),
        ("qwen2.5", [("globs", None)]),
        ("org/model-b", [("globs", None)]),
        ("org/model-c", [("rest", None)]),
        ("nickname", [("renaming", "its-real-name")]),
        ("its-real-name", [("rest", None)]),
        ("qwen3-8b", [("globs", None), ("also", None)]),
        ("gpt-4\n", [("rest", None)]),
    ],
)
def test_the_first_that_matches_and_those_behind_it(
    model: str, expected: list[tuple[str, str | None]]
) -> None:
    found = [(route.backend.name, route.model) for route in ROUTER.find(model)]
    assert found == expected


def test_a_model_that_nobody_serves_is_named() -> None:
    with pytest.raises(ModelNotFoundError, match="no backend serves 'gpt-9'"):
        Router([_backend("one", "gpt-4")]).find("gpt-9")


@pytest.fixture(scope="module")
def failing_over(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Run a gateway whose first backend is down; its second speaks another dialect."""
    # Bound but not listening: nobody else gets this port, and nobody answers at it.
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
name = "rest"
url = "{backend.address}/rest/v1"
dialect = "chat"
models = []
default = true
"""
    with closed, running(config, tmp_path_factory.mktemp("failover")) as gateway:
        yield gateway


def _reply(_: Received) -> Script:
    return answer(REPLY)


_CHAT = b'{"messages":[{"role":"user","content":"hi"}],"model":"%s","x":1}'


def _ask(model: str) -> bytes:
    return b'{"model":"%s","input":"hi"}' % model.encode()


def test_the_next_backend_answers_for_one_that_is_down(
    failing_over: Gateway, backend: ScriptedBackend
) -> None:
    backend.play_always("shared-1", _reply)
    answered = post(failing_over, "/v1/responses", _ask("shared-1"))
    assert answered.status == 200
    assert answered.json()["object"] == "response"
    assert backend.wait("shared-1").target == "/v1/chat/completions"
    until(lambda: '"event":"backend unreachable, trying the next one"' in failing_over.log)


def test_a_renamed_model_is_asked_for_by_its_real_name(
    failing_over: Gateway, backend: ScriptedBackend
) -> None:
    backend.play_always("real-name", _reply)
    for path, body in (
        ("/v1/responses", _ask("shared-nickname")),
        ("/v1/chat/completions", _CHAT % b"shared-nickname"),
    ):
        assert post(failing_over, path, body).status == 200
    assert backend.wait("real-name", 2).body == _CHAT % b"real-name"


def test_the_default_serves_what_no_other_does(
    failing_over: Gateway, backend: ScriptedBackend
) -> None:
    backend.play_always("whatever", _reply)
    assert post(failing_over, "/v1/responses", _ask("whatever")).status == 200
    assert backend.wait("whatever").target == "/rest/v1/chat/completions"


def test_when_all_are_down_the_client_is_told(failing_over: Gateway) -> None:
    answered = post(failing_over, "/v1/responses", _ask("lonely"))
    assert answered.status == 502
    assert answered.error == {
        "message": "the backend down cannot be reached",
        "type": "server_error",
        "param": None,
        "code": "backend_unreachable",
    }
