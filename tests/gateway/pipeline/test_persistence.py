"""Which fields of a stored request its backend gets."""

import pytest

from adapters import parse_body
from gateway.pipeline.persistence import without_stored_fields

BODY = parse_body(b'{"model":"m","store":true,"metadata":{"a":"b"},"messages":[],"seed":1.0}')


@pytest.mark.parametrize(
    ("stateful", "unsupported", "kept"),
    [
        (False, (), {"store", "metadata"}),
        (False, ("seed",), {"store", "metadata"}),
        (False, ("store",), {"metadata"}),
        (False, ("store", "metadata"), set[str]()),
        (True, (), {"metadata"}),
        (True, ("metadata",), set[str]()),
    ],
)
def test_backend_gets_the_fields_that_it_supports(
    stateful: bool,  # noqa: FBT001 - a parameter of the test
    unsupported: tuple[str, ...],
    kept: set[str],
) -> None:
    sent = without_stored_fields(BODY, unsupported, stateful=stateful)
    assert set(sent.fields) == {"model", "messages", "seed"} | kept
    assert bytes(sent.fields["seed"]) == b"1.0"
