"""The list of models: those that backends list, renamed and filtered by the configuration.

Most backends list their models as OpenAI does. Some send a bare array, or only names, or an object
with other keys, and some have no list. A body that cannot be read counts as an empty list.
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

# Short, because a person may wait for the list.
LIST_TIMEOUT_SECONDS = 5.0
CACHE_SECONDS = 60.0
# For a list that lacks the models of a backend that failed.
INCOMPLETE_CACHE_SECONDS = 5.0
# The longest lists have some hundred models of a few kilobytes each.
_MAX_LIST_BYTES = 16 * 1024 * 1024
# There is one list for each key of a client, because the key may be forwarded to backends.
_MAX_CACHED_LISTS = 256

# The keys of lists and names, the most common first.
_LIST_KEYS = ("data", "models")
_NAME_KEYS = ("id", "model", "name", "slug")
# The keys for the context window of vLLM, Groq, OpenRouter, LM Studio and others.
_WINDOW_KEYS = (
    "max_model_len",
    "context_window",
    "context_length",
    "max_context_length",
    "max_input_tokens",
)
# The keys in llama.cpp's `meta`: the window that the server was started with, or that of training.
_META_WINDOW_KEYS = ("n_ctx", "n_ctx_train")

_GLOB_CHARACTERS = frozenset("*?[")
_ACCEPT_JSON = (b"accept", b"application/json")
_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()

JsonObject = dict[str, Json]


class Model(Struct, frozen=True):
    """One model in the format of OpenAI, with further fields of its backend."""

    id: Annotated[str, Meta(description="The name for requests.")]
    created: Annotated[int, Meta(description="Unix time; 0 if the backend does not report it.")]
    owned_by: Annotated[str, Meta(description="As reported by the backend, or the backend's name.")]
    object: Literal["model"] = "model"


class Models(Struct, frozen=True):
    """All models, in two formats: `data` is for the clients of OpenAI, `models` for Codex."""

    data: list[Model]
    models: list[CodexModel]
    object: Literal["list"] = "list"


class ListedModel(Struct, frozen=True):
    """A model in the list of a backend."""

    name: str
    fields: JsonObject = {}

    @property
    def context_window(self) -> int | None:
        """Return the context window in tokens, if the backend reports it."""
        values = [self.fields.get(key) for key in _WINDOW_KEYS]
        meta = self.fields.get("meta")
        if isinstance(meta, dict):
            values += [meta.get(key) for key in _META_WINDOW_KEYS]
        return next(filter(None, map(_positive_integer, values)), None)


class BackendModels(Struct, frozen=True):
    """The models that one backend lists."""

    backend: BackendConfig
    models: Sequence[ListedModel] = ()


class ServedModel(Struct, frozen=True):
    """A model under the name that clients use."""

    name: str
    listed: ListedModel
    backend_name: str

    def entry(self) -> JsonObject:
        """Return the model in OpenAI's format."""
        fields = self.listed.fields
        owner = fields.get("owned_by")
        return {
            **fields,
            "id": self.name,
            "object": "model",
            "created": _positive_integer(fields.get("created")) or 0,
            "owned_by": owner if isinstance(owner, str) and owner else self.backend_name,
        }


def _positive_integer(value: Json) -> int | None:
    valid = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return cast("int", value) if valid else None


# Reading


def read_models(body: bytes) -> list[ListedModel]:
    """Read a backend's list; a body that is no list counts as an empty one."""
    try:
        # An unpaired surrogate in one name must not make the whole list unreadable.
        value = cast("Json", _DECODER.decode(replace_invalid_text(body)))
    except DECODE_ERRORS:
        return []
    if isinstance(value, dict):
        values = (value.get(key) for key in _LIST_KEYS)
        value = next((one for one in values if isinstance(one, list)), None)
    entries = map(_read_entry, value) if isinstance(value, list) else ()
    return [model for model in entries if model is not None]


def _read_entry(entry: Json) -> ListedModel | None:
    if not isinstance(entry, dict):
        return ListedModel(entry) if isinstance(entry, str) and entry else None
    names = (entry.get(key) for key in _NAME_KEYS)
    name = next((one for one in names if isinstance(one, str) and one), None)
    if name is None:
        return None
    # Only entries with an `id` have the fields of OpenAI's format.
    return ListedModel(name, entry if entry.get("id") == name else {})


# Merging


def merge_models(listings: Sequence[BackendModels]) -> list[ServedModel]:
    """Return the models of all backends; of several with the same name, only the first."""
    backends = [listing.backend for listing in listings]
    merged: dict[str, ServedModel] = {}
    for listing in listings:
        for served in _served_models(listing, backends):
            merged.setdefault(served.name, served)
    return list(merged.values())


def _served_models(
    listing: BackendModels, backends: Sequence[BackendConfig]
) -> Iterator[ServedModel]:
    """Yield the models of a backend: those in its list, then those in the configuration."""
    backend = listing.backend
    model_aliases = backend.model_aliases
    aliases: dict[str, list[str]] = {}
    for alias, name in model_aliases.items():
        aliases.setdefault(name, []).append(alias)
    for model in listing.models:
        for name in (*aliases.get(model.name, ()), model.name):
            if model_aliases.get(name, name) == model.name and _is_routed(name, backend, backends):
                yield ServedModel(name, model, backend.name)
    for name in (*backend.served_models, *model_aliases):
        if name in model_aliases or not _GLOB_CHARACTERS & set(name):
            yield ServedModel(name, ListedModel(name), backend.name)


def _is_routed(name: str, backend: BackendConfig, backends: Sequence[BackendConfig]) -> bool:
    """Whether requests for a model may go to a backend."""
    if _matches(name, backend):
        return True
    return backend.default and not any(_matches(name, other) for other in backends)


def _matches(name: str, backend: BackendConfig) -> bool:
    return name in backend.model_aliases or any(
        fnmatchcase(name, glob) for glob in backend.served_models
    )


def write_models(models: Sequence[ServedModel]) -> bytes:
    """Write the list in both formats."""
    codex = [
        codex_model(model.name, priority, context_window=model.listed.context_window)
        for priority, model in enumerate(models)
    ]
    data = [model.entry() for model in models]
    return _ENCODER.encode({"object": "list", "data": data, "models": codex})


# Fetching and caching


class _CachedList:
    """The merged list for one key of a client."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.valid_until = float("-inf")
        self.models: list[ServedModel] = []
        self.body = b""


class ModelList:
    """The models of all backends, fetched in parallel, merged and cached."""

    def __init__(
        self,
        backends: Sequence[BackendClient],
        *,
        timeout: float = LIST_TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backends = backends
        self._timeout = timeout
        self._clock = clock
        # By the digest of the client's key, the most recently used last.
        self._cache: OrderedDict[bytes, _CachedList] = OrderedDict()

    async def get(self, authorization: str | None) -> bytes:
        """Return the whole list, for OpenAI's clients and for Codex."""
        return (await self._load(authorization)).body

    async def find(self, authorization: str | None, name: str) -> bytes:
        """Return one model by its name; raise `ModelNotFoundError` if there is none."""
        for model in (await self._load(authorization)).models:
            if model.name == name:
                return _ENCODER.encode(model.entry())
        raise ModelNotFoundError("model", f"no backend lists a model named {name!r}")

    async def _load(self, authorization: str | None) -> _CachedList:
        cached = self._cached_list(authorization)
        # Concurrent requests wait for the same fetch.
        async with cached.lock:
            if self._clock() >= cached.valid_until:
                await self._refresh(cached, authorization)
        return cached

    def _cached_list(self, authorization: str | None) -> _CachedList:
        digest = hashlib.sha256((authorization or "").encode("utf-8", "surrogateescape")).digest()
        cached = self._cache.setdefault(digest, _CachedList())
        self._cache.move_to_end(digest)
        if len(self._cache) > _MAX_CACHED_LISTS:
            self._cache.popitem(last=False)
        return cached

    async def _refresh(self, cached: _CachedList, authorization: str | None) -> None:
        principal = Principal(authorization=authorization)
        fetched = await asyncio.gather(
            *(self._fetch_models(backend, principal) for backend in self._backends)
        )
        listings = [
            BackendModels(backend.config, models or ())
            for backend, models in zip(self._backends, fetched, strict=True)
        ]
        cached.models = merge_models(listings)
        cached.body = write_models(cached.models)
        seconds = INCOMPLETE_CACHE_SECONDS if None in fetched else CACHE_SECONDS
        cached.valid_until = self._clock() + seconds

    async def _fetch_models(
        self, backend: BackendClient, principal: Principal
    ) -> list[ListedModel] | None:
        """Fetch the list of one backend; return None if that fails."""
        try:
            async with asyncio.timeout(self._timeout):
                status, body = await _fetch(backend, principal)
        except (httpx.HTTPError, OSError, TimeoutError) as error:
            LOG.warning("models not listed", backend=backend.name, error=type(error).__name__)
            return None
        if not httpx.codes.is_success(status):
            LOG.warning("models not listed", backend=backend.name, error=f"status {status}")
            return None
        return read_models(body)


async def _fetch(backend: BackendClient, principal: Principal) -> tuple[int, bytes]:
    request = backend.models_template.get([_ACCEPT_JSON, *backend.authorization(principal)])
    response = await backend.transport.handle_async_request(request)
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > _MAX_LIST_BYTES:
                raise httpx.ReadError("the list of models is too large")
    finally:
        await response.aclose()
    return response.status_code, bytes(body)
