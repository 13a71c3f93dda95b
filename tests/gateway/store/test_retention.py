"""What is kept, for how long, and what is not kept at all: seen in the database itself."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import openai
import pytest
from msgspec import Raw

from gateway.http.auth import Principal
from gateway.retention import retention_task
from gateway.store import Completion, Conversation, Store
from tests.gateway.conftest import DIALECTS, Fresh, state, tables
from tests.gateway.keeping import client_of, says, until
from tests.gateway.process import Gateway, running
from tests.gateway.rows import count_rows, execute
from tests.gateway.scripted import PATIENCE, ScriptedBackend
from tests.gateway.speech import Turn
from tests.gateway.stores import ON_BOTH_DATABASES, item, new_url, opened_store, turn

ME = Principal(authorization="Bearer sk-me").owner
HELLO: Any = [{"role": "user", "content": "Hello"}]


def written(url: str, work: Callable[[Store], Any]) -> None:
    """Write something into a database that nobody serves yet."""

    async def write() -> None:
        async with opened_store(url) as store:
            await work(store)

    asyncio.run(write())


async def write_all(store: Store, suffix: str, created: int) -> None:
    """Write one of each kind."""
    made = turn(f"resp_{suffix}", owner=ME, created=created)
    await store.responses.save(made)
    conversation = Conversation(f"conv_{suffix}", ME, created)
    await store.conversations.create(conversation, [item(f"msg_{suffix}")])
    body = Raw(b'{"object":"chat.completion","choices":[]}')
    completion = Completion(f"chatcmpl-{suffix}", ME, created, body, Raw(b"[]"), "m", {"a": "b"})
    await store.completions.save(completion)


@ON_BOTH_DATABASES
def test_what_is_old_goes_and_what_is_used_stays(
    kind: str, tmp_path: Path, backend: ScriptedBackend
) -> None:
    url = new_url(kind, tmp_path)
    now = int(time.time())

    async def write(store: Store) -> None:
        for number in range(150):
            await store.completions.save(
                Completion(f"many-{number}", ME, 1000, Raw(b"{}"), Raw(b"[]"))
            )
        await write_all(store, "old", now - 2 * 86_400)
        await write_all(store, "new", now - 60)
        # Old, but continued or added to since.
        await store.responses.save(turn("resp_first", owner=ME, created=1000))
        await store.responses.save(turn("resp_second", "resp_first", owner=ME, created=now))
        await store.conversations.create(Conversation("conv_used", ME, 1000))
        await store.conversations.append_items(ME, "conv_used", [item("msg_used")])

    written(url, write)
    settings = state(url, "retention_days = 1.5") + tables(backend.address)
    with running(settings, tmp_path) as gateway, client_of(gateway) as client:
        until(lambda: execute(url, "SELECT COUNT(*) FROM completions")[0][0] == 1)
        missing: list[Callable[[str], object]] = [
            lambda name: client.responses.retrieve(f"resp_{name}"),
            lambda name: client.conversations.retrieve(f"conv_{name}"),
            lambda name: client.chat.completions.retrieve(f"chatcmpl-{name}"),
        ]
        for find in missing:
            # Told exactly as what was never there.
            assert refusal(find, "old").replace("old", "") == refusal(find, "nil").replace(
                "nil", ""
            )
            find("new")
        client.responses.retrieve("resp_first")
        assert [one.id for one in client.conversations.items.list("conv_used")] == ["msg_used"]
        assert execute(url, "SELECT COUNT(*) FROM labels") == [(1,)]
        assert execute(url, "SELECT id FROM items WHERE id LIKE '%old%'") == []
    assert "expired data deleted" in gateway.log


def refusal(find: Callable[[str], object], name: str) -> str:
    with pytest.raises(openai.NotFoundError) as caught:
        find(name)
    return caught.value.response.text


@pytest.mark.parametrize(("days", "left"), [(0, ["old", "new"]), (1, ["new"])])
def test_zero_days_are_for_ever(days: float, left: list[str]) -> None:
    """Without chance a sweep begins at once; where nothing is swept, nobody even asks for it."""
    asked: list[int] = []

    async def run() -> list[str]:
        swept = asyncio.Event()

        def chance() -> float:
            # Asked before the first sweep, and again when that is done.
            asked.append(1)
            if len(asked) > 1:
                swept.set()
            return 0

        async with opened_store("memory:") as store:
            await write_all(store, "old", 1000)
            await write_all(store, "new", int(time.time()))
            async with retention_task(store, days, chance):
                if days:
                    await asyncio.wait_for(swept.wait(), PATIENCE)
            found = [await store.completions.load(ME, f"chatcmpl-{it}") for it in ("old", "new")]
            return [one.id.removeprefix("chatcmpl-") for one in found if one]

    assert asyncio.run(run()) == left
    assert bool(asked) == bool(days)


def test_a_machine_whose_clock_is_ahead_forgets_nothing_that_is_young(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = int(time.time())
    asked: list[int] = []

    async def run() -> bool:
        swept = asyncio.Event()

        def chance() -> float:
            # Asked before the first sweep, and again when that is done.
            asked.append(1)
            if len(asked) > 1:
                swept.set()
            return 0

        async with opened_store("memory:") as store:
            await write_all(store, "new", now)
            monkeypatch.setattr(time, "time", lambda: now + 100 * 86_400)
            async with retention_task(store, 30, chance):
                await asyncio.wait_for(swept.wait(), PATIENCE)
            return await store.responses.load(ME, "resp_new") is not None

    assert asyncio.run(run())


def test_a_sweep_that_fails_is_tried_again(tmp_path: Path, backend: ScriptedBackend) -> None:
    url = new_url("sqlite", tmp_path)
    written(url, lambda store: write_all(store, "old", 1000))
    execute(url, "ALTER TABLE labels RENAME TO elsewhere")
    # About a second: so often it is tried, too.
    settings = state(url, "retention_days = 0.00001") + tables(backend.address)
    with running(settings, tmp_path) as gateway:
        until(lambda: "retention run failed" in gateway.log)
        assert httpx.get(f"{gateway.address}/health", timeout=PATIENCE).status_code == 200
        execute(url, "ALTER TABLE elsewhere RENAME TO labels")
        until(lambda: count_rows(url) == {})
    assert "Traceback" not in gateway.log


# What is not to be kept


@ON_BOTH_DATABASES
def test_what_is_not_to_be_stored_is_nowhere(
    kind: str, tmp_path: Path, backend: ScriptedBackend, fresh: Fresh
) -> None:
    url = new_url(kind, tmp_path)
    with (
        running(state(url) + tables(backend.address), tmp_path) as gateway,
        client_of(gateway) as client,
    ):
        for dialect in DIALECTS:
            model = fresh(dialect)
            says(backend, dialect, model, *[Turn("Fine.")] * 6)
            responses: Any = client.responses
            completions: Any = client.chat.completions
            for stream in (False, True):
                asked = {"model": model, "stream": stream}
                read(responses.create(**asked, input="Hello", store=False))
                read(completions.create(**asked, messages=HELLO, store=False))
                read(completions.create(**asked, messages=HELLO))
            assert len(backend.received(model)) == 6
        assert count_rows(url) == {}
        # The other way round, to know that it would have been seen.
        says(backend, "chat", model := fresh("chat"), *[Turn("Fine.")] * 2)
        client.responses.create(model=model, input="Hello")
        client.chat.completions.create(model=model, messages=HELLO, store=True, metadata={"a": "b"})
        assert count_rows(url) == {"responses": 1, "items": 2, "completions": 1, "labels": 1}


def read(answer: Any) -> None:
    """Read an answer to its end, whole or streamed."""
    if isinstance(answer, openai.Stream):
        assert [*cast("Iterable[object]", answer)]


# What cannot be kept


@pytest.fixture(params=["sqlite", "postgresql"])
def broken(
    request: pytest.FixtureRequest, tmp_path: Path, backend: ScriptedBackend
) -> Iterator[Gateway]:
    """Run a gateway whose database has lost what it needs for completions."""
    url = new_url(request.param, tmp_path)
    with running(state(url) + tables(backend.address), tmp_path) as gateway:
        execute(url, "DROP TABLE completions")
        yield gateway


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_cannot_be_kept_is_not_told_as_if_it_were(
    dialect: str, broken: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    says(backend, dialect, model, *[Turn("Fine.")] * 3)
    asked: Any = {"model": model, "messages": HELLO, "store": True}
    with client_of(broken) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            client.chat.completions.create(**asked)
        assert caught.value.status_code == 503
        assert caught.value.code == "state_unavailable"
        said: list[str] = []
        with pytest.raises(openai.APIError) as streamed:
            said += [
                chunk.choices[0].delta.content or ""
                for chunk in client.chat.completions.create(**asked, stream=True)
                if chunk.choices
            ]
        assert streamed.value.code == "state_unavailable"
        # Who did not ask for it has nothing to fear.
        plain = client.chat.completions.create(model=model, messages=HELLO)
        assert plain.choices[0].message.content == "Fine."
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.list()
