"""The way in: what is posted for a backend goes to its front at once, all else through Litestar.

A front answers for itself, whatever happens, and wants nothing of what Litestar prepares for a
handler. Only what Litestar would bring to it just so takes the short way.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import (
    HTTPScope,
    LifeSpanReceive,
    LifeSpanScope,
    LifeSpanSend,
    Receive,
    Scope,
    Send,
)

# What hosts look like. Litestar knows more that are legal, and refuses those that are not.
_HOST: Final = re.compile(rb"[0-9A-Za-z._:\[\]-]+")


class Application(Litestar):
    """Litestar, with a short way to some addresses."""

    # By the addresses to which clients post. Empty where somebody in between wants to see it all.
    fronts: Mapping[str, Callable[..., Awaitable[None]]] = {}

    async def __call__(
        self,
        scope: Scope | LifeSpanScope,
        receive: Receive | LifeSpanReceive,
        send: Send | LifeSpanSend,
    ) -> None:
        """Answer one request."""
        front = None
        if scope["type"] != "lifespan" and scope["type"] == ScopeType.HTTP:
            front = self._find(scope)
        await (front or super().__call__)(scope, receive, send)

    def _find(self, scope: HTTPScope) -> Callable[..., Awaitable[None]] | None:
        if scope["method"] != "POST":
            return None
        front = self.fronts.get(scope["path"])
        if front is None:
            return None
        host = next((value for name, value in scope["headers"] if name == b"host"), None)
        return front if host is None or _HOST.fullmatch(host) else None
