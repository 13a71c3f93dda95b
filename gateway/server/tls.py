"""TLS of the listening socket, whose certificate can be replaced while the gateway runs."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvicorn

from gateway.config.schema import ServerTlsConfig
from gateway.observability.logging import LOG

# How often the files are compared with those that are in use.
_POLL_SECONDS: Final = 1.0
_State = tuple[tuple[int, int, int] | None, ...]


class ServerCertificate:
    """The context for uvicorn, into which changed files are loaded.

    New connections use the new certificate, and others continue. If the files are invalid, for
    example because only one of them was replaced yet, the previous certificate stays.
    """

    def __init__(self, tls: ServerTlsConfig) -> None:
        self._tls = tls

    def __call__(
        self, _config: uvicorn.Config, make_default: Callable[[], ssl.SSLContext]
    ) -> ssl.SSLContext:
        """Return the context, and check the files from now on."""
        state = self._read_state()
        context = make_default()
        # Clients that offer HTTP/2 need to know that it is not supported.
        context.set_alpn_protocols(["http/1.1"])
        self._schedule(context, state)
        return context

    def _schedule(self, context: ssl.SSLContext, state: _State) -> None:
        asyncio.get_running_loop().call_later(_POLL_SECONDS, self._check, context, state)

    def _check(self, context: ssl.SSLContext, state: _State) -> None:
        """Load the files if they have changed since the last check."""
        new_state = self._read_state()
        if new_state != state:
            self._load(context)
        self._schedule(context, new_state)

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            # A context of its own, because an error would leave half of the files in the other.
            self._load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load_into(context)
        except OSError as error:
            # ssl.SSLError is an OSError.
            LOG.warning("certificate not reloaded", file=self._tls.cert_file, error=str(error))
        else:
            LOG.info("certificate reloaded", file=self._tls.cert_file)

    def _load_into(self, context: ssl.SSLContext) -> None:
        # The empty password makes OpenSSL fail instead of prompting on the terminal.
        context.load_cert_chain(self._tls.cert_file or "", self._tls.key_file, password="")

    def _read_state(self) -> _State:
        return tuple(map(_state, (self._tls.cert_file, self._tls.key_file)))


def _state(file: str | None) -> tuple[int, int, int] | None:
    """Return what changes when a file, or the file behind a symbolic link, is replaced."""
    try:
        status = Path(file or "").stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
