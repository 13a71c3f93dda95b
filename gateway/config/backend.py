"""What must be right about one backend beyond its shape: addresses, files, variables."""

import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from adapters import Capabilities
from adapters.profiles import PROFILES
from gateway.config.capabilities import overrides
from gateway.config.messages import one_of, preview_value
from gateway.config.schema import Backend, Tls
from gateway.config.shape import check_shape, inside

_ENDPOINTS = ("/chat/completions", "/responses")
# A key that was pasted in the place of a variable's name is hardly all capitals.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_SPACE = re.compile(r"\s")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_KEY = re.compile(r"[\x21-\x7e]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
# These belong to the connection or to the body, and are written where those are.
_OUR_HEADERS = frozenset(
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


def check_backend(backend: Backend, place: str) -> Iterator[str]:
    """Name all that is wrong with one backend."""
    yield from check_url(backend.url, inside(place, "url"))
    if not backend.models and not backend.default:
        yield f'{inside(place, "models")}: expected at least one model, such as "*", got none'
    yield from check_profile(backend.profile, inside(place, "profile"))
    yield from _check_capabilities(backend.capabilities, inside(place, "capabilities"))
    yield from _check_key(backend.api_key_env, inside(place, "api_key_env"))
    yield from _check_headers(backend.headers, inside(place, "headers"))
    if backend.proxy is not None:
        yield from check_host(backend.proxy, inside(place, "proxy"))
    yield from _check_tls(backend.tls, inside(place, "tls"))


def check_url(url: str, place: str) -> Iterator[str]:
    """Name what would make of a base URL something that cannot be called."""
    mistakes = list(check_host(url, place))
    if mistakes:
        yield from mistakes
        return
    got = f"got {preview_value(url, place)}"
    parts = urlsplit(url)
    if "@" in parts.netloc:
        yield f"{place}: expected no name and password in it (keys: see api_key_env), {got}"
    if parts.query or parts.fragment:
        yield f"{place}: expected no query and no fragment in it, {got}"
    for endpoint in _ENDPOINTS:
        if parts.path.rstrip("/").endswith(endpoint):
            yield f"{place}: expected only what comes before {endpoint}, {got}"


def check_host(url: str, place: str) -> Iterator[str]:
    """Name a URL that leads to no host."""
    try:
        parts = urlsplit(url)
        callable_host = parts.hostname and parts.port != 0 and not _SPACE.search(url)
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        # A port that is no number, a bracket that is not closed, a name that no host can have.
        callable_host = None
    if not callable_host:
        got = f"got {preview_value(url, place)}"
        yield f"{place}: expected a host and perhaps a port from 1 to 65535, {got}"


def check_profile(profile: str | None, place: str) -> Iterator[str]:
    """Name a profile that there is not."""
    if profile is not None and profile not in PROFILES:
        yield f"{place}: expected {one_of(PROFILES)}, got {preview_value(profile, place)}"


def _check_capabilities(given: dict[str, object], place: str) -> Iterator[str]:
    named = {name: value for name, value in overrides(given).items() if value is not None}
    return check_shape(named, Capabilities, place)


def check_variable(name: str | None, place: str) -> Iterator[str]:
    """Name an environment variable that is not set."""
    if name is None or os.environ.get(name):
        return
    if _VARIABLE.fullmatch(name):
        yield f"{place}: expected an environment variable that is set, but {name} is not"
    else:
        yield f"{place}: expected an environment variable that is set, got {preview_value(name, place)}"


def _check_key(name: str | None, place: str) -> Iterator[str]:
    """Name a variable without a key, or with what could not be sent as one."""
    yield from check_variable(name, place)
    key = os.environ.get(name or "")
    if key and not _KEY.fullmatch(key.strip()):
        yield f"{place}: expected a key of printable ASCII in the variable (not shown)"


def _check_headers(headers: dict[str, str], place: str) -> Iterator[str]:
    for name, value in headers.items():
        where = inside(place, name)
        if not _HEADER_NAME.fullmatch(name):
            yield f"{where}: this cannot be the name of a header"
        elif name.lower() in _OUR_HEADERS:
            yield f"{where}: this header is written by the gateway itself"
        elif name.lower() == "authorization":
            yield f"{where}: keys are taken from the environment; see api_key_env"
        elif not _HEADER_VALUE.fullmatch(value):
            yield f"{where}: expected printable ASCII, got something else (not shown)"


def _check_tls(tls: Tls, place: str) -> Iterator[str]:
    if tls.key_file is not None and tls.certificate_file is None:
        yield f"{inside(place, 'certificate_file')}: it is missing; key_file alone proves nothing"
        return
    yield from _check_authorities(tls.ca_file, inside(place, "ca_file"))
    yield from _check_certificate(tls, place)


def _check_authorities(file: str | None, place: str) -> Iterator[str]:
    if file is None:
        return
    if missing := _unreadable(file):
        yield f"{place}: expected a file, but {preview_value(file, place)}: {missing}"
        return
    try:
        ssl.create_default_context(cafile=file)
    except ssl.SSLError:
        yield f"{place}: expected certificates in PEM, but {preview_value(file, place)} has none"


def _check_certificate(tls: Tls, place: str) -> Iterator[str]:
    unreadable = False
    for name, file in (("certificate_file", tls.certificate_file), ("key_file", tls.key_file)):
        if file is not None and (missing := _unreadable(file)):
            unreadable = True
            where = inside(place, name)
            yield f"{where}: expected a file, but {preview_value(file, where)}: {missing}"
    if tls.certificate_file is None or unreadable:
        return
    where = inside(place, "certificate_file")
    try:
        # A password would be asked for at the terminal; with an empty one it is a plain error.
        ssl.create_default_context().load_cert_chain(
            tls.certificate_file, tls.key_file, password=""
        )
    except ssl.SSLError:
        yield f"{where}: expected a certificate in PEM and its key, neither with a password"


def _unreadable(file: str) -> str | None:
    """Say why a file cannot be read."""
    try:
        with Path(file).open("rb"):
            return None
    except (OSError, ValueError) as problem:
        return getattr(problem, "strerror", None) or str(problem)
