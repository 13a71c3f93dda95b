"""Where no key to seal with is configured, all nodes on one database share the one kept there."""

import asyncio
import base64
from pathlib import Path

import pytest

from gateway.assembly import make_sealer
from gateway.config.schema import Config, SealingConfig
from gateway.store import Store
from tests.gateway.stores import ON_BOTH_DATABASES, new_url, opened_store, with_two_stores


@with_two_stores
async def test_the_first_offer_is_the_secret_of_all(one: Store, other: Store) -> None:
    assert await one.secrets.get_or_create("a", b"first\0\xff") == b"first\0\xff"
    assert await other.secrets.get_or_create("a", b"second") == b"first\0\xff"
    assert await one.secrets.get_or_create("a", b"third") == b"first\0\xff"
    assert await other.secrets.get_or_create("b", b"another") == b"another"


@ON_BOTH_DATABASES
def test_nodes_that_start_at_once_agree(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def start(number: int) -> bytes:
        async with opened_store(url) as store:
            return await store.secrets.get_or_create("a", b"%d" % number)

    async def run() -> list[bytes]:
        return await asyncio.gather(*map(start, range(8)))

    assert len(set(asyncio.run(run()))) == 1


@ON_BOTH_DATABASES
def test_what_one_node_sealed_opens_on_another_and_after_a_restart(
    kind: str, tmp_path: Path
) -> None:
    url = new_url(kind, tmp_path)

    async def sealed_by_one() -> str:
        async with opened_store(url) as store:
            sealer = await make_sealer(Config(), store)
            return sealer.reasoning_sealer("local").seal(b"thoughts")

    async def opened_by_another(text: str) -> bytes | None:
        async with opened_store(url) as store:
            sealer = await make_sealer(Config(), store)
            return sealer.reasoning_sealer("local").open(text)

    assert asyncio.run(opened_by_another(asyncio.run(sealed_by_one()))) == b"thoughts"


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("A_SEALING_KEY", base64.b64encode(bytes(32)).decode())
    return Config(sealing=SealingConfig(key_env="A_SEALING_KEY"))


def test_a_configured_key_stays_out_of_the_database(configured: Config, tmp_path: Path) -> None:
    async def run() -> bytes:
        async with opened_store(new_url("sqlite", tmp_path)) as store:
            await make_sealer(configured, store)
            return await store.secrets.get_or_create("sealing key", b"nobody was before")

    assert asyncio.run(run()) == b"nobody was before"
