"""What is legal, and what was given, in plain words."""

import math
import os
import re
import ssl
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import cast, get_args
from urllib.parse import urlsplit

import httpx
import msgspec
from msgspec import Struct, inspect, structs

from adapters import Capabilities
from adapters.capabilities import PROFILES
from gateway.config.schema import BackendConfig, TlsConfig, overrides

# TOML takes these without quotes.
_BARE = re.compile(r"[A-Za-z0-9_-]+")
# Where people put keys, by mistake or because they belong there.
_SECRET = re.compile(r"\b(sha256|api_key_env|key_env|previous_key_envs|headers)\b")
_USER = re.compile(r"//[^/\s]*@")
_LONGEST = 80

_PLAIN: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "a text",
    inspect.VarTupleType: "a list",
}


def key_name(key: str) -> str:
    """Write a key as TOML does."""
    return key if _BARE.fullmatch(key) else quoted(key)


def quoted(text: str) -> str:
    """Write a text as TOML does."""
    return msgspec.json.encode(text).decode()


def one_of(words: Iterable[str]) -> str:
    """List the words that are legal."""
    return "one of " + ", ".join(map(quoted, words))


def expected(kind: object) -> str:
    """Say what may be given for an annotation."""
    return f"expected {_legal(inspect.type_info(kind))}"


def preview_value(value: object, place: str) -> str:
    """Show what was given at a place, unless it may be a secret."""
    match value:
        case dict():
            return "a table"
        case list():
            return "a list"
        case _ if _SECRET.search(place):
            return "something else (not shown: it may be a secret)"
        case str():
            text = _USER.sub("//…@", value).partition("?")[0]
            return quoted(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
        case bool() | int() | float():
            return str(value).lower()
        case _:
            return f"the date {value}"


def _legal(kind: inspect.Type) -> str:  # noqa: PLR0911 - one for each type that is used
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str(words)}):
            return words
        case inspect.IntType(ge=lowest, le=highest):
            return "a whole number" + _range(lowest, highest)
        case inspect.FloatType(ge=lowest, le=highest):
            return "a number" + _range(lowest, highest)
        case inspect.LiteralType(values=values):
            return one_of(map(str, values))
        case inspect.VarTupleType(item_type=inspect.StructType()):
            return "a list of tables, each in [[ ]]"
        case inspect.UnionType(types=types):
            return " or ".join(_legal(one) for one in types if not _is_none(one))
        case _:
            return _PLAIN.get(type(kind), "a table")


def _is_none(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.NoneType)


def _range(lowest: float | None, highest: float | None) -> str:
    match lowest, highest:
        case None, None:
            return ""
        case _, None:
            return f", {lowest} or more"
        case None, _:
            return f", {highest} or less"
        case _:
            return f" from {lowest} to {highest}"


# Compares a table with the struct that it should be, and names all that does not fit.
#
# msgspec would stop at the first mistake, and call things by Python's names for them.


# What TOML makes of its tables and lists.
Table = dict[str, object]
List = list[object]


def check_shape(value: object, struct: type[Struct], place: str = "") -> Iterator[str]:
    """Name every key that is unknown or missing, and every value that is not legal."""
    return _check(value, struct, place)


def inside(place: str, key: str) -> str:
    """Name a key of a table: `server.port`, or `backends[0] "local": url`."""
    if not place:
        return key_name(key)
    separator = ": " if place.endswith(('"', "]")) else "."
    return f"{place}{separator}{key_name(key)}"


def element(place: str, index: int, value: object) -> str:
    """Name an element of a list, by its own name too where it has one."""
    match value:
        case {"name": str(name)}:
            return f"{place}[{index}] {quoted(name)}"
        case _:
            return f"{place}[{index}]"


def _check(value: object, kind: object, place: str) -> Iterator[str]:
    """Compare a value with an annotation, as deep as both go."""
    match inspect.type_info(kind), value:
        case inspect.StructType(cls=struct), dict():
            yield from _check_table(cast("Table", value), struct, place)
        case inspect.VarTupleType(), list():
            for index, one in enumerate(cast("List", value)):
                yield from _check(one, get_args(kind)[0], element(place, index, one))
        case inspect.DictType(), dict():
            for key, one in cast("Table", value).items():
                yield from _check(one, get_args(kind)[1], inside(place, key))
        case inspect.UnionType(includes_none=True), _:
            # TOML has no null: what may be null may be left out.
            yield from _check(value, _without_none(kind), place)
        case _ if not _fits(value, kind):
            yield f"{place}: {expected(kind)}, got {preview_value(value, place)}"
        case _:
            pass


def _check_table(table: Table, struct: type[Struct], place: str) -> Iterator[str]:
    fields = {field.encode_name: field for field in structs.fields(struct)}
    for key in table:
        if key not in fields:
            yield _unknown(inside(place, key), key, list(fields))
    for name, field in fields.items():
        if name in table:
            yield from _check(table[name], field.type, inside(place, name))
        elif field.required:
            yield f"{inside(place, name)}: it is missing; {expected(field.type)}"


def _unknown(place: str, key: str, known: list[str]) -> str:
    near = get_close_matches(key, known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"{place}: there is no such key{hint}; there are: {', '.join(known)}"


def _without_none(kind: object) -> object:
    """Leave null out of a union, whatever else it is of."""
    first, *others = (one for one in get_args(kind) if one is not NoneType)
    for other in others:
        first = first | other
    return first


def _fits(value: object, kind: object) -> bool:
    # No time is infinite, and a float that is no number compares with nothing.
    if isinstance(value, float) and not math.isfinite(value):
        return False
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


# What must be right about one backend beyond its shape: addresses, files, variables.


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


def check_backend(backend: BackendConfig, place: str) -> Iterator[str]:
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
        shown = preview_value(name, place)
        yield f"{place}: expected an environment variable that is set, got {shown}"


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


def _check_tls(tls: TlsConfig, place: str) -> Iterator[str]:
    if tls.key_file is not None and tls.cert_file is None:
        yield f"{inside(place, 'cert_file')}: it is missing; key_file alone proves nothing"
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


def _check_certificate(tls: TlsConfig, place: str) -> Iterator[str]:
    unreadable = False
    for name, file in (("cert_file", tls.cert_file), ("key_file", tls.key_file)):
        if file is not None and (missing := _unreadable(file)):
            unreadable = True
            where = inside(place, name)
            yield f"{where}: expected a file, but {preview_value(file, where)}: {missing}"
    if tls.cert_file is None or unreadable:
        return
    where = inside(place, "cert_file")
    try:
        # A password would be asked for at the terminal; with an empty one it is a plain error.
        ssl.create_default_context().load_cert_chain(tls.cert_file, tls.key_file, password="")
    except ssl.SSLError:
        yield f"{where}: expected a certificate in PEM and its key, neither with a password"


def _unreadable(file: str) -> str | None:
    """Say why a file cannot be read."""
    try:
        with Path(file).open("rb"):
            return None
    except (OSError, ValueError) as problem:
        return getattr(problem, "strerror", None) or str(problem)
