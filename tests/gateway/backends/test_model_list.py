"""Fetching the lists of models from the backends, and caching them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import httpx
import pytest
from msgspec.structs import replace

from gateway.backends.models import CACHE_SECONDS, INCOMPLETE_CACHE_SECONDS, ModelList
from gateway.config.schema import DialectName
from gateway.errors import ModelNotFoundError
from tests.gateway.backends.test_models import backend_client, backend_config

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
        return httpx.Response(outcome.status_code, stream=TwoChunks(outcome.content))


class TwoChunks(httpx.AsyncByteStream):
    """A body in two chunks."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body[:3]
        yield self._body[3:]


class Clock:
    """A clock that only tests advance."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def list_of(*names: str) -> httpx.Response:
    return httpx.Response(200, json={"data": [{"id": name} for name in names]})


async def never(_: httpx.Request) -> Outcome:
    await asyncio.Event().wait()
    raise AssertionError("not reached")


def ids(body: bytes) -> list[str]:
    return [entry["id"] for entry in cast("list[Any]", json.loads(body)["data"])]


def fetch(models: ModelList, key: str | None = None) -> list[str]:
    return ids(asyncio.run(models.get(key)))


def test_request_has_the_right_key() -> None:
    keyed, keyless = FakeTransport(list_of("a")), FakeTransport(list_of("b"))
    models = ModelList(
        [
            backend_client(backend_config("keyed", headers={"X-Own": "1"}), keyed, key="sk-ours"),
            backend_client(backend_config("open"), keyless),
        ]
    )
    assert fetch(models, "Bearer sk-theirs") == ["a", "b"]
    assert str(keyed.requests[0].url) == "http://keyed.test/v1/models"
    assert keyed.requests[0].method == "GET"
    assert keyed.requests[0].headers["authorization"] == "Bearer sk-ours"
    assert keyed.requests[0].headers["x-own"] == "1"
    assert keyless.requests[0].headers["authorization"] == "Bearer sk-theirs"


def test_request_without_a_key() -> None:
    transport = FakeTransport(list_of("a"))
    asyncio.run(ModelList([backend_client(backend_config(), transport)]).get(None))
    assert "authorization" not in transport.requests[0].headers


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
    models = ModelList(
        [
            backend_client(backend_config("bad", models=("exact", "*")), FakeTransport(failure)),
            backend_client(backend_config("good"), FakeTransport(list_of("a"))),
        ],
        timeout=1,
    )
    assert fetch(models) == ["exact", "a"]


def test_backends_are_requested_in_parallel() -> None:
    both_requested = asyncio.Barrier(2)

    async def wait_for_both(_: httpx.Request) -> Outcome:
        await both_requested.wait()
        return list_of("a")

    transport = FakeTransport(wait_for_both)
    models = ModelList([backend_client(backend_config(name), transport) for name in ("1", "2")])
    assert fetch(models) == ["a"]


def test_list_is_cached() -> None:
    clock, transport = Clock(), FakeTransport(list_of("a"), list_of("b"))
    models = ModelList([backend_client(backend_config(), transport)], clock=clock)

    for seconds, expected in ((0, "a"), (CACHE_SECONDS - 1, "a"), (1, "b"), (0, "b")):
        clock.now += seconds
        assert fetch(models) == [expected]
    assert len(transport.requests) == 2


def test_incomplete_list_is_refreshed_soon() -> None:
    clock, transport = Clock(), FakeTransport(httpx.ConnectError("no"), list_of("a"))
    models = ModelList([backend_client(backend_config(), transport)], clock=clock)
    assert fetch(models) == []
    clock.now += INCOMPLETE_CACHE_SECONDS
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
