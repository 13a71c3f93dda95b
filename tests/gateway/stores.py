"""Stores on both kinds of databases, and objects to save in them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import pytest
from msgspec import Raw

from gateway.store import Item, Listing, Page, Response, Store, StoredTurn, open_store
from gateway.store.database import Database
from gateway.store.store import open_database
from tests.gateway.postgres import new_database

P = ParamSpec("P")

DATABASES = ("sqlite", "postgresql")
ON_BOTH_DATABASES = pytest.mark.parametrize("kind", DATABASES)


def new_url(kind: str, directory: Path) -> str:
    """Return the URL of an empty database."""
    if kind == "postgresql":
        return new_database()
    return "memory:" if kind == "memory" else f"sqlite:{directory / 'state.db'}"


def run_async(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in its own event loop."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def with_url(test: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[[str, Path], None]:
    """Run an async test on an empty database of each kind."""

    def run(kind: str, tmp_path: Path) -> None:
        asyncio.run(test(new_url(kind, tmp_path)))

    run.__name__ = test.__name__
    return ON_BOTH_DATABASES(run)


def with_two_stores(
    test: Callable[[Store, Store], Coroutine[Any, Any, None]],
) -> Callable[[str, Path], None]:
    """Run an async test on a database of each kind that two nodes share."""

    async def run(url: str) -> None:
        async with two_stores(url) as stores:
            await test(*stores)

    run.__name__ = test.__name__
    return with_url(run)


@asynccontextmanager
async def opened_database(url: str) -> AsyncGenerator[Database]:
    database = await open_database(url)
    try:
        yield database
    finally:
        await database.close()


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


def bodies(items: Iterable[Item]) -> list[Raw]:
    return [one.body for one in items]


async def load(store: Store, response_id: str) -> StoredTurn:
    """Return a turn, which must exist."""
    loaded = await store.responses.load("me", response_id)
    assert loaded is not None
    return loaded


async def load_items(store: Store, conversation_id: str, page: Page | None = None) -> Listing[Item]:
    """Return items of a conversation, which must exist."""
    listing = await store.conversations.list_items("me", conversation_id, page or Page())
    assert listing is not None
    return listing
