"""Asks a backend at another address than that of its answers."""

from typing import Final

import httpx
from msgspec import Struct

from adapters import BrokenReply
from adapters.redacting import redact_errors, redact_text
from gateway import statuses
from gateway.access import Caller
from gateway.client import Client
from gateway.headers import Headers, for_backend, for_client
from gateway.refusals import read_whole
from gateway.upstream import Upstream
from gateway.watch import Watch

# What a server answers that has no such address.
NOT_THERE: Final = frozenset((404, 405, 501))


class Answered(Struct, frozen=True):
    """What it answered, whole."""

    status: int
    headers: Headers
    body: bytes


class Aside(Struct, frozen=True):
    """Who asks, and of whom."""

    upstream: Upstream
    caller: Caller
    client: Client
    watch: Watch

    async def ask(self, path: str, body: bytes, *, root: bool = False) -> Answered:
        """Ask, again if need be; whatever goes wrong is a `DragomanError`."""
        upstream = self.upstream
        headers = [*for_backend(self.client.headers), *upstream.authorization(self.caller)]
        target = upstream.beside(path, root=root)
        response = await upstream.post(body, headers, self.watch, streams=False, target=target)
        self.watch.expect_more()
        try:
            response = await read_whole(response)
        except httpx.HTTPError:
            raise BrokenReply(None, "the backend's answer was cut off") from None
        status = response.status_code
        clean = redact_text if status >= statuses.ERROR else redact_errors
        found = for_client(upstream.headers_of(response))
        return Answered(status, found, clean(response.content, upstream.redact))
