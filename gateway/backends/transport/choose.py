"""Which transport serves a backend."""

import ssl

import httpx

from gateway.backends.pool import Limits
from gateway.backends.sockets import SOCKET_OPTIONS
from gateway.backends.transport.direct import DirectTransport
from gateway.config.schema import Backend, Tls


def make_transport(backend: Backend) -> httpx.AsyncBaseTransport:
    """Make the transport for a backend: our own, or that of httpx where a proxy is in between.

    Raises OSError if a file of its TLS settings cannot be read or is not what it should be.
    """
    limits = Limits(connections=backend.max_connections)
    context = make_context(backend.tls) if backend.url.startswith("https:") else None
    if backend.proxy is None:
        return DirectTransport(limits, context)
    return httpx.AsyncHTTPTransport(
        proxy=backend.proxy,
        # Without TLS there is nothing to verify, and to read all authorities takes its time.
        verify=context or False,
        limits=httpx.Limits(
            max_connections=limits.connections,
            max_keepalive_connections=limits.connections,
            keepalive_expiry=limits.idle_seconds,
        ),
        socket_options=SOCKET_OPTIONS,
    )


def make_context(tls: Tls) -> ssl.SSLContext:
    """Make the TLS context that the settings ask for."""
    context = trusting(tls)
    if tls.certificate_file is not None:
        context.load_cert_chain(tls.certificate_file, tls.key_file)
    # Some servers want to be told what is spoken, and we speak nothing else.
    context.set_alpn_protocols(["http/1.1"])
    return context


def trusting(tls: Tls) -> ssl.SSLContext:
    """Make a context that trusts whom the settings trust."""
    if tls.verify and tls.ca_file is not None:
        return ssl.create_default_context(cafile=tls.ca_file)
    return httpx.create_ssl_context(verify=tls.verify)
