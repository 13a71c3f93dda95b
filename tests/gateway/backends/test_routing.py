"""Which backends serve a model, and under which name."""

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
def routing(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """Run a gateway whose first backend has an alias, and whose second is the default."""
    aliases = 'model_aliases = { "shared-nickname" = "real-name" }\n'
    config = backend_table(backend.address, "shared", "chat", aliases)
    default = backend_table(backend.address, "default", "chat", "default = true\n")
    config += default.replace('models = ["default-*"]', "models = []")
    with run_harness(backend, config, tmp_path_factory.mktemp("routing")) as harness:
        yield harness


def _reply(_: ReceivedRequest) -> Script:
    return json_reply(reply_body("chat", Turn("Hello.")))


def test_renamed_model_is_requested_by_its_real_name(routing: Harness) -> None:
    routing.backend.respond_with("real-name", _reply)
    assert routing.request("responses", "shared-nickname").status == 200
    body = b'{"messages":[{"role":"user","content":"hi"}],"model":"%s","x":1}'
    assert routing.post(body % b"shared-nickname", "/v1/chat/completions").status == 200
    assert routing.backend.wait_for_request("real-name", 2).body == body % b"real-name"


def test_default_backend_serves_other_models(routing: Harness) -> None:
    routing.backend.respond_with("whatever", _reply)
    assert routing.request("responses", "whatever").status == 200
    request = routing.backend.wait_for_request("whatever")
    assert request.target == "/default/v1/chat/completions"
