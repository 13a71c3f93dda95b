"""Checks of values that have the right shape: URLs, files, environment variables, uniqueness.

Each part of a file is checked if its own shape is right, even if other parts are wrong, so that all
errors are reported together.
"""

import math
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from adapters import DIALECTS, Capabilities, dialects_by_path
from adapters.profiles import PROFILES
from gateway.config.database import check_state
from gateway.config.key_checks import (
    Array,
    Table,
    check_shape,
    element_path,
    key_path,
    one_of,
    preview,
    valid_table,
)
from gateway.config.schema import (
    BackendConfig,
    Config,
    KeyConfig,
    ModelConfig,
    SealingConfig,
    ServerTlsConfig,
    TlsConfig,
    TracingConfig,
    read_nulls,
)
from gateway.config.secret_sources import check_sources, check_variable, read_secret
from gateway.config.transforms import check_transforms
from gateway.crypto import parse_sealing_key

Element = TypeVar("Element", bound=Struct)

_WHITESPACE = re.compile(r"\s")
_API_KEY = re.compile(r"[\x21-\x7e]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
# Headers that describe the connection or the body, and are set by the gateway.
_RESERVED_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

# Values for the required keys of a table, with the index of the table.
_PLACEHOLDERS: dict[type[Struct], dict[str, str]] = {
    KeyConfig: {"name": "unnamed {}", "sha256": "{:064x}"},
    BackendConfig: {"name": "unnamed {}", "url": "http://unknown", "dialect": next(iter(DIALECTS))},
}

# Request fields that the gateway sets, which `extra_body` cannot replace.
_OWN_FIELDS = frozenset({"input", "messages", "model", "stream"})


def check_values(table: Table) -> Iterator[str]:
    """Yield an error for each invalid value in those parts of a file that have the right shape."""
    config = msgspec.convert(valid_table(table, Config), Config)
    access = table.get("access")
    keys = cast("Table", access).get("keys") if isinstance(access, dict) else None
    yield from _check_keys(_valid_elements(keys, KeyConfig, "access.keys"))
    yield from _check_backends(_valid_elements(table.get("backends"), BackendConfig, "backends"))
    yield from _check_tracing(config.tracing)
    yield from _check_sealing(config.sealing)
    yield from check_state(config.state, config.server.workers)
    yield from _check_files(config.server.tls, "server.tls")


def _valid_elements(array: object, struct: type[Element], path: str) -> dict[str, Element]:
    """Return the valid parts of the tables in an array, by their paths.

    A required key that is missing or invalid, which is reported already, gets a value that passes
    all checks, so that it does not hide the other errors of its table.
    """
    elements: dict[str, Element] = {}
    for index, value in enumerate(cast("Array", array) if isinstance(array, list) else []):
        if isinstance(value, dict):
            element = cast("Table", value)
            part = valid_table(element, struct)
            known = {name: text.format(index) for name, text in _PLACEHOLDERS[struct].items()}
            where = element_path(path, index, element)
            elements[where] = msgspec.convert(known | part, struct)
    return elements


def _check_keys(keys: dict[str, KeyConfig]) -> Iterator[str]:
    yield from _check_unique_names({path: key.name for path, key in keys.items()})
    digests: dict[str, str] = {}
    for path, key in keys.items():
        first = digests.setdefault(key.sha256, path)
        if first != path:
            yield f"{key_path(path, 'sha256')}: this is the same key as {first}; remove one"


def _check_backends(backends: dict[str, BackendConfig]) -> Iterator[str]:
    for path, backend in backends.items():
        yield from _check_backend(backend, path)
    yield from _check_unique_names({path: backend.name for path, backend in backends.items()})
    defaults = [path for path, backend in backends.items() if backend.default]
    for path in defaults[1:]:
        default = key_path(path, "default")
        yield f"{default}: only one backend can be the default, and {defaults[0]} already is"


def _check_unique_names(names: dict[str, str]) -> Iterator[str]:
    paths: dict[str, str] = {}
    for path, name in names.items():
        first = paths.setdefault(name, path)
        if first != path:
            yield f"{key_path(path, 'name')}: names must be unique, and {first} has the same one"


def _check_tracing(tracing: TracingConfig) -> Iterator[str]:
    if tracing.endpoint is None:
        return
    yield from _check_host(tracing.endpoint, "tracing.endpoint")
    installed = False
    with suppress(ModuleNotFoundError):
        installed = find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    if not installed:
        yield 'tracing.endpoint: requires more packages; run: pip install "dragoman[tracing]"'


def _check_sealing(sealing: SealingConfig) -> Iterator[str]:
    variables = {
        f"sealing.previous_key_envs[{index}]": name
        for index, name in enumerate(sealing.previous_key_envs)
    }
    if sealing.key_env is not None:
        variables["sealing.key_env"] = sealing.key_env
    elif variables:
        yield "sealing.key_env: required with previous_key_envs, whose keys only decrypt"
    for path, name in variables.items():
        yield from check_variable(name, path)
        text = os.environ.get(name)
        if text and parse_sealing_key(text) is None:
            yield f"{path}: the variable must contain 32 bytes in base64 or hex (value not shown)"


def _check_backend(backend: BackendConfig, path: str) -> Iterator[str]:
    yield from check_url(backend.url, key_path(path, "url"))
    if not backend.models and not backend.default:
        models = key_path(path, "models")
        yield f'{models}: expected at least one model or pattern such as "*", got an empty array'
    yield from _check_capabilities(backend, path)
    for index, model in enumerate(backend.models):
        if isinstance(model, ModelConfig):
            yield from _check_capabilities(model, f"{key_path(path, 'models')}[{index}]")
    yield from _check_api_key(backend, path)
    yield from _check_headers(backend.headers, key_path(path, "headers"))
    yield from check_transforms(backend.transforms, key_path(path, "transforms"))
    if backend.proxy is not None:
        yield from _check_host(backend.proxy, key_path(path, "proxy"))
    yield from _check_tls(backend.tls, key_path(path, "tls"))


def check_url(url: str, path: str) -> Iterator[str]:
    """Yield an error for each part that makes a URL unusable as a base URL."""
    if errors := list(_check_host(url, path)):
        yield from errors
        return
    got = f"got {preview(url, path)}"
    parts = urlsplit(url)
    if "@" in parts.netloc:
        yield f"{path}: expected a URL without a user name (for keys use api_key_env), {got}"
    if parts.query or parts.fragment:
        yield f"{path}: expected a URL without query and fragment, {got}"
    for endpoint in dialects_by_path():
        if parts.path.rstrip("/").endswith(endpoint):
            yield f"{path}: expected the base URL without {endpoint}, {got}"


def _check_host(url: str, path: str) -> Iterator[str]:
    import httpx  # noqa: PLC0415 - slow to import, and not needed without a service

    try:
        parts = urlsplit(url)
        valid = parts.hostname and parts.port != 0 and not _WHITESPACE.search(url)
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        valid = False
    if not valid:
        expected = "expected a URL with a valid host and, optionally, a port from 1 to 65535"
        yield f"{path}: {expected}, got {preview(url, path)}"


def check_profile(profile: str | None, path: str) -> Iterator[str]:
    """Yield an error if a profile does not exist."""
    if profile is not None and profile not in PROFILES:
        yield f"{path}: expected {one_of(PROFILES)}, got {preview(profile, path)}"


def _check_capabilities(config: BackendConfig | ModelConfig, path: str) -> Iterator[str]:
    yield from check_profile(config.profile, key_path(path, "profile"))
    capabilities = key_path(path, "capabilities")
    given = read_nulls(config.capabilities)
    known = {name: value for name, value in given.items() if value is not None}
    yield from check_shape(known, Capabilities, capabilities)
    yield from _check_extra_body(config.extra_body, key_path(path, "extra_body"))
    if isinstance(fields := known.get("extra_body"), dict):
        yield from _check_extra_body(cast("Table", fields), key_path(capabilities, "extra_body"))


def _check_extra_body(fields: Table, path: str) -> Iterator[str]:
    for name, value in fields.items():
        where = key_path(path, name)
        if name in _OWN_FIELDS:
            yield f"{where}: the gateway sets this field itself; remove it"
        else:
            yield from _check_json(value, where)


def _check_json(value: object, path: str) -> Iterator[str]:
    """Yield an error for each value that TOML has and JSON has not."""
    match value:
        case dict():
            for name, inner in cast("Table", value).items():
                yield from _check_json(inner, key_path(path, name))
        case list():
            for index, inner in enumerate(cast("Array", value)):
                yield from _check_json(inner, f"{path}[{index}]")
        case float() if not math.isfinite(value):
            yield f"{path}: expected a finite number, got {preview(value, path)}"
        case str() | bool() | int() | float():
            return
        case _:
            yield f"{path}: expected a value that JSON has, got {preview(value, path)}"


def _check_api_key(backend: BackendConfig, path: str) -> Iterator[str]:
    variable, file = backend.api_key_env, backend.api_key_file
    if errors := [*check_sources(path, "api_key", variable, file)]:
        yield from errors
        return
    key = read_secret(variable, file)
    if key is not None and not _API_KEY.fullmatch(key):
        where = key_path(path, "api_key_file" if variable is None else "api_key_env")
        source = "the file" if variable is None else "the variable"
        expected = "printable ASCII characters without spaces"
        yield f"{where}: {source} must contain {expected} (value not shown)"


def _check_headers(headers: dict[str, str], path: str) -> Iterator[str]:
    for name, value in headers.items():
        header = key_path(path, name)
        if not _HEADER_NAME.fullmatch(name):
            yield f"{header}: not a valid header name"
        elif name.lower() in _RESERVED_HEADERS:
            yield f"{header}: the gateway sets this header itself; remove it"
        elif name.lower() == "authorization":
            yield f"{header}: keys are read from environment variables; use api_key_env"
        elif not _HEADER_VALUE.fullmatch(value):
            yield f"{header}: expected printable ASCII characters (value not shown)"


def _check_tls(tls: TlsConfig, path: str) -> Iterator[str]:
    where = key_path(path, "ca_file")
    if errors := [*_check_readable({where: tls.ca_file})]:
        yield from errors
    elif tls.ca_file is not None:
        try:
            ssl.create_default_context(cafile=tls.ca_file)
        except ssl.SSLError:
            yield f"{where}: {preview(tls.ca_file, where)} contains no certificates in PEM format"
    yield from _check_files(tls, path)


def _check_files(tls: TlsConfig | ServerTlsConfig, path: str) -> Iterator[str]:
    """Yield the errors of a certificate and its key."""
    cert_path, key_file_path = key_path(path, "cert_file"), key_path(path, "key_file")
    if tls.key_file is not None and tls.cert_file is None:
        yield f"{cert_path}: required with key_file"
    elif errors := [*_check_readable({cert_path: tls.cert_file, key_file_path: tls.key_file})]:
        yield from errors
    elif tls.cert_file is not None:
        yield from _check_cert_file(tls.cert_file, tls.key_file, cert_path)


def _check_readable(files: dict[str, str | None]) -> Iterator[str]:
    for path, file in files.items():
        if file is not None and (reason := _read_error(file)):
            yield f"{path}: cannot read {preview(file, path)}: {reason}"


def _check_cert_file(cert_file: str, key_file: str | None, path: str) -> Iterator[str]:
    try:
        # The empty password makes OpenSSL fail instead of prompting on the terminal.
        ssl.create_default_context().load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError:
        yield f"{path}: expected a certificate and its key in PEM format, without a password"


def _read_error(file: str) -> str | None:
    """Return why a file cannot be read, or None if it can."""
    try:
        with Path(file).open("rb"):
            return None
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
