"""Databases without a store on them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gateway.store.database import Database
from gateway.store.store import open_database


@asynccontextmanager
async def opened_database(url: str) -> AsyncGenerator[Database]:
    database = await open_database(url)
    try:
        yield database
    finally:
        await database.close()
