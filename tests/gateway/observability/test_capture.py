from contextvars import copy_context

import pytest

from gateway.observability.capture import (
    Capture,
    CapturedBody,
    attributing,
    current_capture,
    is_unstored,
)


def capture(body: bytes | None = None) -> Capture:
    made = Capture(100, CapturedBody(100))
    if body is not None:
        made.note_request(body)
    return made


def test_body_beyond_the_limit_is_left_out() -> None:
    body = CapturedBody(5)
    body.add(b"abc", 0.1)
    body.add(b"de", 0.2)
    assert (body.join(), body.reads) == (b"abcde", [(0.1, 3), (0.2, 2)])
    body.add(b"f", 0.3)
    body.add(b"", 0.4)
    assert (body.join(), body.reads, body.size) == (b"", [], 6)


def test_many_reads_are_joined() -> None:
    body = CapturedBody(200_000)
    for number in range(150_000):
        body.add(b"x", number)
    assert len(body.reads) == 100_000
    assert body.reads[-1] == (99_999, 50_001)


def test_work_for_another_exchange_is_attributed_to_that_one() -> None:
    outer, inner = capture(), capture()
    assert current_capture() is None
    with attributing(outer):
        with attributing(inner):
            assert current_capture() is inner
        assert current_capture() is outer
    assert current_capture() is None


def test_context_does_not_keep_an_exchange_that_has_ended() -> None:
    with attributing(capture()):
        context = copy_context()
    assert context.run(current_capture) is None


@pytest.mark.parametrize(
    ("body", "unstored"),
    [
        (b'{"store":false}', True),
        (b'{"store":true}', False),
        (b'{"store":null}', False),
        (b"{}", False),
        (b'{"store":', True),
        (b"x" * 200, True),
        (None, False),
    ],
)
def test_unstored_exchanges(body: bytes | None, unstored: bool) -> None:  # noqa: FBT001 - parametrized
    assert is_unstored(capture(body)) is unstored
    assert not is_unstored(None)


def test_part_of_an_unstored_exchange_is_unstored() -> None:
    part = capture(b'{"store":true}')
    part.within_unstored = True
    assert is_unstored(part)
