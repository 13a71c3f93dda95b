"""Framing of responses, and responses cut at every index."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.connection import MAX_HEAD_BYTES, MAX_UNREAD_BYTES, Connection
from tests.gateway.backends.byte_server import (
    LAST_CHUNK,
    OK,
    STREAM,
    Peer,
    always,
    chunks_of,
    linked,
)

COMPLETE = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
    "chunked": STREAM + b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
    "chunk-extensions": STREAM + b'5;a=b\r\nhello\r\n6;q="x"\r\n world\r\n0;last\r\n\r\n',
    "trailers": STREAM + b"B\r\nhello world\r\n0\r\nDigest: abc\r\nX-Other: d\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
    "no-reason": b"HTTP/1.1 200 \r\nContent-Length: 11\r\n\r\nhello world",
    "informational-upgrade": b"HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: upgrade\r\n"
    b"Content-Length: 11\r\n\r\nhello world",
}
UNTIL_CLOSE = {
    "until-close": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello world",
    "http-1.0": b"HTTP/1.0 200 OK\r\n\r\nhello world",
    "connection-close": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world",
}
WITHOUT_BODY = {
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 11\r\n\r\n",
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "empty-chunked": STREAM + LAST_CHUNK,
}
RESPONSES = COMPLETE | UNTIL_CLOSE | WITHOUT_BODY


def expected(name: str) -> tuple[int, bytes]:
    """Return the status and the body of a response."""
    return {"204": 204, "304": 304}.get(name, 200), b"" if name in WITHOUT_BODY else b"hello world"


class FakeTransport(asyncio.Transport):
    """A transport that records whether it was aborted or paused."""

    aborted = False
    paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


async def feed(chunks: list[bytes], *, end: bool = False) -> Connection:
    """Feed a response to a connection in chunks."""
    connection = Connection(lambda _: None)
    connection.connection_made(FakeTransport())
    sending = asyncio.create_task(connection.send_request(b"", b"", expects_body=True))
    await asyncio.sleep(0)
    for chunk in chunks:
        connection.data_received(chunk)
    if end:
        connection.eof_received()
    await sending
    return connection


def split(response: bytes) -> list[bytes]:
    return [response[index : index + 1] for index in range(len(response))]


def cuts_of(response: bytes) -> Iterator[list[bytes]]:
    """Yield the response whole, byte by byte, and cut in two at every index."""
    yield [response]
    yield split(response)
    for index in range(1, len(response)):
        yield [response[:index], response[index:]]


@pytest.mark.parametrize("name", RESPONSES)
async def test_response_may_be_cut_anywhere(name: str) -> None:
    for chunks in cuts_of(RESPONSES[name]):
        connection = await feed(chunks, end=name in UNTIL_CLOSE)
        assert (connection.status, connection.read_available()) == expected(name)
        assert connection.complete
        assert connection.reusable == (name not in UNTIL_CLOSE)


@pytest.mark.parametrize("name", ["length", "chunked", "trailers"])
async def test_cut_response_is_never_complete(name: str) -> None:
    response = COMPLETE[name]
    head = response.index(b"\r\n\r\n") + 4
    for end in range(head, len(response)):
        connection = await feed([response[:end]], end=True)
        assert not connection.complete
        assert isinstance(connection.failure, httpx.RemoteProtocolError)


async def test_unread_chunks_are_joined() -> None:
    connection = await feed([STREAM, b"1\r\na\r\n1\r\nb\r\n"])
    assert connection.read_available() == b"ab"
    connection.data_received(b"1\r\nc\r\n")
    connection.data_received(b"1\r\nd\r\n0\r\n\r\n")
    assert connection.read_available() == b"cd"
    assert connection.complete


async def test_reading_pauses_while_too_much_is_unread() -> None:
    transport = FakeTransport()
    connection = await feed([STREAM])
    connection.connection_made(transport)
    connection.data_received(b"%x\r\n%b\r\n" % (MAX_UNREAD_BYTES, b"x" * MAX_UNREAD_BYTES))
    assert transport.paused
    assert len(connection.read_available()) == MAX_UNREAD_BYTES
    assert not transport.paused


@pytest.mark.parametrize(
    ("start", "repeated"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x", id="value"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"x", id="name"),
        pytest.param(STREAM + b"0\r\nTrailer: ", b"x", id="trailer"),
        pytest.param(STREAM + b"5;", b"x", id="chunk-extension"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="interim-responses"),
    ],
)
async def test_endless_headers_are_an_error(start: bytes, repeated: bytes) -> None:
    chunks = [start, *[repeated * 1024] * (MAX_HEAD_BYTES // 1024 + 1)]
    with pytest.raises(httpx.RemoteProtocolError, match="bytes of headers"):
        raise (await feed(chunks)).failure or AssertionError


@pytest.mark.parametrize(
    ("received", "later"),
    [
        pytest.param(OK + OK, b"", id="second-response"),
        pytest.param(OK, b"HTTP/1.1 408 Request Timeout\r\n\r\n", id="error-of-an-idle-connection"),
    ],
)
async def test_bytes_after_the_response_close_the_connection(received: bytes, later: bytes) -> None:
    connection = await feed([received])
    connection.data_received(later)
    assert connection.complete
    assert connection.read_available() == b"hello"
    assert not connection.reusable


@given(data=st.data())
def test_corrupted_response_completes_or_fails(data: st.DataObject) -> None:
    """Nothing is raised into the event loop, and the request does not hang."""
    response = bytearray(data.draw(st.sampled_from([*COMPLETE.values(), *UNTIL_CLOSE.values()])))
    for _ in range(data.draw(st.integers(0, 3))):
        index = data.draw(st.integers(0, len(response) - 1))
        response[index : index + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=4))
    cut = data.draw(st.integers(0, len(response)))

    async def main() -> None:
        with suppress(httpx.TransportError):
            connection = await feed([bytes(response[:cut]), bytes(response[cut:])], end=True)
            assert connection.complete == (connection.failure is None)

    asyncio.run(main())


@pytest.mark.parametrize("name", RESPONSES)
async def test_response_over_a_socket(name: str) -> None:
    close = name in UNTIL_CLOSE
    chunks = [RESPONSES[name]] if close else split(RESPONSES[name])
    async with linked(always(*chunks, close=close)) as link:
        for _ in range(2):
            assert await link.send() == expected(name)
        assert link.connections == (2 if close else 1)


async def test_each_chunk_arrives_when_it_is_sent() -> None:
    chunk_read = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.respond(STREAM)
        for number in range(5):
            await peer.send(b"1\r\n%d\r\n" % number)
            await chunk_read.wait()
            chunk_read.clear()
        await peer.send(LAST_CHUNK)

    async with linked(script) as link:
        chunks: list[bytes] = []
        async for chunk in chunks_of(await link.begin()):
            chunks.append(chunk)
            chunk_read.set()
        assert chunks == [b"0", b"1", b"2", b"3", b"4"]


async def test_slow_reader_slows_the_server_and_loses_nothing() -> None:
    size = 64 * MAX_UNREAD_BYTES
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
    sent = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.respond(head, *[b"x" * MAX_UNREAD_BYTES] * 64)
        sent.set()

    async with linked(script) as link:
        response = await link.begin()
        # The server cannot send everything while nothing is read.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await sent.wait()
        lengths = [len(chunk) async for chunk in chunks_of(response)]
        assert sum(lengths) == size
        assert max(lengths) < 4 * MAX_UNREAD_BYTES


async def test_response_to_head_has_no_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    async with linked(always(head)) as link:
        response = await link.transport.handle_async_request(
            httpx.Request("HEAD", link.server.address)
        )
        assert [chunk async for chunk in chunks_of(response)] == []
        assert response.headers["Content-Length"] == "5"
