"""Sealed texts open to the same bytes, for their purpose only; random ids sort by time."""

import asyncio
import base64
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters import Sealer
from adapters.ir.types import ExtraField, Reasoning, Request, ToolCall
from adapters.losses import Losses
from adapters.reasoning.policy import ReasoningRestorer, strip_sealed
from adapters.reasoning.sealed import ReasoningPayload, extra_content_field
from gateway.config.schema import Config, SealingConfig
from gateway.crypto import (
    RANDOM_IDS,
    REASONING_PREFIX,
    SealingKeys,
    new_sealing_key,
    parse_sealing_key,
)
from gateway.service import make_sealing_keys
from gateway.store import Store
from tests.gateway.stores import opened_store, with_two_stores, with_url

KEY = bytes(range(32))
OTHER_KEY = bytes(32)
SEALER = SealingKeys(KEY).reasoning_sealer("local")


def decode(sealed: str) -> bytes:
    text = sealed.removeprefix(REASONING_PREFIX)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(blob: bytes) -> str:
    return REASONING_PREFIX + base64.urlsafe_b64encode(blob).decode().rstrip("=")


@given(st.binary(max_size=300))
def test_sealed_text_opens_to_the_same_bytes(payload: bytes) -> None:
    sealed = SEALER.seal(payload)
    assert sealed.startswith(REASONING_PREFIX)
    # Another process with the same key, and one in which the key was replaced.
    for ring in (SealingKeys(KEY), SealingKeys(OTHER_KEY, [KEY])):
        assert ring.reasoning_sealer("local").open(sealed) == payload


@given(st.binary(max_size=60), st.data())
def test_changed_text_does_not_open(payload: bytes, data: st.DataObject) -> None:
    sealed = SEALER.seal(payload)
    blob = bytearray(decode(sealed))
    bit = data.draw(st.integers(0, 8 * len(blob) - 1))
    blob[bit // 8] ^= 1 << bit % 8
    assert SEALER.open(encode(bytes(blob))) is None
    index = data.draw(st.integers(0, len(sealed) - 1))
    changed = data.draw(st.characters(codec="utf-8").filter(lambda one: one != sealed[index]))
    assert SEALER.open(sealed[:index] + changed + sealed[index + 1 :]) is None


@given(st.binary(max_size=60), st.integers(0, 200))
def test_shortened_or_extended_text_does_not_open(payload: bytes, length: int) -> None:
    sealed = SEALER.seal(payload)
    assert SEALER.open(sealed[: min(length, len(sealed) - 1)]) is None
    assert SEALER.open(sealed + "A" * (length + 1)) is None
    assert SEALER.open(sealed + "=") is None


@given(st.binary(max_size=60), st.text(max_size=8).filter(lambda name: name != "local"))
def test_another_backend_or_key_does_not_open(payload: bytes, name: str) -> None:
    sealed = SEALER.seal(payload)
    assert SealingKeys(KEY).reasoning_sealer(name).open(sealed) is None
    assert SealingKeys(OTHER_KEY).reasoning_sealer("local").open(sealed) is None


@pytest.mark.parametrize("text", ["", "gAAAAABo", "AQ", "é", "\ud800"])
@pytest.mark.parametrize("prefix", ["", REASONING_PREFIX])
def test_other_text_does_not_open(prefix: str, text: str) -> None:
    assert SEALER.open(prefix + text) is None


def test_same_payload_is_sealed_differently() -> None:
    assert SEALER.seal(b"the same") != SEALER.seal(b"the same")


def test_payload_is_compressed() -> None:
    assert len(SEALER.seal(b"so I think, " * 1000)) < 300


# Keys


@pytest.mark.parametrize(
    "text",
    [
        KEY.hex(),
        KEY.hex().upper(),
        base64.b64encode(KEY).decode(),
        base64.urlsafe_b64encode(KEY).decode().rstrip("="),
        f" {base64.b64encode(KEY).decode()}\n",
    ],
)
def test_key_is_parsed_from_hex_or_base64(text: str) -> None:
    assert parse_sealing_key(text) == KEY


@pytest.mark.parametrize("text", ["", "short", "z" * 64, base64.b64encode(bytes(31)).decode(), "é"])
def test_invalid_key_is_rejected(text: str) -> None:
    assert parse_sealing_key(text) is None


def test_new_keys_differ() -> None:
    assert new_sealing_key() != new_sealing_key()


# The key that nodes share if none is configured


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


# Sealed texts in requests


@given(st.text(max_size=40))
def test_request_with_invalid_sealed_texts_loses_only_these(text: str) -> None:
    losses = Losses("refuse")
    sealed = extra_content_field(text, "completions")
    other = ExtraField("completions", "mine", Raw(b"1"))
    items = (
        Reasoning(("Look.",), encrypted=REASONING_PREFIX + text, item_id="rs_1"),
        Reasoning(encrypted=text or "x"),
        ToolCall("call_1", "look", extras=(sealed, other)),
    )
    restorer = ReasoningRestorer(SEALER, losses, native=False)
    request = restorer.restore(Request(items=items), {"call_1": text})
    assert request.items == (ToolCall("call_1", "look", extras=(other,)),)
    assert len(losses) == 3


def test_sealed_payload_of_another_version_is_dropped() -> None:
    losses = Losses()
    item = Reasoning(encrypted=SEALER.seal(b'{"thoughts":"another format"}'))
    restorer = ReasoningRestorer(SEALER, losses, native=False)
    assert restorer.restore(Request(items=(item,)), {}).items == ()
    assert len(losses) == 1


# Sealed texts in bodies that pass through


def test_only_our_sealed_items_are_stripped() -> None:
    sealed = ReasoningPayload((Reasoning(("Hm.",)),)).seal(SEALER)
    text = f"What does {sealed} mean?"
    body = (
        b'{"model": "m", "n": 1.10, "input": [{"role": "user", "content": "%s"},'
        b' {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "%s"},'
        b' {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAA"}]}'
    )
    stripped = strip_sealed(body % (text.encode(), sealed.encode()), REASONING_PREFIX)
    assert stripped == (
        b'{"model":"m","n":1.10,"input":[{"role":"user","content":"%s"},'
        b'{"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAA"}]}'
        % text.encode()
    )


def test_foreign_extra_content_is_not_stripped() -> None:
    sealed = SEALER.seal(b"{}").encode()
    body = b'{"tool_calls":[{"extra_content":{"google":{"a": 1},"dragoman":{"sealed":"%s"}}}]}'
    stripped = b'{"tool_calls":[{"extra_content":{"google":{"a": 1}}}]}'
    assert strip_sealed(body % sealed, REASONING_PREFIX) == stripped
    ours = b'{"tool_calls":[{"extra_content":{"dragoman":"%s"}}]}' % sealed
    assert strip_sealed(ours, REASONING_PREFIX) == b'{"tool_calls":[{}]}'


@pytest.mark.parametrize("body", [b"", b"{", b'{"input": "%s"}', b'["%s"', b'{"a": {"b": ["%s"]}}'])
def test_body_without_sealed_items_is_not_changed(body: bytes) -> None:
    original = body.replace(b"%s", REASONING_PREFIX.encode())
    assert strip_sealed(original, REASONING_PREFIX) is original


# Random ids


def test_ids_sort_in_the_order_of_their_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    ids: list[str] = []
    for second in (1_000, 1_700_000_000, 2_000_000_000, 200_000_000_000):
        nanoseconds = second * 10**9
        for later in (0, 10**6):
            monkeypatch.setattr(time, "time_ns", lambda time=nanoseconds + later: time)
            ids.append(RANDOM_IDS.id("msg_"))
    assert ids == sorted(ids)
    assert all(re.fullmatch("msg_[0-9a-f]{32}", one) for one in ids)


def test_ids_of_the_same_time_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000 * 10**9)
    ids = {RANDOM_IDS.id("resp_") for _ in range(1000)}
    assert len(ids) == 1000
