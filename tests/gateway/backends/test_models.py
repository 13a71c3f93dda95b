"""The list of models: reading, merging, writing, fetching and caching it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types import Model as SdkModel

from gateway.backends.client import BackendClient
from gateway.backends.codex_models import ASSUMED_CONTEXT_WINDOW, INSTRUCTIONS, codex_model
from gateway.backends.health import BackendHealth
from gateway.backends.models import (
    CACHE_SECONDS,
    INCOMPLETE_CACHE_SECONDS,
    BackendModels,
    ModelList,
    Models,
    merge_models,
    read_models,
    write_models,
)
from gateway.backends.routing import Router
from gateway.config import backend_capabilities
from gateway.config.schema import (
    BackendConfig,
    CircuitBreakerConfig,
    DialectName,
    RetryConfig,
    TimeoutConfig,
)
from gateway.errors import ModelNotFoundError

# Fields that Codex 0.166 requires, and those that earlier versions require.
REQUIRED_BY_CODEX = {
    "slug",
    "display_name",
    "supported_reasoning_levels",
    "shell_type",
    "visibility",
    "supported_in_api",
    "priority",
    "support_verbosity",
    "truncation_policy",
    "experimental_supported_tools",
    "base_instructions",
    "supports_reasoning_summaries",
    "supports_parallel_tool_calls",
}


def backend_config(name: str = "one", **settings: Any) -> BackendConfig:
    return BackendConfig(name=name, url=f"http://{name}.test/v1", dialect="chat", **settings)


def backend_client(
    config: BackendConfig,
    transport: httpx.AsyncBaseTransport | None = None,
    key: str | None = None,
    retries: RetryConfig = RetryConfig(),  # noqa: B008 - a frozen value
) -> BackendClient:
    """Return a client, without a transport if it sends nothing."""
    return BackendClient(
        config,
        transport or httpx.AsyncBaseTransport(),
        capabilities=backend_capabilities(config),
        timeouts=TimeoutConfig(),
        health=BackendHealth(config.name, CircuitBreakerConfig(), retries),
        key=key,
    )


def names(*listings: tuple[BackendConfig, object]) -> list[str]:
    """Merge the lists of backends; return the names that clients see."""
    return [model.name for model in merge_models([listing(*one) for one in listings])]


def listing(config: BackendConfig, body: object) -> BackendModels:
    return BackendModels(config, read_models(json.dumps(body).encode()))


def entries(config: BackendConfig, body: object) -> tuple[list[Any], list[Any]]:
    """Write the list and read it in both formats."""
    written = write_models(merge_models([listing(config, body)]))
    both = json.loads(written)
    assert both["object"] == "list"
    return both["data"], both["models"]


# Reading


@pytest.mark.parametrize(
    "body",
    [
        {"object": "list", "data": [{"id": "a", "object": "model"}, {"id": "b"}]},
        {"data": [{"id": "a"}, {"id": "b"}], "models": [{"name": "other"}]},
        [{"id": "a"}, {"id": "b"}],
        ["a", "b"],
        {"data": ["a", "b"]},
        {"models": ["a", "b"]},
        {"models": [{"name": "a", "model": "a", "size": 3}, {"name": "b"}]},
        {"models": [{"slug": "a"}, {"slug": "b"}], "data": None},
        {"data": [{"id": "a"}, None, 3, {}, {"id": 7}, {"id": ""}, "", [4], {"name": "b"}]},
    ],
)
def test_every_format_of_a_list_is_read(body: object) -> None:
    assert names((backend_config(), body)) == ["a", "b"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>not found</html>",
        b"{",
        b"null",
        b"7",
        b'"a"',
        b"\xff\xfe",
        b"[" * 5000,
        b'{"error": {"message": "no"}}',
        b'{"data": {"id": "a"}}',
        b'{"data": "a"}',
    ],
)
def test_invalid_list_is_empty(body: bytes) -> None:
    assert read_models(body) == []


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["data", "models", "id", "meta"]), inner)
    ),
)


@given(JSON_VALUES)
def test_any_body_gives_a_valid_list(body: object) -> None:
    data, codex = entries(backend_config(), body)
    assert len({entry["id"] for entry in data}) == len(data) == len(codex)


# Merging


RENAMING = backend_config(models=("gpt-*",), model_aliases={"gpt-4": "qwen3"})


@pytest.mark.parametrize(
    ("config", "listed", "expected"),
    [
        pytest.param(
            backend_config(models=("qwen*", "llama-?")),
            ["qwen3", "gpt-4", "llama-3", "llama-10"],
            ["qwen3", "llama-3"],
            id="globs",
        ),
        pytest.param(backend_config(models=("Q*",)), ["qwen3", "Qwen3"], ["Qwen3"], id="case"),
        pytest.param(backend_config(models=("b", "a*", "c")), [], ["b", "c"], id="only-configured"),
        pytest.param(backend_config(models=("b", "a*")), ["a1", "b"], ["a1", "b"], id="both"),
        pytest.param(RENAMING, ["qwen3", "gpt-oss"], ["gpt-4", "gpt-oss"], id="alias"),
        pytest.param(RENAMING, [], ["gpt-4"], id="unlisted-alias"),
        pytest.param(
            backend_config(model_aliases={"small": "a"}), ["a"], ["small", "a"], id="alias-and-name"
        ),
    ],
)
def test_names_that_clients_see(
    config: BackendConfig, listed: list[str], expected: list[str]
) -> None:
    assert names((config, listed)) == expected


def test_alias_hides_a_model_of_the_same_name() -> None:
    # Requests for `a` go to `b`, so the backend's own `a` is unreachable.
    listed = [{"id": "a", "owned_by": "x"}, {"id": "b", "owned_by": "y"}]
    data, _ = entries(backend_config(model_aliases={"a": "b"}), listed)
    assert [(entry["id"], entry["owned_by"]) for entry in data] == [("a", "y"), ("b", "y")]


def test_first_of_several_models_with_one_name_is_listed() -> None:
    read = [listing(backend_config("one"), ["a", "b"]), listing(backend_config("two"), ["b", "c"])]
    served = [(model.name, model.backend_name) for model in merge_models(read)]
    assert served == [("a", "one"), ("b", "one"), ("c", "two")]


def test_default_backend_lists_other_models() -> None:
    special = backend_config("special", models=("gpt-*",))
    default = backend_config("default", models=("own",), default=True)
    assert names((special, []), (default, ["gpt-4", "other"])) == ["other", "own"]


NAME = st.text("ab*", min_size=1, max_size=2)
GLOBS = st.lists(st.text("ab*?", max_size=2), max_size=2).map(tuple)


@st.composite
def backends(draw: st.DrawFn) -> list[BackendConfig]:
    return [
        backend_config(
            f"b{number}",
            models=draw(GLOBS),
            model_aliases=draw(st.dictionaries(NAME, NAME, max_size=2)),
            default=draw(st.booleans()),
        )
        for number in range(draw(st.integers(1, 3)))
    ]


@given(backends(), st.lists(NAME, max_size=3))
def test_every_listed_model_has_a_route(configured: list[BackendConfig], found: list[str]) -> None:
    """The list and the router read the configuration separately and must agree."""
    router = Router([backend_client(one) for one in configured])
    for model in merge_models([listing(one, found) for one in configured]):
        assert model.backend_name in {route.backend.name for route in router.find(model.name)}


# Writing


def test_entry_fits_the_sdk_and_keeps_the_fields_of_the_backend() -> None:
    body = [{"id": "a", "object": "thing", "created": 7, "owned_by": "me", "max_model_len": 4096}]
    data, _ = entries(backend_config(), body)
    assert data == [
        {"id": "a", "object": "model", "created": 7, "owned_by": "me", "max_model_len": 4096}
    ]
    SdkModel.model_validate(data[0], strict=True)


def test_entry_of_a_bare_name_is_completed() -> None:
    data, _ = entries(backend_config("here"), ["a"])
    assert data == [{"id": "a", "object": "model", "created": 0, "owned_by": "here"}]


def test_both_formats_are_as_documented() -> None:
    written = write_models(merge_models([listing(backend_config(), ["a", {"id": "b"}])]))
    both = msgspec.json.decode(written, type=Models)
    assert [model.id for model in both.data] == [model.slug for model in both.models] == ["a", "b"]


def test_codex_gets_every_required_field() -> None:
    _, codex = entries(backend_config(), ["a", "b"])
    for priority, model in enumerate(codex):
        assert model.keys() >= REQUIRED_BY_CODEX
        assert model["priority"] == priority
        assert model["base_instructions"] == INSTRUCTIONS


def test_codex_gets_no_features_beyond_functions() -> None:
    model = codex_model("a", 0, context_window=None)
    assert (model.supports_search_tool, model.use_responses_lite) == (False, False)
    assert (model.multi_agent_version, model.tool_mode) == ("disabled", "direct")
    assert model.default_reasoning_level is None


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"max_model_len": 32768}, 32768),
        ({"context_window": 8192}, 8192),
        ({"context_length": 1_000_000}, 1_000_000),
        ({"max_context_length": 4096, "meta": {"n_ctx_train": 9}}, 4096),
        ({"meta": {"n_ctx": 2048, "n_ctx_train": 131072}}, 2048),
        ({"meta": {"n_ctx_train": 131072}}, 131072),
        ({"max_model_len": None, "context_length": "many", "meta": 3}, ASSUMED_CONTEXT_WINDOW),
        ({"max_model_len": True}, ASSUMED_CONTEXT_WINDOW),
        ({"max_model_len": -1}, ASSUMED_CONTEXT_WINDOW),
        ({}, ASSUMED_CONTEXT_WINDOW),
    ],
)
def test_codex_gets_the_context_window(fields: dict[str, object], window: int) -> None:
    _, codex = entries(backend_config(), [{"id": "a", **fields}])
    assert (codex[0]["context_window"], codex[0]["max_context_window"]) == (window, window)


# Fetching and caching

Outcome = httpx.Response | Exception
Handler = Callable[[httpx.Request], Awaitable[Outcome]]


class FakeTransport(httpx.AsyncBaseTransport):
    """A backend with given responses, the last one repeated; it records its requests."""

    def __init__(self, *outcomes: Outcome | Handler) -> None:
        self._outcomes = [*outcomes]
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if not isinstance(outcome, httpx.Response | Exception):
            outcome = await outcome(request)
        if isinstance(outcome, Exception):
            raise outcome
        return httpx.Response(outcome.status_code, content=_in_two_chunks(outcome.content))


async def _in_two_chunks(body: bytes) -> AsyncIterator[bytes]:
    yield body[:3]
    yield body[3:]


def list_of(*names: str) -> httpx.Response:
    return httpx.Response(200, json={"data": [{"id": name} for name in names]})


async def never(_: httpx.Request) -> Outcome:
    await asyncio.Event().wait()
    raise AssertionError("not reached")


def ids(body: bytes) -> list[str]:
    return [entry["id"] for entry in cast("list[Any]", json.loads(body)["data"])]


def fetch(models: ModelList, key: str | None = None) -> list[str]:
    return ids(asyncio.run(models.get(key)))


@pytest.mark.parametrize(
    ("key", "authorization", "expected"),
    [
        pytest.param("sk-ours", "Bearer sk-theirs", "Bearer sk-ours", id="of-the-backend"),
        pytest.param(None, "Bearer sk-theirs", "Bearer sk-theirs", id="of-the-client"),
        pytest.param(None, None, None, id="none"),
    ],
)
def test_request_has_the_right_key(
    key: str | None, authorization: str | None, expected: str | None
) -> None:
    transport = FakeTransport(list_of("a"))
    backend = backend_client(backend_config(headers={"X-Own": "1"}), transport, key)
    assert fetch(ModelList([backend]), authorization) == ["a"]
    [request] = transport.requests
    assert (request.method, str(request.url)) == ("GET", "http://one.test/v1/models")
    assert request.headers["x-own"] == "1"
    assert request.headers.get("authorization") == expected


@pytest.mark.parametrize(
    "failure",
    [
        httpx.ConnectError("no"),
        httpx.ReadTimeout("slow"),
        OSError("broken"),
        httpx.Response(404, json={"data": [{"id": "error"}]}),
        httpx.Response(500, text="<html>"),
        httpx.Response(200, text="garbage"),
        never,
    ],
)
def test_failing_backend_does_not_affect_others(failure: Outcome | Handler) -> None:
    bad = backend_client(backend_config("bad", models=("exact", "*")), FakeTransport(failure))
    good = backend_client(backend_config("good"), FakeTransport(list_of("a")))
    assert fetch(ModelList([bad, good], timeout=1)) == ["exact", "a"]


def test_backends_are_requested_in_parallel() -> None:
    both_requested = asyncio.Barrier(2)

    async def wait_for_both(_: httpx.Request) -> Outcome:
        await both_requested.wait()
        return list_of("a")

    transport = FakeTransport(wait_for_both)
    models = ModelList([backend_client(backend_config(name), transport) for name in ("1", "2")])
    assert fetch(models) == ["a"]


def test_list_is_cached() -> None:
    now, transport = 100.0, FakeTransport(list_of("a"), list_of("b"))
    models = ModelList([backend_client(backend_config(), transport)], clock=lambda: now)
    for seconds, expected in ((0, "a"), (CACHE_SECONDS - 1, "a"), (1, "b"), (0, "b")):
        now += seconds
        assert fetch(models) == [expected]
    assert len(transport.requests) == 2


def test_incomplete_list_is_refreshed_soon() -> None:
    now, transport = 100.0, FakeTransport(httpx.ConnectError("no"), list_of("a"))
    models = ModelList([backend_client(backend_config(), transport)], clock=lambda: now)
    assert fetch(models) == []
    now += INCOMPLETE_CACHE_SECONDS
    assert fetch(models) == ["a"]


def test_each_key_has_its_own_list() -> None:
    async def by_key(request: httpx.Request) -> Outcome:
        return list_of(request.headers["authorization"])

    models = ModelList([backend_client(backend_config(), FakeTransport(by_key))])
    for key in ("Bearer a", "Bearer b", "Bearer a"):
        assert fetch(models, key) == [key]


def test_parallel_requests_share_one_fetch() -> None:
    transport = FakeTransport(list_of("a"))
    models = ModelList([backend_client(backend_config(), transport)])

    async def fetch_in_parallel() -> list[bytes]:
        return await asyncio.gather(*(models.get(None) for _ in range(10)))

    assert len(set(asyncio.run(fetch_in_parallel()))) == 1
    assert len(transport.requests) == 1


def test_cancelled_request_does_not_affect_others() -> None:
    async def cancel_first() -> list[str]:
        started = asyncio.Event()

        async def first_hangs(request: httpx.Request) -> Outcome:
            started.set()
            return await never(request)

        transport = FakeTransport(first_hangs, list_of("a"))
        models = ModelList([backend_client(backend_config(), transport)])
        cancelled = asyncio.create_task(models.get(None))
        await started.wait()
        waiting = asyncio.create_task(models.get(None))
        await asyncio.sleep(0)
        cancelled.cancel()
        return ids(await waiting)

    assert asyncio.run(cancel_first()) == ["a"]


def test_too_long_list_is_ignored() -> None:
    huge = httpx.Response(200, content=b" " * (16 * 1024 * 1024 + 1))
    models = ModelList([backend_client(backend_config(models=("a",)), FakeTransport(huge))])
    assert fetch(models) == ["a"]


def test_model_by_name() -> None:
    transport = FakeTransport(list_of("a", "org/b"))
    models = ModelList([backend_client(backend_config("here"), transport)])
    model = json.loads(asyncio.run(models.find(None, "org/b")))
    assert model == {"id": "org/b", "object": "model", "created": 0, "owned_by": "here"}


def test_unknown_model_is_an_error() -> None:
    models = ModelList([backend_client(backend_config(), FakeTransport(list_of("a")))])
    with pytest.raises(ModelNotFoundError) as error:
        asyncio.run(models.find(None, "b"))
    assert (error.value.status, error.value.code) == (404, "model_not_found")


@pytest.mark.parametrize("dialect", ["chat", "legacy", "responses"])
def test_codex_gets_custom_tools_with_every_backend(dialect: DialectName) -> None:
    one = backend_client(replace(backend_config(), dialect=dialect), FakeTransport(list_of("a")))
    models = json.loads(asyncio.run(ModelList([one]).get(None)))["models"]
    assert [model["apply_patch_tool_type"] for model in models] == ["freeform"]
