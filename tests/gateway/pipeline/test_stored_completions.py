"""What a Chat request asks to be kept, and what a backend is asked instead."""

import msgspec
import pytest
from msgspec import Raw

from adapters import deterministic_ids
from adapters.ir.types import Family
from gateway.api.completions import request_messages
from gateway.api.stored_completions import read_deposit, without_store
from gateway.store import Completion

BODY = b'{"model":"m","store":true, "metadata":{"a":"b"},"messages":[{"role":"user"}],"seed":1.0}'


@pytest.mark.parametrize(
    ("family", "refused", "left"),
    [
        ("completions", (), {"store", "metadata"}),
        ("completions", ("seed",), {"store", "metadata"}),
        ("completions", ("store",), {"metadata"}),
        ("completions", ("store", "metadata"), set[str]()),
        ("responses", (), {"metadata"}),
        ("responses", ("metadata",), set[str]()),
    ],
)
def test_a_backend_is_asked_for_what_it_can_do(
    family: Family, refused: tuple[str, ...], left: set[str]
) -> None:
    asked = without_store(BODY, family, refused)
    fields = msgspec.json.decode(asked, type=dict[str, Raw])
    assert set(fields) == {"model", "messages", "seed"} | left
    assert bytes(fields["seed"]) == b"1.0"
    if left == {"store", "metadata"}:
        assert asked is BODY


def test_what_is_kept_of_a_request() -> None:
    deposit = read_deposit("me", BODY, deterministic_ids())
    assert deposit.owner == "me"
    assert deposit.model == "m"
    assert bytes(deposit.messages) == b'[{"role":"user"}]'
    assert deposit.metadata == {"a": "b"}


@pytest.mark.parametrize("body", [b'{"model":"m"}', b'{"model":"m","messages":null}'])
def test_a_request_without_messages_has_none_to_show(body: bytes) -> None:
    deposit = read_deposit("me", body, deterministic_ids())
    kept = Completion("c", "me", 1, Raw(b"{}"), deposit.messages)
    assert request_messages(kept) == {}
