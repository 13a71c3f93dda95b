"""Which models there are: what the backends list, seen through the configuration.

Backends list their models in the shape of OpenAI, as a rule; some give a bare list, or only names,
or have a shape of their own, and some have no list at all. What cannot be read lists nothing.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal, cast

import httpx
import msgspec
from msgspec import Meta, Struct

from adapters.json_text import DECODE_ERRORS, replace_invalid_text
from adapters.wire.json_object import Json
from gateway.backends.client import BackendClient
from gateway.backends.codex_models import CodexModel, codex_model
from gateway.config.schema import BackendConfig
from gateway.errors import ModelNotFoundError
from gateway.http.auth import Principal
from gateway.observability.logging import LOG

_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()

# Under which keys lists and names are found, the most usual first.
_LISTS = ("data", "models")
_NAMES = ("id", "model", "name", "slug")
# How servers say the length of a conversation: vLLM, Groq, OpenRouter, LM Studio and others.
_WINDOWS = (
    "max_model_len",
    "context_window",
    "context_length",
    "max_context_length",
    "max_input_tokens",
)
# llama.cpp says it one level down: the length it was started with, or that of the training.
_INNER_WINDOWS = ("n_ctx", "n_ctx_train")

_GLOB_LETTERS = frozenset("*?[")

JsonObject = dict[str, Json]


class Model(Struct, frozen=True):
    """One model in the shape of OpenAI; what else its backend says of it follows."""

    id: Annotated[str, Meta(description="The name to ask for.")]
    created: Annotated[int, Meta(description="Unix time; 0 if the backend does not say.")]
    owned_by: Annotated[str, Meta(description="As the backend says, or the backend's name.")]
    object: Literal["model"] = "model"


class Models(Struct, frozen=True):
    """All models, in two shapes: `data` is for the clients of OpenAI, `models` for Codex."""

    data: list[Model]
    models: list[CodexModel]
    object: Literal["list"] = "list"


class ListedModel(Struct, frozen=True):
    """One model as a backend lists it."""

    name: str
    said: JsonObject = {}

    @property
    def context_window(self) -> int | None:
        """Find how long a conversation may become, where the backend says so."""
        found = [self.said.get(name) for name in _WINDOWS]
        meta = self.said.get("meta")
        if isinstance(meta, dict):
            found += [meta.get(name) for name in _INNER_WINDOWS]
        return next(filter(None, map(_count, found)), None)


def _count(value: Json) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return cast("int", value) if whole else None


# Reading


def read_models(body: bytes) -> list[ListedModel]:
    """Read what a backend answered; what is not a list of models holds none."""
    try:
        # A name with half a character in it spoils itself, not the list.
        value = cast("Json", _DECODER.decode(replace_invalid_text(body)))
    except DECODE_ERRORS:
        return []
    return list(_read_list(value))


def _read_list(value: Json) -> Iterator[ListedModel]:
    if isinstance(value, dict):
        lists = (value.get(name) for name in _LISTS)
        value = next((one for one in lists if isinstance(one, list)), None)
    if isinstance(value, list):
        for entry in value:
            yield from _read_entry(entry)


def _read_entry(entry: Json) -> Iterator[ListedModel]:
    if isinstance(entry, str) and entry:
        yield ListedModel(entry)
    elif isinstance(entry, dict):
        names = (entry.get(name) for name in _NAMES)
        name = next((one for one in names if isinstance(one, str) and one), None)
        if name is not None:
            # Only what stands under the usual name is in the usual shape: the rest is a name.
            yield ListedModel(name, entry if entry.get("id") == name else {})


# Merging


class BackendModels(Struct, frozen=True):
    """What one backend lists."""

    backend: BackendConfig
    models: Sequence[ListedModel] = ()


class ServedModel(Struct, frozen=True):
    """One model under the name that clients use."""

    name: str
    listed: ListedModel
    listing: BackendModels

    @property
    def owner(self) -> str:
        """Name its backend."""
        return self.listing.backend.name

    def entry(self) -> JsonObject:
        """Describe it in the shape of OpenAI."""
        said = self.listed.said
        owner = said.get("owned_by")
        return {
            **said,
            "id": self.name,
            "object": "model",
            "created": _count(said.get("created")) or 0,
            "owned_by": owner if isinstance(owner, str) and owner else self.owner,
        }


def merge_models(listings: Sequence[BackendModels]) -> list[ServedModel]:
    """Gather the models of all backends; of several with one name, the first is served."""
    backends = [listing.backend for listing in listings]
    merged: dict[str, ServedModel] = {}
    for listing in listings:
        for served in _names(listing, backends):
            merged.setdefault(served.name, served)
    return list(merged.values())


def _names(listing: BackendModels, backends: Sequence[BackendConfig]) -> Iterator[ServedModel]:
    """Name the models of one backend: those it lists, then those that only the file names."""
    backend = listing.backend
    aliases: dict[str, list[str]] = {}
    for alias, name in backend.model_aliases.items():
        aliases.setdefault(name, []).append(alias)
    for one in listing.models:
        for name in (*aliases.get(one.name, ()), one.name):
            if backend.model_aliases.get(name, name) == one.name and _reaches(
                name, backend, backends
            ):
                yield ServedModel(name, one, listing)
    for name in (*backend.models, *backend.model_aliases):
        if name in backend.model_aliases or not _GLOB_LETTERS & set(name):
            yield ServedModel(name, ListedModel(name), listing)


def _reaches(name: str, backend: BackendConfig, backends: Sequence[BackendConfig]) -> bool:
    """Tell whether a request for a model may come to a backend."""
    if _matches(name, backend):
        return True
    return backend.default and not any(_matches(name, other) for other in backends)


def _matches(name: str, backend: BackendConfig) -> bool:
    return name in backend.model_aliases or any(fnmatchcase(name, glob) for glob in backend.models)


# Writing


def write_models(models: Sequence[ServedModel]) -> bytes:
    """Write the list for everybody."""
    codex = [
        codex_model(model.name, priority, context_window=model.listed.context_window)
        for priority, model in enumerate(models)
    ]
    data = [model.entry() for model in models]
    return _ENCODER.encode({"object": "list", "data": data, "models": codex})


def write_model(model: ServedModel) -> bytes:
    """Write one of them."""
    return _ENCODER.encode(model.entry())


# Asks the backends for their models, all at once, and remembers the answers for a while.


# How long a backend may take to list its models: a person waits for the answer.
LIST_TIMEOUT_SECONDS = 5.0
# How long a list is good for; a short time only if a backend did not answer.
CACHE_SECONDS = 60.0
INCOMPLETE_CACHE_SECONDS = 5.0
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
        patience: float = LIST_TIMEOUT_SECONDS,
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
        memory.models = merge_models(
            [
                BackendModels(upstream.config, listed or ())
                for upstream, listed in zip(self._upstreams, listings, strict=True)
            ]
        )
        memory.body = write_models(memory.models)
        complete = all(listed is not None for listed in listings)
        memory.until = self._clock() + (CACHE_SECONDS if complete else INCOMPLETE_CACHE_SECONDS)

    async def _ask(
        self, upstream: BackendClient, authorization: str | None
    ) -> list[ListedModel] | None:
        """Ask one backend; None: it did not answer as it should."""
        try:
            async with asyncio.timeout(self._patience):
                status, body = await _fetch(upstream, Principal(authorization=authorization))
        except (httpx.HTTPError, OSError, TimeoutError) as error:
            LOG.warning("models not listed", backend=upstream.name, error=type(error).__name__)
            return None
        if not httpx.codes.is_success(status):
            LOG.warning("models not listed", backend=upstream.name, error=f"status {status}")
            return None
        return read_models(body)


async def _fetch(upstream: BackendClient, caller: Principal) -> tuple[int, bytes]:
    request = upstream.models_target.get([_ACCEPT, *upstream.authorization(caller)])
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
