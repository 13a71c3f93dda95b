"""Stores on both kinds of databases, and objects to save in them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from gateway.store import Item, Response, Store, StoredTurn, open_store
from tests.gateway.postgres import new_database

DATABASES = ("sqlite", "postgresql")
ON_BOTH_DATABASES = pytest.mark.parametrize("kind", DATABASES)


def new_url(kind: str, directory: Path) -> str:
    """Return the URL of an empty database."""
    return new_database() if kind == "postgresql" else f"sqlite:{directory / 'state.db'}"


def with_url(test: Callable[[str], Awaitable[None]]) -> Callable[[str, Path], None]:
    """Run an async test on an empty database of each kind."""

    def run(kind: str, tmp_path: Path) -> None:
        url = new_url(kind, tmp_path)

        async def run_test() -> None:
            await test(url)

        asyncio.run(run_test())

    run.__name__ = getattr(test, "__name__", "")
    return ON_BOTH_DATABASES(run)


def with_two_stores(test: Callable[[Store, Store], Awaitable[None]]) -> Callable[[str, Path], None]:
    """Run an async test on a database of each kind that two nodes share."""

    async def run(url: str) -> None:
        async with two_stores(url) as stores:
            await test(*stores)

    run.__name__ = getattr(test, "__name__", "")
    return with_url(run)


@asynccontextmanager
async def opened_store(url: str) -> AsyncGenerator[Store]:
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def two_stores(url: str) -> AsyncGenerator[tuple[Store, Store]]:
    async with opened_store(url) as one, opened_store(url) as other:
        yield one, other


def item(item_id: str, text: str = "") -> Item:
    return Item(item_id, Raw(b'{"id":"%s","text":"%s"}' % (item_id.encode(), text.encode())))


def response(response_id: str, **fields: Any) -> Response:
    values: dict[str, Any] = {"owner": "me", "created": 1000, "status": "completed"}
    values["body"] = Raw(b'{"id":"%s","output":[]}' % response_id.encode())
    return Response(response_id, **(values | fields))


def turn(response_id: str, parent: str | None = None, **fields: Any) -> StoredTurn:
    """Return a turn with one input item and one output item, named after it."""
    return StoredTurn(
        response(response_id, parent=parent, **fields),
        (item(f"{response_id}-in"),),
        (item(f"{response_id}-out"),),
    )


def ids(items: tuple[Item, ...]) -> list[str]:
    return [one.id for one in items]
