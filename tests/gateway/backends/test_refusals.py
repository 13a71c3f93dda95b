"""What is read whole for our own use has an end, whatever a backend sends."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from adapters import InvalidReplyError
from gateway.backends import client as refusals
from gateway.backends.client import read_refusal, read_whole

PIECE = b"x" * 10


class Endless(httpx.AsyncByteStream):
    """A body that never ends by itself; counts what was taken of it."""

    def __init__(self) -> None:
        self.taken = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.taken += 1
            yield PIECE

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_LIMIT", 25)


def test_an_answer_that_fits_is_read_again() -> None:
    read = asyncio.run(read_whole(httpx.Response(200, stream=httpx.ByteStream(PIECE * 2))))
    assert (read.status_code, read.content) == (200, PIECE * 2)


def test_an_answer_without_end_is_broken_off() -> None:
    body = Endless()
    with pytest.raises(InvalidReplyError, match="the backend's answer is over 25 bytes"):
        asyncio.run(read_whole(httpx.Response(200, stream=body)))
    assert (body.taken, body.closed) == (3, True)


def test_a_refusal_without_end_is_one_by_its_status() -> None:
    body = Endless()
    read = asyncio.run(read_refusal(httpx.Response(400, stream=body)))
    assert (read.status_code, read.content) == (400, b"")
    assert body.closed
