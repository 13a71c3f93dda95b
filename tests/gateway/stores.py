"""Stores for tests: over either database, one or two of them on the same, and things to keep."""

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
BOTH = pytest.mark.parametrize("kind", DATABASES)


def new_url(kind: str, directory: Path) -> str:
    """Give the URL of an empty database."""
    return new_database() if kind == "postgresql" else f"sqlite:{directory / 'state.db'}"


def over_both(test: Callable[[Store, Store], Awaitable[None]]) -> Callable[[str, Path], None]:
    """Run a test over each database, with two nodes on it."""

    def over(kind: str, tmp_path: Path) -> None:
        url = new_url(kind, tmp_path)

        async def run() -> None:
            async with two_nodes(url) as nodes:
                await test(*nodes)

        asyncio.run(run())

    over.__name__ = getattr(test, "__name__", "")
    return BOTH(over)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Store]:
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def two_nodes(url: str) -> AsyncGenerator[tuple[Store, Store]]:
    async with opened(url) as one, opened(url) as other:
        yield one, other


def item(name: str, text: str = "") -> Item:
    return Item(name, Raw(b'{"id":"%s","text":"%s"}' % (name.encode(), text.encode())))


def response(name: str, **fields: Any) -> Response:
    values: dict[str, Any] = {"owner": "me", "created": 1000, "status": "completed"}
    values["body"] = Raw(b'{"id":"%s","output":[]}' % name.encode())
    return Response(name, **(values | fields))


def turn(name: str, parent: str | None = None, **fields: Any) -> StoredTurn:
    """Make a turn with one item in and one out, named for it."""
    made = response(name, parent=parent, **fields)
    return StoredTurn(made, (item(f"{name}-in"),), (item(f"{name}-out"),))


def names(items: tuple[Item, ...]) -> list[str]:
    return [one.id for one in items]
