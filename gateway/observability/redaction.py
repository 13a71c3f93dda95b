"""Blacks out secrets in bodies that are logged.

JSON is taken apart, so that what counts is the name of a field; text that holds JSON, as the
arguments of a call do, is taken apart again. What looks like a key is blacked out wherever it
stands. The pieces in which arguments are streamed cannot be judged one by one: they are left out.
"""

import re
from collections.abc import Callable

import msgspec

from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import Json
from gateway.http.headers import REDACTED

# Fields whose values are nobody's business. `max_tokens` and its like are no secrets.
_SECRET_NAME = re.compile(
    r"api[-_]?key|authorization|credential|passw|passphrase|secret|private[-_]?key|token$|cookie",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"\b(?:sk|dk|pk|rk|xox[a-z])-[A-Za-z0-9_-]{8,}"
    r"|\b(?:gsk|hf|ghp|gho|ghs|ghu|github_pat|glpat)[_-][A-Za-z0-9_-]{8,}"
    r"|\bAKIA[A-Z0-9]{12,}|\bAIza[A-Za-z0-9_-]{20,}"
    r"|\b(?:Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}"
)
_DATA = "data:"
_LEFT_OUT = "[arguments]"
# How deep text in text in text is taken apart.
_DEPTH = 4

_JSON: msgspec.json.Decoder[Json] = msgspec.json.Decoder()


def redacted(body: bytes) -> str:
    """Black out what looks like a secret, in a body of JSON or in a stream of it."""
    text = body.decode("utf-8", "replace")
    whole = _taken_apart(text, _clean)
    if whole is not None:
        return whole
    return "\n".join(_redact_line(line) for line in text.split("\n"))


def _redact_line(line: str) -> str:
    if not line.startswith(_DATA):
        return _KEY.sub(REDACTED, line)
    event = line[len(_DATA) :].strip()
    clean = _taken_apart(event, _clean_event)
    return f"{_DATA} {_KEY.sub(REDACTED, event) if clean is None else clean}"


def _taken_apart(text: str, clean: Callable[[Json, int], Json]) -> str | None:
    """Clean a text that is an object or a list; None: it is neither."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.encode(clean(_JSON.decode(text), _DEPTH)).decode()
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return None


def _clean_event(event: Json, depth: int) -> Json:
    """Clean one event of a stream, and leave out its piece of arguments."""
    if isinstance(event, dict):
        kind = str(event.get("type", ""))
        if kind.endswith(("arguments.delta", "input.delta")):
            event = event | {"delta": _LEFT_OUT}
        elif isinstance(event.get("choices"), list):
            event = event | {"choices": _without_pieces(event["choices"])}
    return _clean(event, depth)


def _without_pieces(value: Json) -> Json:
    match value:
        case dict():
            return {
                name: _LEFT_OUT if name in ("arguments", "input") else _without_pieces(inner)
                for name, inner in value.items()
            }
        case list():
            return [_without_pieces(inner) for inner in value]
        case _:
            return value


def _clean(value: Json, depth: int) -> Json:
    match value:
        case dict():
            return {
                name: REDACTED if inner and _SECRET_NAME.search(name) else _clean(inner, depth)
                for name, inner in value.items()
            }
        case list():
            return [_clean(inner, depth) for inner in value]
        case str():
            inner = _taken_apart(value, lambda one, _: _clean(one, depth - 1)) if depth else None
            return _KEY.sub(REDACTED, value) if inner is None else inner
        case _:
            return value
