"""Asking the backends for their models, and remembering what they said."""

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
from tests.gateway.backends.test_models import backend, upstream

Answer = httpx.Response | Exception
Play = Callable[[httpx.Request], Awaitable[Answer]]


class Played(httpx.AsyncBaseTransport):
    """A backend that answers as it is told, and remembers what it was asked."""

    def __init__(self, *answers: Answer | Play) -> None:
        self._answers = [*answers]
        self.asked: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if not isinstance(answer, httpx.Response | Exception):
            answer = await answer(request)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, stream=Pieces(answer.content))


class Pieces(httpx.AsyncByteStream):
    """A body in two pieces."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body[:3]
        yield self._body[3:]


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lists(*found: str) -> httpx.Response:
    return httpx.Response(200, json={"data": [{"id": name} for name in found]})


async def never(_: httpx.Request) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError("it waits for ever")


def ids(body: bytes) -> list[str]:
    return [entry["id"] for entry in cast("list[Any]", json.loads(body)["data"])]


def test_backends_are_asked_with_the_right_key() -> None:
    keyed, open_ = Played(lists("a")), Played(lists("b"))
    models = ModelList(
        [
            upstream(backend("keyed", headers={"X-Own": "1"}), keyed, key="sk-ours"),
            upstream(backend("open"), open_),
        ]
    )
    assert ids(asyncio.run(models.get("Bearer sk-theirs"))) == ["a", "b"]
    assert str(keyed.asked[0].url) == "http://keyed.test/v1/models"
    assert keyed.asked[0].method == "GET"
    assert keyed.asked[0].headers["authorization"] == "Bearer sk-ours"
    assert keyed.asked[0].headers["x-own"] == "1"
    assert open_.asked[0].headers["authorization"] == "Bearer sk-theirs"


def test_backends_are_asked_without_a_key_if_there_is_none() -> None:
    played = Played(lists("a"))
    asyncio.run(ModelList([upstream(backend(), played)]).get(None))
    assert "authorization" not in played.asked[0].headers


@pytest.mark.parametrize(
    "bad",
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
def test_backend_that_fails_does_not_spoil_the_rest(bad: Answer | Play) -> None:
    models = ModelList(
        [
            upstream(backend("bad", models=("exact", "*")), Played(bad)),
            upstream(backend("good"), Played(lists("a"))),
        ],
        # So long one is waited for that never answers.
        patience=1,
    )
    assert ids(asyncio.run(models.get(None))) == ["exact", "a"]


def test_backends_are_asked_at_the_same_time() -> None:
    async def meet() -> bytes:
        both_there = asyncio.Barrier(2)

        async def wait_for_the_other(_: httpx.Request) -> Answer:
            await both_there.wait()
            return lists("a")

        first, second = Played(wait_for_the_other), Played(wait_for_the_other)
        models = ModelList([upstream(backend("1"), first), upstream(backend("2"), second)])
        return await models.get(None)

    assert ids(asyncio.run(meet())) == ["a"]


def test_list_is_remembered_for_a_while() -> None:
    clock, played = Clock(), Played(lists("a"), lists("b"))
    models = ModelList([upstream(backend(), played)], clock=clock)

    async def ask_later(seconds: float) -> list[str]:
        clock.now += seconds
        return ids(await models.get(None))

    async def ask_often() -> list[list[str]]:
        return [await ask_later(seconds) for seconds in (0, CACHE_SECONDS - 1, 1, 0)]

    assert asyncio.run(ask_often()) == [["a"], ["a"], ["b"], ["b"]]
    assert len(played.asked) == 2


def test_list_with_a_gap_is_soon_asked_for_again() -> None:
    clock, played = Clock(), Played(httpx.ConnectError("no"), lists("a"))
    models = ModelList([upstream(backend(), played)], clock=clock)

    async def ask_twice() -> list[list[str]]:
        first = ids(await models.get(None))
        clock.now += INCOMPLETE_CACHE_SECONDS
        return [first, ids(await models.get(None))]

    assert asyncio.run(ask_twice()) == [[], ["a"]]


def test_everybody_has_the_list_of_their_own_key() -> None:
    async def by_key(request: httpx.Request) -> Answer:
        return lists(request.headers["authorization"])

    models = ModelList([upstream(backend(), Played(by_key))])

    async def ask() -> list[list[str]]:
        return [ids(await models.get(key)) for key in ("Bearer a", "Bearer b", "Bearer a")]

    assert asyncio.run(ask()) == [["Bearer a"], ["Bearer b"], ["Bearer a"]]


def test_those_who_ask_at_once_share_one_answer() -> None:
    played = Played(lists("a"))
    models = ModelList([upstream(backend(), played)])

    async def ask_at_once() -> list[bytes]:
        return await asyncio.gather(*(models.get(None) for _ in range(10)))

    assert len(set(asyncio.run(ask_at_once()))) == 1
    assert len(played.asked) == 1


def test_who_leaves_does_not_spoil_it_for_who_waits() -> None:
    async def leave_and_wait() -> list[str]:
        began = asyncio.Event()

        async def first_hangs(request: httpx.Request) -> Answer:
            began.set()
            return await never(request)

        models = ModelList([upstream(backend(), Played(first_hangs, lists("a")))])
        leaves = asyncio.create_task(models.get(None))
        await began.wait()
        waits = asyncio.create_task(models.get(None))
        await asyncio.sleep(0)
        leaves.cancel()
        return ids(await waits)

    assert asyncio.run(leave_and_wait()) == ["a"]


def test_endless_list_is_given_up() -> None:
    huge = httpx.Response(200, content=b" " * (16 * 1024 * 1024 + 1))
    models = ModelList([upstream(backend(models=("a",)), Played(huge))])
    assert ids(asyncio.run(models.get(None))) == ["a"]


def test_one_model_is_found_by_its_name() -> None:
    models = ModelList([upstream(backend("here"), Played(lists("a", "org/b")))])
    found = json.loads(asyncio.run(models.find(None, "org/b")))
    assert found == {"id": "org/b", "object": "model", "created": 0, "owned_by": "here"}


def test_model_that_is_not_there_is_said_so() -> None:
    models = ModelList([upstream(backend(), Played(lists("a")))])
    with pytest.raises(ModelNotFoundError) as problem:
        asyncio.run(models.find(None, "b"))
    assert (problem.value.status, problem.value.code) == (404, "model_not_found")


@pytest.mark.parametrize("dialect", ["chat", "legacy", "responses"])
def test_codex_is_offered_custom_tools_with_every_backend(dialect: DialectName) -> None:
    one = upstream(replace(backend(), dialect=dialect), Played(lists("a")))
    models = json.loads(asyncio.run(ModelList([one]).get(None)))["models"]
    assert [model["apply_patch_tool_type"] for model in models] == ["freeform"]
