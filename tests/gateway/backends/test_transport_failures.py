"""What a backend can do wrong, and as which error the caller sees it."""

import asyncio
import socket

import httpx
import pytest

from gateway.backends.transport import RequestTemplate
from tests.gateway.backends.transport_server import (
    OK,
    STREAM,
    Loop,
    Peer,
    Script,
    always,
    ask,
    chunks_of,
    direct,
    run,
    serving,
)
from tests.gateway.scripted import PATIENCE

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])

NOT_HTTP = {
    "words": b"nonsense\r\n\r\n",
    "banner": b"SSH-2.0-OpenSSH_9.6\r\n",
    "zeros": bytes(100),
    "tls": b"\x15\x03\x01\x00\x02\x02\x46",
    "http2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64",
    "bad-chunk": STREAM + b"xyz\r\nhello\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "negative-length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "length-and-chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
    b"\r\n5\r\nhello\r\n0\r\n\r\n",
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
}


def once(*pieces: bytes, reset: bool = False) -> Script:
    """Answer one request, then close or reset."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)
        if reset:
            peer.reset()

    return script


@LOOPS
@pytest.mark.parametrize("answer", NOT_HTTP.values(), ids=NOT_HTTP)
def test_what_is_not_http_is_a_protocol_error(loop: Loop, answer: bytes) -> None:
    async def main() -> None:
        async with serving(always(answer)) as server, direct() as transport:
            with pytest.raises(httpx.RemoteProtocolError):
                await ask(transport, server)

    run(loop, main())


@LOOPS
def test_no_answer_at_all(loop: Loop) -> None:
    async def main() -> None:
        async with serving(once()) as server, direct() as transport:
            with pytest.raises(httpx.RemoteProtocolError, match="without an answer"):
                await ask(transport, server)
            assert server.connections == 1

    run(loop, main())


@LOOPS
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="in-the-head"),
        pytest.param(OK[:-1], id="in-the-body"),
        pytest.param(STREAM + b"5\r\nhello\r\n", id="before-the-last-chunk"),
    ],
)
def test_a_cut_answer_is_a_protocol_error(loop: Loop, answer: bytes) -> None:
    async def main() -> None:
        async with serving(once(answer)) as server, direct() as transport:
            with pytest.raises(httpx.RemoteProtocolError, match="in the middle"):
                await ask(transport, server)

    run(loop, main())


@LOOPS
def test_what_came_before_the_cut_is_given_first(loop: Loop) -> None:
    async def main() -> None:
        async with serving(once(STREAM + b"5\r\nhello\r\n")) as server, direct() as transport:
            response = await transport.handle_async_request(server.target().post(b"{}"))
            chunks = chunks_of(response)
            assert await anext(chunks) == b"hello"
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(chunks)
            # It does not look whole afterwards.
            with pytest.raises(httpx.StreamClosed):
                await anext(chunks)

    run(loop, main())


@LOOPS
@pytest.mark.parametrize("begin", [b"", STREAM + b"5\r\nhello\r\n"], ids=["at-once", "in-the-body"])
def test_a_reset_is_a_read_error(loop: Loop, begin: bytes) -> None:
    async def main() -> None:
        read = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            if begin:
                await peer.send(begin)
                await read.wait()
            peer.reset()

        async def read_all() -> None:
            response = await transport.handle_async_request(server.target().post(b"{}"))
            async for _ in chunks_of(response):
                read.set()

        async with serving(script) as server, direct() as transport:
            with pytest.raises(httpx.ReadError):
                await read_all()

    run(loop, main())


@LOOPS
def test_nobody_listens(loop: Loop) -> None:
    async def main(port: int) -> None:
        async with direct() as transport:
            target = RequestTemplate(f"http://127.0.0.1:{port}/", connect_timeout=PATIENCE)
            with pytest.raises(httpx.ConnectError, match=f"127.0.0.1:{port}"):
                await transport.handle_async_request(target.get())

    with socket.socket() as closed:
        # Bound but not listening: nobody else gets this port, and nobody answers at it.
        closed.bind(("127.0.0.1", 0))
        run(loop, main(closed.getsockname()[1]))


@LOOPS
@pytest.mark.parametrize("host", ["nowhere.invalid", "x" * 64 + ".invalid"])
def test_a_host_that_does_not_exist(loop: Loop, host: str) -> None:
    async def main() -> None:
        async with direct() as transport:
            # Who knows all names may be asked for long.
            target = RequestTemplate(f"http://{host}/", connect_timeout=PATIENCE)
            with pytest.raises(httpx.ConnectError):
                await transport.handle_async_request(target.get())

    run(loop, main())


@LOOPS
def test_a_connection_that_takes_too_long(loop: Loop) -> None:
    """A listener whose queue is full does not answer."""

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
            address: tuple[str, int] = listener.getsockname()
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)  # noqa: FBT003 - the standard library takes it so
                filler.connect_ex(address)
            async with direct() as transport:
                target = RequestTemplate(f"http://127.0.0.1:{address[1]}/", connect_timeout=0.2)
                with pytest.raises(httpx.ConnectTimeout):
                    await transport.handle_async_request(target.get())
            for filler in fillers:
                filler.close()

    run(loop, main())


@LOOPS
def test_an_answer_before_the_request_is_sent(loop: Loop) -> None:
    """A server may refuse a large body without reading it."""

    async def main() -> None:
        seen = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
            await seen.wait()

        async with serving(script) as server, direct() as transport:
            assert await ask(transport, server, b"x" * 2**25) == (413, b"big")
            # The rest of the request is still to be written, so it is not used again.
            seen.set()
            assert await ask(transport, server) == (413, b"big")
            assert server.connections == 2

    run(loop, main())


@LOOPS
def test_an_unknown_scheme_is_refused(loop: Loop) -> None:
    async def main() -> None:
        async with direct() as transport:
            with pytest.raises(httpx.UnsupportedProtocol):
                await transport.handle_async_request(httpx.Request("GET", "ftp://localhost/"))

    run(loop, main())
