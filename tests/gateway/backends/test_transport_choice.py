"""The transports that a backend can be configured with: TLS, proxies, trace events."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

import httpx
import pytest
from msgspec.structs import replace

from gateway.backends.transport import SENDING_EVENT, DirectTransport, make_transport
from gateway.config.schema import BackendConfig, TlsConfig
from tests.gateway.backends.byte_server import (
    HALF,
    OK,
    Server,
    StalledServer,
    always,
    async_test,
    begin,
    chunks_of,
    send,
    serving,
)
from tests.gateway.certificates import CertificateAuthority

Kind = Literal["direct", "httpx"]
every_kind = pytest.mark.parametrize("kind", ["direct", "httpx"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def trusting(authority: CertificateAuthority) -> TlsConfig:
    """Return the settings of a client that trusts the authority."""
    return TlsConfig(ca_file=str(authority.file))


def tls_context(authority: CertificateAuthority, host: str = "localhost") -> ssl.SSLContext:
    """Return the context of a server with a certificate for a host."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.file)
    context.load_cert_chain(*authority.issue(host))
    return context


@pytest.fixture(scope="module")
def tls_server(authority: CertificateAuthority) -> ssl.SSLContext:
    return tls_context(authority)


@asynccontextmanager
async def transport_for(
    server: Server,
    kind: Kind = "direct",
    tls: TlsConfig = TlsConfig(),  # noqa: B008 - a frozen value
    proxy: str | None = None,
) -> AsyncGenerator[httpx.AsyncBaseTransport, None]:
    backend = BackendConfig("test", server.address, "chat", tls=tls, proxy=proxy, transport=kind)
    async with aclosing(make_transport(backend)) as transport:
        assert isinstance(transport, DirectTransport) == (kind == "direct" and proxy is None)
        yield transport


@pytest.mark.parametrize("verify", [True, False], ids=["verified", "not-verified"])
@every_kind
@async_test
async def test_tls_with_a_private_authority(
    kind: Kind,
    verify: bool,  # noqa: FBT001 - pytest passes it
    trusting: TlsConfig,
    tls_server: ssl.SSLContext,
) -> None:
    tls = trusting if verify else TlsConfig(verify=False)
    async with (
        serving(always(OK), tls_server) as server,
        transport_for(server, kind, tls) as transport,
    ):
        assert await send(transport, server, b"x" * 10**6) == (200, b"hello")
        assert await send(transport, server) == (200, b"hello")
        assert server.connections == 1


@pytest.mark.parametrize(
    ("host", "trusted"),
    [
        pytest.param("localhost", False, id="unknown-authority"),
        pytest.param("elsewhere.test", True, id="another-host"),
    ],
)
@every_kind
@async_test
async def test_tls_with_a_wrong_certificate_is_an_error(
    kind: Kind,
    host: str,
    trusted: bool,  # noqa: FBT001 - pytest passes it
    authority: CertificateAuthority,
    trusting: TlsConfig,
) -> None:
    tls = trusting if trusted else TlsConfig()
    async with (
        serving(always(OK), tls_context(authority, host)) as server,
        transport_for(server, kind, tls) as transport,
    ):
        with pytest.raises(httpx.ConnectError, match="certificate"):
            await send(transport, server)


@every_kind
@async_test
async def test_tls_with_a_client_certificate(
    kind: Kind, authority: CertificateAuthority, trusting: TlsConfig
) -> None:
    context = tls_context(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = (str(file) for file in authority.issue("client.test"))
    known = replace(trusting, cert_file=certificate, key_file=key)
    async with serving(always(OK), context) as server:
        async with transport_for(server, kind, known) as transport:
            assert await send(transport, server) == (200, b"hello")
        async with transport_for(server, kind, trusting) as transport:
            with pytest.raises(httpx.TransportError):
                await send(transport, server)


@every_kind
@async_test
async def test_closing_a_response_closes_the_connection(
    kind: Kind, trusting: TlsConfig, tls_server: ssl.SSLContext
) -> None:
    stalled = StalledServer(HALF)
    async with (
        serving(stalled.play, tls_server) as server,
        transport_for(server, kind, trusting) as transport,
    ):
        response = await begin(transport, server)
        assert await anext(chunks_of(response)) == b"hello"
        await response.aclose()
        await stalled.closed.wait()


@every_kind
@async_test
async def test_plain_http_instead_of_tls_is_an_error(kind: Kind) -> None:
    async with serving(lambda peer: peer.send(OK)) as server:
        server.address = server.address.replace("http:", "https:")
        async with transport_for(server, kind) as transport:
            with pytest.raises(httpx.ConnectError):
                await send(transport, server)


def test_invalid_certificate_file_is_an_error_at_once(tmp_path: Path) -> None:
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
    """A proxy that records the methods of its requests."""

    def __init__(self) -> None:
        self.methods: list[bytes] = []

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, address, _ = head.split(b" ", 2)
        self.methods.append(method)
        authority = address if method == b"CONNECT" else address.split(b"/")[2]
        host, _, port = authority.partition(b":")
        backend_reader, backend_writer = await asyncio.open_connection(host.decode(), int(port))
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            backend_writer.write(head)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(copy(reader, backend_writer))
            tasks.create_task(copy(backend_reader, writer))


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
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


@async_test
async def test_proxy_forwards_http() -> None:
    async with proxying() as (proxy, address), serving(always(OK)) as server:
        async with transport_for(server, proxy=address) as transport:
            assert await send(transport, server) == (200, b"hello")
            assert await send(transport, server) == (200, b"hello")
        assert proxy.methods == [b"POST"]


@async_test
async def test_proxy_tunnels_tls(trusting: TlsConfig, tls_server: ssl.SSLContext) -> None:
    async with proxying() as (proxy, address), serving(always(OK), tls_server) as server:
        async with transport_for(server, "httpx", trusting, address) as transport:
            assert await send(transport, server) == (200, b"hello")
        assert proxy.methods == [b"CONNECT"]


@async_test
async def test_missing_proxy_is_an_error() -> None:
    # The server starts first, so that it cannot get the port of the proxy.
    async with serving(always(OK)) as server:
        async with proxying() as (_, address):
            pass
        async with transport_for(server, proxy=address) as transport:
            with pytest.raises(httpx.ConnectError):
                await send(transport, server)
        assert server.connections == 0


@every_kind
@async_test
async def test_trace_reports_that_the_request_is_sent(kind: Kind) -> None:
    sent = 0

    async def trace(event: str, _: Mapping[str, object]) -> None:
        nonlocal sent
        sent += event == SENDING_EVENT

    async with serving(always(OK)) as server, transport_for(server, kind) as transport:
        for _ in range(2):
            response = await begin(transport, server, trace=trace)
            assert await response.aread() == b"hello"
        # Once for each request, also on a connection that is used again.
        assert sent == 2
        assert server.connections == 1
