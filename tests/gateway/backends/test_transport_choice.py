"""The transport that a backend's configuration asks for: TLS, a proxy, limits."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from gateway.backends.transport import DirectTransport, make_transport
from gateway.config.schema import BackendConfig, TlsConfig
from tests.gateway.backends.transport_server import (
    OK,
    STREAM,
    Loop,
    Peer,
    Server,
    always,
    ask,
    chunks_of,
    run,
    serving,
)
from tests.gateway.certificates import Authority

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("localhost"))
    return context


@asynccontextmanager
async def transport_for(
    server: Server, tls: TlsConfig | None = None, proxy: str | None = None
) -> AsyncGenerator[httpx.AsyncBaseTransport, None]:
    backend = BackendConfig("test", server.address, "chat", tls=tls or TlsConfig(), proxy=proxy)
    transport = make_transport(backend)
    try:
        yield transport
    finally:
        await transport.aclose()


@LOOPS
def test_tls_with_an_authority_of_ones_own(
    loop: Loop, authority: Authority, secure: ssl.SSLContext
) -> None:
    async def main() -> None:
        tls = TlsConfig(ca_file=str(authority.file))
        async with serving(always(OK), secure) as server, transport_for(server, tls) as transport:
            assert isinstance(transport, DirectTransport)
            assert await ask(transport, server, b"x" * 10**6) == (200, b"hello")
            assert await ask(transport, server) == (200, b"hello")
            assert server.connections == 1

    run(loop, main())


@LOOPS
def test_tls_of_an_unknown_authority_is_refused(loop: Loop, secure: ssl.SSLContext) -> None:
    async def main() -> None:
        async with serving(always(OK), secure) as server, transport_for(server) as transport:
            with pytest.raises(httpx.ConnectError, match="certificate"):
                await ask(transport, server)

    run(loop, main())


@LOOPS
def test_tls_for_another_host_is_refused(loop: Loop, authority: Authority) -> None:
    async def main() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*authority.issue("elsewhere.test"))
        tls = TlsConfig(ca_file=str(authority.file))
        async with serving(always(OK), context) as server, transport_for(server, tls) as transport:
            with pytest.raises(httpx.ConnectError, match="certificate"):
                await ask(transport, server)

    run(loop, main())


@LOOPS
def test_tls_without_verification(loop: Loop, secure: ssl.SSLContext) -> None:
    async def main() -> None:
        tls = TlsConfig(verify=False)
        async with serving(always(OK), secure) as server, transport_for(server, tls) as transport:
            assert await ask(transport, server) == (200, b"hello")

    run(loop, main())


@LOOPS
def test_tls_with_a_certificate_of_the_client(loop: Loop, authority: Authority) -> None:
    async def main() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.file)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(*authority.issue("localhost"))
        certificate, key = (str(file) for file in authority.issue("client.test"))
        anonymous = TlsConfig(ca_file=str(authority.file))
        known = TlsConfig(ca_file=str(authority.file), cert_file=certificate, key_file=key)
        async with serving(always(OK), context) as server:
            async with transport_for(server, known) as transport:
                assert await ask(transport, server) == (200, b"hello")
            async with transport_for(server, anonymous) as transport:
                with pytest.raises(httpx.TransportError):
                    await ask(transport, server)

    run(loop, main())


@LOOPS
def test_tls_closes_at_once_when_the_answer_is_closed(
    loop: Loop, authority: Authority, secure: ssl.SSLContext
) -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(STREAM + b"5\r\nhello\r\n")
            await peer.closed()
            closed.set()

        tls = TlsConfig(ca_file=str(authority.file))
        async with serving(script, secure) as server, transport_for(server, tls) as transport:
            response = await transport.handle_async_request(server.target().post(b"{}"))
            assert await anext(chunks_of(response)) == b"hello"
            await response.aclose()
            await closed.wait()

    run(loop, main())


@LOOPS
def test_plain_http_where_tls_is_expected(loop: Loop) -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            await peer.send(OK)

        async with serving(script) as server:
            server.address = server.address.replace("http:", "https:")
            async with transport_for(server) as transport:
                with pytest.raises(httpx.ConnectError):
                    await ask(transport, server)

    run(loop, main())


def test_a_file_that_is_no_certificate_is_an_error_at_once(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("nothing")
    for tls in (
        TlsConfig(ca_file=str(wrong)),
        TlsConfig(cert_file=str(wrong)),
        TlsConfig(ca_file="missing"),
    ):
        with pytest.raises((FileNotFoundError, ssl.SSLError)):
            make_transport(BackendConfig("test", "https://localhost", "chat", tls=tls))


class Proxy:
    """A proxy that forwards what it is asked to, and remembers how it was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, address, _ = head.split(b" ", 2)
        self.asked.append(method)
        authority = address if method == b"CONNECT" else address.split(b"/")[2]
        host, _, port = authority.partition(b":")
        there, here = await asyncio.open_connection(host.decode(), int(port))
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            here.write(head)
        async with asyncio.TaskGroup() as copying:
            copying.create_task(copy(reader, here))
            copying.create_task(copy(there, writer))


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        pass
    finally:
        sink.close()


@asynccontextmanager
async def proxying() -> AsyncGenerator[tuple[Proxy, str], None]:
    proxy = Proxy()
    running: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.add(asyncio.get_running_loop().create_task(proxy.play(reader, writer)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    port: int = listener.sockets[0].getsockname()[1]
    try:
        yield proxy, f"http://127.0.0.1:{port}"
    finally:
        listener.close()
        await asyncio.gather(*running)


@LOOPS
def test_a_proxy_forwards_http(loop: Loop) -> None:
    async def main() -> None:
        async with proxying() as (proxy, address), serving(always(OK)) as server:
            async with transport_for(server, proxy=address) as transport:
                assert await ask(transport, server) == (200, b"hello")
                assert await ask(transport, server) == (200, b"hello")
            assert proxy.asked == [b"POST"]

    run(loop, main())


@LOOPS
def test_a_proxy_tunnels_tls(loop: Loop, authority: Authority, secure: ssl.SSLContext) -> None:
    async def main() -> None:
        tls = TlsConfig(ca_file=str(authority.file))
        async with proxying() as (proxy, address), serving(always(OK), secure) as server:
            async with transport_for(server, tls, address) as transport:
                assert await ask(transport, server) == (200, b"hello")
            assert proxy.asked == [b"CONNECT"]

    run(loop, main())


@LOOPS
def test_a_proxy_that_is_not_there(loop: Loop) -> None:
    async def main() -> None:
        # The server comes first: it must not get the port that the proxy had.
        async with serving(always(OK)) as server:
            async with proxying() as (_, address):
                pass
            async with transport_for(server, proxy=address) as transport:
                with pytest.raises(httpx.ConnectError):
                    await ask(transport, server)
            assert server.connections == 0

    run(loop, main())
