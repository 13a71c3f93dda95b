"""Seals: what was sealed opens to the same bytes, for its backend, and in no other way."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters.ir.types import ExtraField, Reasoning, Request, ToolCall
from adapters.losses import Losses
from adapters.reasoning.restore import ReasoningRestorer
from adapters.reasoning.sealed import SealedReasoning, extra_content_field
from adapters.reasoning.strip import strip_sealed
from gateway.config import ConfigError, load_config
from gateway.crypto import REASONING_PREFIX, KeyRing, new_sealing_key, parse_sealing_key

KEY = bytes(range(32))
OTHER = bytes(32)
SEAL = KeyRing(KEY).reasoning_sealer("local")


@given(st.binary(max_size=300))
def test_what_was_sealed_opens_to_the_same_bytes(payload: bytes) -> None:
    sealed = SEAL.seal(payload)
    assert sealed.startswith(REASONING_PREFIX)
    # A restart, or another node, with the same key.
    assert KeyRing(KEY).reasoning_sealer("local").open(sealed) == payload
    # And the key may have been replaced since.
    assert KeyRing(OTHER, [KEY]).reasoning_sealer("local").open(sealed) == payload


@given(st.binary(max_size=60), st.data())
def test_any_changed_bit_is_refused(payload: bytes, data: st.DataObject) -> None:
    sealed = SEAL.seal(payload)
    blob = bytearray(_blob(sealed))
    place = data.draw(st.integers(0, 8 * len(blob) - 1))
    blob[place // 8] ^= 1 << place % 8
    assert SEAL.open(_text(bytes(blob))) is None


@given(st.binary(max_size=60), st.data())
def test_any_changed_character_is_refused(payload: bytes, data: st.DataObject) -> None:
    sealed = SEAL.seal(payload)
    place = data.draw(st.integers(0, len(sealed) - 1))
    changed = data.draw(st.characters(codec="utf-8").filter(lambda one: one != sealed[place]))
    assert SEAL.open(sealed[:place] + changed + sealed[place + 1 :]) is None


@given(st.binary(max_size=60), st.integers(0, 200))
def test_what_was_cut_or_grew_is_refused(payload: bytes, length: int) -> None:
    sealed = SEAL.seal(payload)
    assert SEAL.open(sealed[: min(length, len(sealed) - 1)]) is None
    assert SEAL.open(sealed + "A" * (length + 1)) is None
    assert SEAL.open(sealed + "=") is None


@given(st.binary(max_size=60), st.text(max_size=8).filter(lambda name: name != "local"))
def test_another_backend_or_key_does_not_open(payload: bytes, name: str) -> None:
    sealed = SEAL.seal(payload)
    assert KeyRing(KEY).reasoning_sealer(name).open(sealed) is None
    assert KeyRing(OTHER).reasoning_sealer("local").open(sealed) is None


@pytest.mark.parametrize(
    "text",
    ["", "gAAAAABo", REASONING_PREFIX, REASONING_PREFIX + "AQ", REASONING_PREFIX + "é", "\ud800"],
)
def test_what_is_no_seal_is_refused(text: str) -> None:
    assert SEAL.open(text) is None


def test_no_two_seals_are_alike() -> None:
    assert SEAL.seal(b"the same") != SEAL.seal(b"the same")


def test_what_repeats_itself_is_short() -> None:
    assert len(SEAL.seal(b"so I think, " * 1000)) < 300


def _blob(sealed: str) -> bytes:
    text = sealed.removeprefix(REASONING_PREFIX)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _text(blob: bytes) -> str:
    return REASONING_PREFIX + base64.urlsafe_b64encode(blob).decode().rstrip("=")


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
def test_a_key_is_read_in_hex_or_base64(text: str) -> None:
    assert parse_sealing_key(text) == KEY


@pytest.mark.parametrize("text", ["", "short", "z" * 64, base64.b64encode(bytes(31)).decode(), "é"])
def test_what_is_no_key_is_refused(text: str) -> None:
    assert parse_sealing_key(text) is None


def test_keys_are_made_new() -> None:
    assert new_sealing_key() != new_sealing_key()


def _mistakes(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "dragoman.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    return [mistake.removeprefix(f"{file}: ") for mistake in caught.value.errors]


def test_mistakes_about_keys_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAD_KEY", "secret but short")
    monkeypatch.delenv("NO_KEY", raising=False)
    wrong = "the variable must contain 32 bytes in base64 or hex (value not shown)"
    assert _mistakes(
        tmp_path, '[sealing]\nkey_env = "BAD_KEY"\nprevious_key_envs = ["BAD_KEY"]'
    ) == [
        f"sealing.previous_key_envs[0]: {wrong}",
        f"sealing.key_env: {wrong}",
    ]
    assert _mistakes(tmp_path, '[sealing]\nkey_env = "NO_KEY"') == [
        "sealing.key_env: the environment variable NO_KEY is not set"
    ]
    monkeypatch.setenv("OLD_KEY", KEY.hex())
    assert _mistakes(tmp_path, '[sealing]\nprevious_key_envs = ["OLD_KEY"]') == [
        "sealing.key_env: required with previous_key_envs, whose keys only decrypt"
    ]


# Opening, whatever clients bring


@given(st.text(max_size=40))
def test_a_request_never_fails_for_what_cannot_be_opened(text: str) -> None:
    losses = Losses("refuse")
    items = (
        Reasoning(("Look.",), encrypted=REASONING_PREFIX + text, item_id="rs_1"),
        Reasoning(encrypted=text or "x"),
        ToolCall(
            "call_1",
            "look",
            extras=(
                extra_content_field(text, "completions"),
                ExtraField("completions", "mine", Raw(b"1")),
            ),
        ),
    )
    opened = ReasoningRestorer(SEAL, losses, native=False).restore(
        Request(items=items), {"call_1": text}
    )
    assert opened.items == (ToolCall("call_1", "look", extras=items[2].extras[1:]),)
    assert len(losses) == 3


def test_a_seal_of_another_version_is_left_out() -> None:
    losses = Losses()
    item = Reasoning(encrypted=SEAL.seal(b'{"thoughts":"in another way"}'))
    assert (
        ReasoningRestorer(SEAL, losses, native=False).restore(Request(items=(item,)), {}).items
        == ()
    )
    assert len(losses) == 1


# Passing by


def test_only_what_was_sealed_here_leaves_a_body_that_passes() -> None:
    sealed = SealedReasoning((Reasoning(("Hm.",)),)).sealed(SEAL)
    text = f"What does {sealed} mean?"
    body = (
        b'{"model": "m", "n": 1.10, "input": [{"role": "user", "content": "%s"},'
        b' {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "%s"},'
        b' {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAA"}]}'
    )
    kept = strip_sealed(body % (text.encode(), sealed.encode()), REASONING_PREFIX)
    assert kept == (
        b'{"model":"m","n":1.10,"input":[{"role":"user","content":"%s"},'
        b'{"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAA"}]}'
        % text.encode()
    )


def test_what_others_put_beside_a_seal_stays() -> None:
    sealed = SEAL.seal(b"{}").encode()
    body = b'{"tool_calls":[{"extra_content":{"google":{"a": 1},"dragoman":{"sealed":"%s"}}}]}'
    kept = b'{"tool_calls":[{"extra_content":{"google":{"a": 1}}}]}'
    assert strip_sealed(body % sealed, REASONING_PREFIX) == kept
    assert strip_sealed(
        b'{"tool_calls":[{"extra_content":{"dragoman":"%s"}}]}' % sealed, REASONING_PREFIX
    ) == (b'{"tool_calls":[{}]}')


@pytest.mark.parametrize("body", [b"", b"{", b'{"input": "%s"}', b'["%s"', b'{"a": {"b": ["%s"]}}'])
def test_a_body_without_seals_stays_as_it_is(body: bytes) -> None:
    given_body = body.replace(b"%s", REASONING_PREFIX.encode())
    assert strip_sealed(given_body, REASONING_PREFIX) is given_body
