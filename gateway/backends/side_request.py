"""Asks a backend at another address than that of its answers."""

from typing import Final

import httpx
from msgspec import Struct

from adapters import InvalidReplyError
from adapters.translation.redaction import redact_errors, redact_text
from gateway import statuses
from gateway.backends.client import BackendClient
from gateway.backends.refusals import read_whole
from gateway.http.auth import Principal
from gateway.http.client_connection import ClientConnection
from gateway.http.headers import Headers, backend_headers, client_headers
from gateway.http.monitor import ExchangeMonitor

# What a server answers that has no such address.
NOT_THERE: Final = frozenset((404, 405, 501))


class SideResponse(Struct, frozen=True):
    """What it answered, whole."""

    status: int
    headers: Headers
    body: bytes


class SideRequest(Struct, frozen=True):
    """Who asks, and of whom."""

    upstream: BackendClient
    caller: Principal
    client: ClientConnection
    watch: ExchangeMonitor

    async def ask(self, path: str, body: bytes, *, root: bool = False) -> SideResponse:
        """Ask, again if need be; whatever goes wrong is a `DragomanError`."""
        upstream = self.upstream
        headers = [*backend_headers(self.client.headers), *upstream.authorization(self.caller)]
        target = upstream.target_for(path, root=root)
        response = await upstream.post(body, headers, self.watch, streams=False, target=target)
        self.watch.expect_more()
        try:
            response = await read_whole(response)
        except httpx.HTTPError:
            raise InvalidReplyError(None, "the backend's answer was cut off") from None
        status = response.status_code
        clean = redact_text if status >= statuses.ERROR else redact_errors
        found = client_headers(upstream.headers_of(response))
        return SideResponse(status, found, clean(response.content, upstream.redact))
