"""Which backends serve a model, and under which name."""

import json
from collections.abc import Iterator

import pytest

from gateway.backends.client import BackendClient
from gateway.backends.routing import Router
from gateway.config.schema import ModelConfig
from gateway.errors import ModelNotFoundError
from gateway.pytest_plugin.scripted_backend import (
    ReceivedRequest,
    Script,
    ScriptedBackend,
    json_reply,
)
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.backends.test_models import backend_client, backend_config
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import backend_table


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


def test_route_has_the_capabilities_of_its_model() -> None:
    rules = (ModelConfig("real-*", capabilities={"think_tags": True}),)
    config = backend_config(models=rules, model_aliases={"nickname": "real-1"})
    router = Router([backend_client(config)])
    found = {name: router.find(name)[0].backend for name in ("other", "real-2", "nickname")}
    tags = {name: backend.capabilities.think_tags for name, backend in found.items()}
    assert tags == {"other": False, "real-2": True, "nickname": True}
    assert [backend.rewrite for backend in found.values()] == [False, True, True]
    assert router.find("real-2")[0].backend is found["real-2"]


def test_route_to_a_backend_without_rules_has_the_backend_itself() -> None:
    client = backend_client(backend_config())
    assert Router([client]).find("any")[0].backend is client


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


@pytest.fixture(scope="module")
def ruled(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway with settings for some models of its only backend."""
    rule = (
        '[[backends.models]]\npattern = "*-SLOW"\nextra_body = { seed = 7 }\n'
        'capabilities = { max_tokens_field = "max_tokens" }\n'
    )
    table = backend_table(backend.address, "ruled", "chat", rule)
    config = table.replace('models = ["ruled-*"]', "extra_body = { top_k = 20 }")
    with run_harness(backend, config, tmp_path_factory.mktemp("ruled")) as harness:
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


def test_models_of_one_backend_get_their_own_requests(ruled: Harness) -> None:
    fields = b'"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":9'
    for model in ("ruled-fast", "ruled-slow"):
        ruled.backend.respond_with(model, _reply)
        body = b'{"model":"%s",%s}' % (model.encode(), fields)
        assert ruled.post(body, "/v1/chat/completions").status == 200
    fast = ruled.backend.wait_for_request("ruled-fast")
    assert fast.body == b'{"model":"ruled-fast",%s,"top_k":20}' % fields
    slow = json.loads(ruled.backend.wait_for_request("ruled-slow").body)
    assert (slow["max_tokens"], slow["top_k"], slow["seed"]) == (9, 20, 7)
