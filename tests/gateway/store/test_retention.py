"""What is stored, for how long, and what is not stored, seen in the database itself."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import openai
import pytest
from msgspec import Raw

from gateway.http.auth import Principal
from gateway.retention import retention_task
from gateway.store import Completion, Conversation, Store
from tests.gateway.backend_replies import Turn, script_turns
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS, backend_tables, state_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.rows import count_rows, execute
from tests.gateway.scripted_backend import ScriptedBackend
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.stores import ON_BOTH_DATABASES, item, new_url, opened_store, turn
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until

ME = Principal(authorization="Bearer sk-me").owner
HELLO: Any = [{"role": "user", "content": "Hello"}]


def write_to(url: str, write: Callable[[Store], Awaitable[None]]) -> None:
    """Write to a database before a gateway uses it."""

    async def run() -> None:
        async with opened_store(url) as store:
            await write(store)

    asyncio.run(run())


async def save_one_of_each(store: Store, suffix: str, created: int) -> None:
    await store.responses.save(turn(f"resp_{suffix}", owner=ME, created=created))
    conversation = Conversation(f"conv_{suffix}", ME, created)
    await store.conversations.create(conversation, [item(f"msg_{suffix}")])
    body = Raw(b'{"object":"chat.completion","choices":[]}')
    completion = Completion(f"chatcmpl-{suffix}", ME, created, body, Raw(b"[]"), "m", {"a": "b"})
    await store.completions.save(completion)


@ON_BOTH_DATABASES
def test_unused_objects_are_deleted(kind: str, tmp_path: Path, backend: ScriptedBackend) -> None:
    url = new_url(kind, tmp_path)
    now = int(time.time())

    async def write(store: Store) -> None:
        for number in range(150):
            await store.completions.save(
                Completion(f"many-{number}", ME, 1000, Raw(b"{}"), Raw(b"[]"))
            )
        await save_one_of_each(store, "old", now - 2 * 86_400)
        await save_one_of_each(store, "new", now - 60)
        # Old, but used since.
        await store.responses.save(turn("resp_first", owner=ME, created=1000))
        await store.responses.save(turn("resp_second", "resp_first", owner=ME, created=now))
        await store.conversations.create(Conversation("conv_used", ME, 1000))
        await store.conversations.append_items(ME, "conv_used", [item("msg_used")])

    write_to(url, write)
    settings = state_table(url, "retention_days = 1.5") + backend_tables(backend.address)
    with run_gateway(settings, tmp_path) as gateway, sdk_client(gateway) as client:
        wait_until(lambda: execute(url, "SELECT COUNT(*) FROM completions")[0][0] == 1)
        retrieve: list[Callable[[str], object]] = [
            lambda name: client.responses.retrieve(f"resp_{name}"),
            lambda name: client.conversations.retrieve(f"conv_{name}"),
            lambda name: client.chat.completions.retrieve(f"chatcmpl-{name}"),
        ]
        for get in retrieve:
            # The same error as for an object that never existed.
            assert error_text(get, "old").replace("old", "nil") == error_text(get, "nil")
            get("new")
        client.responses.retrieve("resp_first")
        assert [one.id for one in client.conversations.items.list("conv_used")] == ["msg_used"]
        assert execute(url, "SELECT COUNT(*) FROM labels") == [(1,)]
        assert execute(url, "SELECT id FROM items WHERE id LIKE '%old%'") == []
    assert "unused objects deleted" in gateway.log


def error_text(get: Callable[[str], object], name: str) -> str:
    with pytest.raises(openai.NotFoundError) as caught:
        get(name)
    return caught.value.response.text


async def run_retention_once(store: Store, days: float) -> int:
    """Run the retention task until its first run is over; return how often it ran."""
    runs = -1
    finished = asyncio.Event()

    def jitter() -> float:
        """Return no delay; called before the first run and after each one."""
        nonlocal runs
        runs += 1
        if runs:
            finished.set()
        return 0

    async with retention_task(store, days, jitter):
        if days:
            await asyncio.wait_for(finished.wait(), TIMEOUT_SECONDS)
    return max(runs, 0)


@pytest.mark.parametrize(("days", "left"), [(0, ["old", "new"]), (1, ["new"])])
def test_zero_days_disable_retention(days: float, left: list[str]) -> None:
    async def run() -> list[str]:
        async with opened_store("memory:") as store:
            await save_one_of_each(store, "old", 1000)
            await save_one_of_each(store, "new", int(time.time()))
            assert bool(await run_retention_once(store, days)) == bool(days)
            loaded = {
                it: await store.completions.load(ME, f"chatcmpl-{it}") for it in ("old", "new")
            }
            return [suffix for suffix, completion in loaded.items() if completion]

    assert asyncio.run(run()) == left


def test_retention_uses_the_clock_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time())

    async def run() -> bool:
        async with opened_store("memory:") as store:
            await save_one_of_each(store, "new", now)
            monkeypatch.setattr(time, "time", lambda: now + 100 * 86_400)
            assert await run_retention_once(store, 30)
            return await store.responses.load(ME, "resp_new") is not None

    assert asyncio.run(run())


def test_failed_retention_run_is_repeated(tmp_path: Path, backend: ScriptedBackend) -> None:
    url = new_url("sqlite", tmp_path)
    write_to(url, lambda store: save_one_of_each(store, "old", 1000))
    execute(url, "ALTER TABLE labels RENAME TO missing")
    # About a second, which is then the interval, too.
    settings = state_table(url, "retention_days = 0.00001") + backend_tables(backend.address)
    with run_gateway(settings, tmp_path) as gateway:
        wait_until(lambda: "retention run failed" in gateway.log)
        assert httpx.get(f"{gateway.address}/health", timeout=TIMEOUT_SECONDS).status_code == 200
        execute(url, "ALTER TABLE missing RENAME TO labels")
        wait_until(lambda: count_rows(url) == {})
    assert "Traceback" not in gateway.log


# Requests that are not stored


@ON_BOTH_DATABASES
def test_requests_without_store_leave_no_rows(
    kind: str, tmp_path: Path, backend: ScriptedBackend, new_model: NewModel
) -> None:
    url = new_url(kind, tmp_path)
    with (
        run_gateway(state_table(url) + backend_tables(backend.address), tmp_path) as gateway,
        sdk_client(gateway) as client,
    ):
        for dialect in DIALECTS:
            model = new_model(dialect)
            script_turns(backend, dialect, model, *[Turn("Fine.")] * 6)
            responses: Any = client.responses
            completions: Any = client.chat.completions
            for stream in (False, True):
                body = {"model": model, "stream": stream}
                read(responses.create(**body, input="Hello", store=False))
                read(completions.create(**body, messages=HELLO, store=False))
                read(completions.create(**body, messages=HELLO))
            assert len(backend.received(model)) == 6
        assert count_rows(url) == {}
        # With `store` there are rows.
        script_turns(backend, "chat", model := new_model("chat"), *[Turn("Fine.")] * 2)
        client.responses.create(model=model, input="Hello")
        client.chat.completions.create(model=model, messages=HELLO, store=True, metadata={"a": "b"})
        assert count_rows(url) == {"responses": 1, "items": 2, "completions": 1, "labels": 1}


def read(reply: Any) -> None:
    """Read a reply, streamed or not."""
    if isinstance(reply, openai.Stream):
        assert [*cast("Iterable[object]", reply)]


# Failed writes


@pytest.fixture(params=["sqlite", "postgresql"])
def broken(
    request: pytest.FixtureRequest, tmp_path: Path, backend: ScriptedBackend
) -> Iterator[Gateway]:
    """Run a gateway whose database has lost the table of completions."""
    url = new_url(request.param, tmp_path)
    with run_gateway(state_table(url) + backend_tables(backend.address), tmp_path) as gateway:
        execute(url, "DROP TABLE completions")
        yield gateway


@pytest.mark.parametrize("dialect", DIALECTS)
def test_completion_fails_if_it_cannot_be_stored(
    dialect: str, broken: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    script_turns(backend, dialect, model, *[Turn("Fine.")] * 3)
    body: Any = {"model": model, "messages": HELLO, "store": True}
    with sdk_client(broken) as client:
        with pytest.raises(openai.InternalServerError) as error:
            client.chat.completions.create(**body)
        assert error.value.status_code == 503
        assert error.value.code == "state_unavailable"
        with pytest.raises(openai.APIError) as stream_error:
            list(client.chat.completions.create(**body, stream=True))
        assert stream_error.value.code == "state_unavailable"
        # A completion that is not stored does not need the table.
        plain = client.chat.completions.create(model=model, messages=HELLO)
        assert plain.choices[0].message.content == "Fine."
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.list()
