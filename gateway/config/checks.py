"""What must be right between the parts of a file: names that are unique, one default.

Each part is looked at as soon as its own shape is right, whatever is wrong elsewhere.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from typing import TypeVar, cast

import msgspec
from msgspec import Struct

from gateway.config.schema import (
    MEMORY_URL,
    BackendConfig,
    KeyConfig,
    SealingConfig,
    ServerConfig,
    StateConfig,
    TracingConfig,
)
from gateway.config.validation import (
    List,
    Table,
    check_backend,
    check_host,
    check_variable,
    element,
    inside,
    quoted,
)
from gateway.crypto import parse_sealing_key

Value = TypeVar("Value", bound=Struct)


def check_parts(table: Table) -> Iterator[str]:
    """Name all that is wrong within and between the parts of a file."""
    keys = _elements(table.get("access"), "keys")
    yield from _check_keys(list(_placed(keys, "access.keys", KeyConfig)))
    backends = _elements(table, "backends")
    yield from _check_backends(list(_placed(backends, "backends", BackendConfig)))
    for tracing in _converted(table.get("tracing"), TracingConfig):
        yield from _check_tracing(tracing)
    for sealing in _converted(table.get("sealing"), SealingConfig):
        yield from _check_sealing(sealing)
    for server in _converted(table.get("server"), ServerConfig):
        for state in _converted(table.get("state"), StateConfig):
            yield from check_shared_state(server, state)


def check_shared_state(server: ServerConfig, state: StateConfig) -> Iterator[str]:
    """Name a memory that several processes could not share: what one keeps, no other would find."""
    if server.workers > 1 and state.url == MEMORY_URL:
        legal = f'expected "sqlite:FILE" or "postgresql://…", which {server.workers} workers share'
        yield f"state.url: {legal}, got {quoted(MEMORY_URL)}, which each would have for itself"


def _elements(table: object, key: str) -> List:
    """Give the list at a key of a table; if either is something else, there is nothing to check."""
    value = cast("Table", table).get(key) if isinstance(table, dict) else None
    return cast("List", value) if isinstance(value, list) else []


def _placed(values: List, place: str, struct: type[Value]) -> Iterator[tuple[str, Value]]:
    """Read those that have the right shape, each with its place."""
    for index, value in enumerate(values):
        try:
            yield element(place, index, value), msgspec.convert(value, struct)
        except msgspec.ValidationError:
            # What is wrong with it is said where shapes are checked.
            continue


def _converted(table: object, struct: type[Value]) -> Iterator[Value]:
    """Read a table, if it is there and has the right shape."""
    if table is not None:
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(table, struct)


def _check_keys(keys: list[tuple[str, KeyConfig]]) -> Iterator[str]:
    yield from _check_names((place, key.name) for place, key in keys)
    seen: dict[str, str] = {}
    for place, key in keys:
        first = seen.setdefault(key.sha256, place)
        if first != place:
            yield f"{inside(place, 'sha256')}: this is the same key as {first}"


def _check_backends(backends: list[tuple[str, BackendConfig]]) -> Iterator[str]:
    for place, backend in backends:
        yield from check_backend(backend, place)
    yield from _check_names((place, backend.name) for place, backend in backends)
    defaults = [place for place, backend in backends if backend.default]
    for place in defaults[1:]:
        yield f"{inside(place, 'default')}: only one can be true, and that of {defaults[0]} is"


def _check_tracing(tracing: TracingConfig) -> Iterator[str]:
    if tracing.endpoint is None:
        return
    yield from check_host(tracing.endpoint, "tracing.endpoint")
    if not _can_trace():
        more = 'pip install "dragoman[tracing]"'
        yield f"tracing.endpoint: the packages for this are not installed; {more} gets them"


def _check_sealing(sealing: SealingConfig) -> Iterator[str]:
    if sealing.previous_key_envs and sealing.key_env is None:
        yield "sealing.key_env: it is missing; older keys open, but do not seal"
    older = enumerate(sealing.previous_key_envs)
    places = [(element("sealing.previous_key_envs", index, None), name) for index, name in older]
    if sealing.key_env is not None:
        places.append(("sealing.key_env", sealing.key_env))
    for place, name in places:
        yield from check_variable(name, place)
        text = os.environ.get(name)
        if text and parse_sealing_key(text) is None:
            yield f"{place}: expected 32 bytes in base64 or hex in the variable (not shown)"


def _can_trace() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def _check_names(names: Iterable[tuple[str, str]]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for place, name in names:
        first = seen.setdefault(name, place)
        if first != place:
            taken = f"{quoted(name)} is the name of {first} already"
            yield f"{inside(place, 'name')}: {taken}; expected another one"
