"""Without a configured sealing key, all nodes on one database share one that is stored there."""

import asyncio
import base64

import pytest

from adapters import Sealer
from gateway.app import make_sealing_keys
from gateway.config.schema import Config, SealingConfig
from gateway.store import Store
from tests.gateway.stores import opened_store, with_two_stores, with_url


@with_two_stores
async def test_first_value_of_a_secret_is_kept(one: Store, other: Store) -> None:
    assert await one.secrets.get_or_create("a", b"first\0\xff") == b"first\0\xff"
    assert await other.secrets.get_or_create("a", b"second") == b"first\0\xff"
    assert await one.secrets.get_or_create("a", b"third") == b"first\0\xff"
    assert await other.secrets.get_or_create("b", b"another") == b"another"


@with_url
async def test_nodes_that_start_at_once_get_the_same_secret(url: str) -> None:
    async def start(number: int) -> bytes:
        async with opened_store(url) as store:
            return await store.secrets.get_or_create("a", b"%d" % number)

    assert len(set(await asyncio.gather(*map(start, range(8))))) == 1


@with_url
async def test_sealed_text_opens_on_another_node_and_after_a_restart(url: str) -> None:
    async def local_sealer() -> Sealer:
        async with opened_store(url) as store:
            return (await make_sealing_keys(Config(), store)).reasoning_sealer("local")

    sealed = (await local_sealer()).seal(b"reasoning")
    assert (await local_sealer()).open(sealed) == b"reasoning"


@with_url
async def test_configured_key_is_not_stored(url: str) -> None:
    config = Config(sealing=SealingConfig(key_env="A_SEALING_KEY"))
    async with opened_store(url) as store:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("A_SEALING_KEY", base64.b64encode(bytes(32)).decode())
            await make_sealing_keys(config, store)
        assert await store.secrets.get_or_create("sealing key", b"new") == b"new"
