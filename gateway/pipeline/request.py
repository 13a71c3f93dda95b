"""Looks over a request before it is translated: who speaks, which model, where it was sent.

Only the few fields that matter here are decoded; the rest is skipped over.
"""

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError
from adapters.ir.types import Family
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import MISSING, is_present, read_body
from gateway.config.schema import DialectName

_PATHS: dict[Family, str] = {"completions": "/v1/chat/completions", "responses": "/v1/responses"}


class _Body(Struct):
    """The fields that tell one request from another."""

    model: Raw = MISSING
    messages: Raw = MISSING
    input: Raw = MISSING
    functions: Raw = MISSING
    function_call: Raw = MISSING
    tools: Raw = MISSING
    store: Raw = MISSING


_BODY = msgspec.json.Decoder(_Body)
_TEXT = msgspec.json.Decoder(str)


class RequestSummary(Struct, frozen=True, gc=False):
    """What must be known of a request before anything is done with it."""

    dialect: DialectName
    model: str
    # Whether a Chat or legacy client wants its completion to be kept; Responses clients do so in
    # words of their own.
    store: bool = False


def outline(body: bytes, family: Family) -> RequestSummary:
    """Look over the body of a request that was sent to the address of one family."""
    try:
        seen = _BODY.decode(body)
    except DECODE_ERRORS:
        # Says exactly what is wrong with it; or it was just half a character, which is let pass.
        seen = _Body(store=read_body(body).raw("store") or MISSING)
    _check_address(seen, family)
    store = family == "completions" and bytes(seen.store) == b"true"
    return RequestSummary(_dialect(seen, body, family), _model(seen, body), store)


def _check_address(seen: _Body, family: Family) -> None:
    """Refuse a body that belongs to the other address, and say so."""
    other: Family = "responses" if family == "completions" else "completions"
    own, foreign = (seen.messages, seen.input)
    if family == "responses":
        own, foreign = foreign, own
    if is_present(foreign) and not is_present(own):
        field = "input" if family == "completions" else "messages"
        raise InvalidRequestError(field, f"a body with `{field}` belongs to {_PATHS[other]}")


def _dialect(seen: _Body, body: bytes, family: Family) -> DialectName:
    """Tell Chat from legacy: by how functions are declared, called or answered."""
    if family == "responses":
        return "responses"
    if is_present(seen.functions) or is_present(seen.function_call):
        return "legacy"
    if is_present(seen.tools):
        return "chat"
    # A later turn may repeat calls and declare nothing.
    speaks_legacy = b'"function_call"' in body or b'"function"' in body
    return "legacy" if speaks_legacy and _has_legacy_turns(seen.messages) else "chat"


class _Turn(Struct):
    role: Raw = MISSING
    function_call: Raw = MISSING
    tool_calls: Raw = MISSING


_TURNS = msgspec.json.Decoder(list[_Turn])


def _has_legacy_turns(messages: Raw) -> bool:
    try:
        turns = _TURNS.decode(messages)
    except DECODE_ERRORS:
        return False
    return any(
        bytes(turn.role) == b'"function"'
        or (is_present(turn.function_call) and not is_present(turn.tool_calls))
        for turn in turns
    )


def _model(seen: _Body, body: bytes) -> str:
    try:
        model = _TEXT.decode(seen.model) if is_present(seen.model) else ""
    except DECODE_ERRORS:
        # If it is a text at all, what is wrong with it is wrong with the whole.
        read_body(body)
        raise InvalidRequestError("model", "expected a string") from None
    if not model:
        # A body in which not even these fields could be told apart may still have one.
        model = read_body(body).string("model") or ""
    if not model:
        raise InvalidRequestError("model", "it is missing")
    return model
