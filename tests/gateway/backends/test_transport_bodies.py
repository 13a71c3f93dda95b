"""Every way in which an answer may be framed, and every way in which its bytes may be cut."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.connection import MAX_HEAD_BYTES, MAX_UNREAD_BYTES, Connection
from tests.gateway.backends.transport_server import (
    OK,
    STREAM,
    Loop,
    Peer,
    always,
    ask,
    chunks_of,
    direct,
    run,
    serving,
)

WHOLE = {
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
    "old": b"HTTP/1.0 200 OK\r\n\r\nhello world",
    "asked-to-close": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world",
}
WITHOUT_BODY = {
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 11\r\n\r\n",
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "empty-chunked": STREAM + b"0\r\n\r\n",
}


class Wire(asyncio.Transport):
    """A transport that only remembers what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False
        self.paused = False

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


async def feed(pieces: Iterator[bytes] | list[bytes], *, end: bool = False) -> Connection:
    """Feed an answer to a connection, piece by piece."""
    connection = Connection(lambda _: None)
    connection.connection_made(Wire())
    asking = asyncio.create_task(connection.send_request(b"", b"", without_body=False))
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
    if end:
        connection.eof_received()
    await asking
    return connection


def ways_to_cut(answer: bytes) -> Iterator[list[bytes]]:
    """Give the answer whole, byte by byte, and cut in two at every place."""
    yield [answer]
    yield [answer[place : place + 1] for place in range(len(answer))]
    for place in range(1, len(answer)):
        yield [answer[:place], answer[place:]]


@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE)
def test_a_whole_answer_may_be_cut_anywhere(answer: bytes) -> None:
    async def main() -> None:
        for pieces in ways_to_cut(answer):
            connection = await feed(pieces)
            assert (connection.status, connection.read_available()) == (200, b"hello world")
            assert connection.complete
            assert connection.reusable

    asyncio.run(main())


@pytest.mark.parametrize("answer", UNTIL_CLOSE.values(), ids=UNTIL_CLOSE)
def test_an_answer_that_ends_with_the_connection_may_be_cut_anywhere(answer: bytes) -> None:
    async def main() -> None:
        for pieces in ways_to_cut(answer):
            connection = await feed(pieces, end=True)
            assert connection.read_available() == b"hello world"
            assert connection.complete
            assert not connection.reusable

    asyncio.run(main())


@pytest.mark.parametrize("answer", WITHOUT_BODY.values(), ids=WITHOUT_BODY)
def test_an_answer_without_a_body_ends_with_its_head(answer: bytes) -> None:
    async def main() -> None:
        for pieces in ways_to_cut(answer):
            connection = await feed(pieces)
            assert connection.complete
            assert connection.read_available() == b""

    asyncio.run(main())


@pytest.mark.parametrize("name", ["length", "chunked", "trailers"])
def test_an_answer_that_is_cut_is_never_whole(name: str) -> None:
    answer = WHOLE[name]
    head = answer.index(b"\r\n\r\n") + 4

    async def main() -> None:
        for end in range(head, len(answer)):
            connection = await feed([answer[:end]], end=True)
            assert not connection.complete
            assert isinstance(connection.failure, httpx.RemoteProtocolError)

    asyncio.run(main())


def test_one_read_is_one_chunk_and_what_piles_up_is_joined() -> None:
    async def main() -> None:
        connection = await feed([STREAM, b"1\r\na\r\n1\r\nb\r\n"])
        assert connection.read_available() == b"ab"
        connection.data_received(b"1\r\nc\r\n")
        connection.data_received(b"1\r\nd\r\n0\r\n\r\n")
        assert connection.read_available() == b"cd"
        assert connection.complete

    asyncio.run(main())


def test_reading_stops_while_too_much_waits() -> None:
    async def main() -> None:
        wire = Wire()
        connection = await feed([STREAM])
        connection.connection_made(wire)
        chunk = b"%x\r\n%b\r\n" % (MAX_UNREAD_BYTES, b"x" * MAX_UNREAD_BYTES)
        connection.data_received(chunk)
        assert wire.paused
        assert len(connection.read_available()) == MAX_UNREAD_BYTES
        assert not wire.paused

    asyncio.run(main())


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Long: ", id="value"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="name"),
        pytest.param(STREAM + b"0\r\nTrailer: ", id="trailer"),
        pytest.param(STREAM + b"5;", id="chunk-extension"),
    ],
)
def test_headers_without_end_are_refused(endless: bytes) -> None:
    async def main() -> None:
        pieces = [endless, *[b"x" * 1024] * (MAX_HEAD_BYTES // 1024 + 1)]
        with pytest.raises(httpx.RemoteProtocolError, match="bytes of headers"):
            raise (await feed(pieces)).failure or AssertionError

    asyncio.run(main())


def test_interim_answers_without_end_are_refused() -> None:
    async def main() -> None:
        interim = b"HTTP/1.1 100 Continue\r\n\r\n" * 100
        with pytest.raises(httpx.RemoteProtocolError, match="bytes of headers"):
            await feed([interim] * (MAX_HEAD_BYTES // len(interim) + 1))

    asyncio.run(main())


def test_a_second_answer_is_no_part_of_the_first() -> None:
    async def main() -> None:
        connection = await feed([OK + OK])
        assert connection.complete
        assert connection.read_available() == b"hello"
        assert not connection.reusable

    asyncio.run(main())


def test_bytes_after_the_answer_end_the_connection() -> None:
    async def main() -> None:
        connection = await feed([OK])
        connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        assert connection.read_available() == b"hello"
        assert not connection.reusable

    asyncio.run(main())


@given(data=st.data())
def test_spoiled_answers_end_one_way_or_another(data: st.DataObject) -> None:
    """Whatever comes, nothing is raised into the event loop, and nobody waits for ever."""
    answer = bytearray(data.draw(st.sampled_from([*WHOLE.values(), *UNTIL_CLOSE.values()])))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(answer) - 1))
        answer[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=4))
    cut = data.draw(st.integers(0, len(answer)))

    async def main() -> None:
        with suppress(httpx.TransportError):
            connection = await feed([bytes(answer[:cut]), bytes(answer[cut:])], end=True)
            assert connection.complete == (connection.failure is None)

    asyncio.run(main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("answer", [*WHOLE.values(), *WITHOUT_BODY.values()])
def test_over_a_socket_byte_by_byte(loop: Loop, answer: bytes) -> None:
    pieces = [answer[place : place + 1] for place in range(len(answer))]

    async def main() -> None:
        async with serving(always(*pieces)) as server, direct() as transport:
            first = await ask(transport, server)
            assert await ask(transport, server) == first
            assert first[1] in {b"", b"hello world"}
            assert server.connections == 1

    run(loop, main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("answer", UNTIL_CLOSE.values(), ids=UNTIL_CLOSE)
def test_over_a_socket_until_it_closes(loop: Loop, answer: bytes) -> None:
    async def main() -> None:
        async with serving(always(answer, close=True)) as server, direct() as transport:
            assert await ask(transport, server) == (200, b"hello world")
            assert await ask(transport, server) == (200, b"hello world")
            assert server.connections == 2

    run(loop, main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_each_event_comes_as_soon_as_it_is_sent(loop: Loop) -> None:
    async def main() -> None:
        taken = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(STREAM)
            for number in range(5):
                await peer.send(b"1\r\n%d\r\n" % number)
                await taken.wait()
                taken.clear()
            await peer.send(b"0\r\n\r\n")

        async with serving(script) as server, direct() as transport:
            response = await transport.handle_async_request(server.target().post(b"{}"))
            chunks: list[bytes] = []
            async for chunk in chunks_of(response):
                chunks.append(chunk)
                taken.set()
            assert chunks == [b"0", b"1", b"2", b"3", b"4"]

    run(loop, main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_slow_reader_slows_the_server_and_gets_it_all(loop: Loop) -> None:
    size = 64 * MAX_UNREAD_BYTES

    async def main() -> None:
        sent = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            await peer.send(*[b"x" * MAX_UNREAD_BYTES] * 64)
            sent.set()

        async with serving(script) as server, direct() as transport:
            response = await transport.handle_async_request(server.target().post(b"{}"))
            # As long as nobody reads, the server cannot send it all.
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await sent.wait()
            lengths = [len(chunk) async for chunk in chunks_of(response)]
            assert sum(lengths) == size
            assert max(lengths) < 4 * MAX_UNREAD_BYTES

    run(loop, main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_answer_to_head_has_no_body(loop: Loop) -> None:
    async def main() -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
        async with serving(always(head)) as server, direct() as transport:
            response = await transport.handle_async_request(httpx.Request("HEAD", server.address))
            assert [chunk async for chunk in chunks_of(response)] == []
            assert response.headers["Content-Length"] == "5"

    run(loop, main())
