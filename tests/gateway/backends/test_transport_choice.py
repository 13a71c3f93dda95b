"""The transports that a backend can be configured with: TLS, proxies, trace events, their end."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Literal

import httpx
import pytest
from msgspec.structs import replace

from gateway.backends.transport import (
    SENDING_EVENT,
    DirectTransport,
    LibraryTransport,
    make_transport,
)
from gateway.config.schema import BackendConfig, TlsConfig
from tests.gateway.backends.byte_server import (
    HALF,
    LAST_CHUNK,
    OK,
    Link,
    Peer,
    Script,
    Server,
    StalledServer,
    always,
    chunks_of,
    serving,
)
from tests.gateway.certificates import CertificateAuthority
from tests.gateway.waiting import TIMEOUT_SECONDS

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
async def link_to(
    server: Server, kind: Kind = "direct", tls: TlsConfig | None = None, proxy: str | None = None
) -> AsyncGenerator[Link, None]:
    backend = BackendConfig(
        "test", server.address, "chat", tls=tls or TlsConfig(), proxy=proxy, transport=kind
    )
    async with aclosing(make_transport(backend)) as transport:
        assert isinstance(transport, DirectTransport) == (kind == "direct" and proxy is None)
        yield Link(transport, server)


@asynccontextmanager
async def linked(
    kind: Kind, script: Script, context: ssl.SSLContext | None = None, tls: TlsConfig | None = None
) -> AsyncGenerator[Link, None]:
    async with serving(script, context) as server, link_to(server, kind, tls) as link:
        yield link


@pytest.mark.parametrize("verify", [True, False], ids=["verified", "not-verified"])
@every_kind
async def test_tls_with_a_private_authority(
    kind: Kind,
    verify: bool,  # noqa: FBT001 - pytest passes it
    trusting: TlsConfig,
    tls_server: ssl.SSLContext,
) -> None:
    tls = trusting if verify else TlsConfig(verify=False)
    async with linked(kind, always(OK), tls_server, tls) as link:
        assert await link.send(b"x" * 10**6) == (200, b"hello")
        assert await link.send() == (200, b"hello")
        assert link.connections == 1


@pytest.mark.parametrize(
    ("host", "trusted"),
    [
        pytest.param("localhost", False, id="unknown-authority"),
        pytest.param("elsewhere.test", True, id="another-host"),
    ],
)
@every_kind
async def test_tls_with_a_wrong_certificate_is_an_error(
    kind: Kind,
    host: str,
    trusted: bool,  # noqa: FBT001 - pytest passes it
    authority: CertificateAuthority,
    trusting: TlsConfig,
) -> None:
    tls = trusting if trusted else TlsConfig()
    async with linked(kind, always(OK), tls_context(authority, host), tls) as link:
        with pytest.raises(httpx.ConnectError, match="certificate"):
            await link.send()


@every_kind
async def test_tls_with_a_client_certificate(
    kind: Kind, authority: CertificateAuthority, trusting: TlsConfig
) -> None:
    context = tls_context(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = (str(file) for file in authority.issue("client.test"))
    known = replace(trusting, cert_file=certificate, key_file=key)
    async with serving(always(OK), context) as server:
        async with link_to(server, kind, known) as link:
            assert await link.send() == (200, b"hello")
        async with link_to(server, kind, trusting) as link:
            with pytest.raises(httpx.TransportError):
                await link.send()


@every_kind
async def test_closing_a_response_closes_the_connection(
    kind: Kind, trusting: TlsConfig, tls_server: ssl.SSLContext
) -> None:
    stalled = StalledServer(HALF)
    async with linked(kind, stalled.play, tls_server, trusting) as link:
        response = await link.begin()
        assert await anext(chunks_of(response)) == b"hello"
        await response.aclose()
        await stalled.closed.wait()


@every_kind
async def test_plain_http_instead_of_tls_is_an_error(kind: Kind) -> None:
    async with serving(lambda peer: peer.send(OK)) as server:
        server.address = server.address.replace("http:", "https:")
        async with link_to(server, kind) as link:
            with pytest.raises(httpx.ConnectError):
                await link.send()


def test_invalid_certificate_file_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "wrong.pem").write_text("nothing")
    wrong = str(tmp_path / "wrong.pem")
    for tls in (TlsConfig(ca_file=wrong), TlsConfig(cert_file=wrong), TlsConfig(ca_file="missing")):
        with pytest.raises((FileNotFoundError, ssl.SSLError)):
            make_transport(BackendConfig("test", "https://localhost", "chat", tls=tls))


class Proxy:
    """A proxy that records the methods of its requests."""

    def __init__(self) -> None:
        self.methods: list[bytes] = []

    async def play(self, peer: Peer) -> None:
        request = await peer.request()
        method, url, _ = request.split(b" ", 2)
        self.methods.append(method)
        if method == b"CONNECT":
            host, request = url, b""
            await peer.send(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            host = url.split(b"/")[2]
        name, _, port = host.decode().partition(":")
        await peer.forward_to(name, int(port), request)


async def test_proxy_forwards_http() -> None:
    proxy = Proxy()
    async with serving(proxy.play) as front, serving(always(OK)) as server:
        async with link_to(server, proxy=front.address) as link:
            assert await link.send() == (200, b"hello")
            assert await link.send() == (200, b"hello")
        assert proxy.methods == [b"POST"]


async def test_proxy_tunnels_tls(trusting: TlsConfig, tls_server: ssl.SSLContext) -> None:
    proxy = Proxy()
    async with serving(proxy.play) as front, serving(always(OK), tls_server) as server:
        async with link_to(server, "httpx", trusting, front.address) as link:
            assert await link.send() == (200, b"hello")
        assert proxy.methods == [b"CONNECT"]


async def test_missing_proxy_is_an_error() -> None:
    # The server starts first, so that it cannot get the port of the proxy.
    async with serving(always(OK)) as server:
        async with serving(always(OK)) as front:
            pass
        async with link_to(server, proxy=front.address) as link:
            with pytest.raises(httpx.ConnectError):
                await link.send()
        assert server.connections == 0


@every_kind
async def test_trace_reports_that_the_request_is_sent(kind: Kind) -> None:
    sent = 0

    async def trace(event: str, _: Mapping[str, object]) -> None:
        nonlocal sent
        sent += event == SENDING_EVENT

    async with linked(kind, always(OK)) as link:
        for _ in range(2):
            response = await link.begin(trace=trace)
            assert await response.aread() == b"hello"
        # Once for each request, also on a connection that is used again.
        assert sent == 2
        assert link.connections == 1


@every_kind
async def test_retired_transport_completes_its_requests_and_closes(kind: Kind) -> None:
    gate, closed = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.respond(HALF)
        await gate.wait()
        await peer.send(LAST_CHUNK)
        await peer.closed()
        closed.set()

    async with linked(kind, script) as link:
        assert isinstance(link.transport, DirectTransport | LibraryTransport)
        response = await link.begin()
        link.transport.retire()
        gate.set()
        assert b"".join([chunk async for chunk in chunks_of(response)]) == b"hello"
        await response.aclose()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await closed.wait()


@every_kind
async def test_retired_transport_closes_idle_connections(kind: Kind) -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        while await peer.respond(OK):
            pass
        closed.set()

    async with linked(kind, script) as link:
        assert isinstance(link.transport, DirectTransport | LibraryTransport)
        assert await link.send() == (200, b"hello")
        link.transport.retire()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await closed.wait()
        # A running exchange may still send requests.
        assert await link.send() == (200, b"hello")
        assert link.connections == 2
