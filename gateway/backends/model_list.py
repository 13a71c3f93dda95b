"""Asks the backends for their models, all at once, and remembers the answers for a while."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import httpx

from gateway.backends.client import BackendClient
from gateway.backends.models import (
    ListedModel,
    Listing,
    ServedModel,
    merge,
    read_models,
    write_model,
    write_models,
)
from gateway.errors import ModelNotFoundError
from gateway.http.auth import Principal
from gateway.observability.logging import LOG

# How long a backend may take to list its models: a person waits for the answer.
PATIENCE = 5.0
# How long a list is good for; a short time only if a backend did not answer.
FRESH = 60.0
FRESH_IF_INCOMPLETE = 5.0
# The longest lists have some hundred models, each of a few kilobytes.
_LARGEST = 16 * 1024 * 1024
# Lists differ with the client's key where that goes to the backend: so many are remembered.
_REMEMBERED = 256

_ACCEPT = (b"accept", b"application/json")


class _Memory:
    """What the backends listed for one kind of caller, and until when that counts."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.until = float("-inf")
        self.models: list[ServedModel] = []
        self.body = b""


class ModelList:
    """The models of all backends, merged."""

    def __init__(
        self,
        upstreams: Sequence[BackendClient],
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstreams = upstreams
        self._patience = patience
        self._clock = clock
        self._memories: OrderedDict[bytes, _Memory] = OrderedDict()

    async def get(self, authorization: str | None) -> bytes:
        """Give the whole list, for OpenAI's clients and for Codex."""
        return (await self._recall(authorization)).body

    async def find(self, authorization: str | None, name: str) -> bytes:
        """Give one model by its name; raise `NoSuchModel` if there is none."""
        memory = await self._recall(authorization)
        for model in memory.models:
            if model.name == name:
                return write_model(model)
        raise ModelNotFoundError("model", f"no backend lists a model named {name!r}")

    async def _recall(self, authorization: str | None) -> _Memory:
        memory = self._memory(authorization)
        # Whoever comes while the backends are being asked waits for the same answer.
        async with memory.lock:
            if self._clock() >= memory.until:
                await self._refresh(memory, authorization)
        return memory

    def _memory(self, authorization: str | None) -> _Memory:
        """Find what is remembered for a caller. The key itself is not kept."""
        digest = hashlib.sha256((authorization or "").encode("utf-8", "surrogateescape")).digest()
        memory = self._memories.setdefault(digest, _Memory())
        self._memories.move_to_end(digest)
        if len(self._memories) > _REMEMBERED:
            self._memories.popitem(last=False)
        return memory

    async def _refresh(self, memory: _Memory, authorization: str | None) -> None:
        listings = await asyncio.gather(
            *(self._ask(upstream, authorization) for upstream in self._upstreams)
        )
        memory.models = merge(
            [
                Listing(upstream.backend, listed or ())
                for upstream, listed in zip(self._upstreams, listings, strict=True)
            ]
        )
        memory.body = write_models(memory.models)
        complete = all(listed is not None for listed in listings)
        memory.until = self._clock() + (FRESH if complete else FRESH_IF_INCOMPLETE)

    async def _ask(
        self, upstream: BackendClient, authorization: str | None
    ) -> list[ListedModel] | None:
        """Ask one backend; None: it did not answer as it should."""
        try:
            async with asyncio.timeout(self._patience):
                status, body = await _fetch(upstream, Principal(authorization=authorization))
        except (httpx.HTTPError, OSError, TimeoutError) as error:
            LOG.warning("models not listed", backend=upstream.name, why=type(error).__name__)
            return None
        if not httpx.codes.is_success(status):
            LOG.warning("models not listed", backend=upstream.name, why=f"status {status}")
            return None
        return read_models(body)


async def _fetch(upstream: BackendClient, caller: Principal) -> tuple[int, bytes]:
    request = upstream.models.get([_ACCEPT, *upstream.authorization(caller)])
    response = await upstream.transport.handle_async_request(request)
    try:
        return response.status_code, await _read(response)
    finally:
        await response.aclose()


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > _LARGEST:
            raise httpx.ReadError("the list of models is too long")
    return bytes(body)
