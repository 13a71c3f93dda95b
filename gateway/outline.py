"""Looks over a request before it is translated: who speaks, which model, where it was sent.

Only the few fields that matter here are decoded; the rest is skipped over.
"""

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidInput
from adapters.conversation import Family
from adapters.fields import ABSENT, is_said, read_body
from adapters.jsontext import UNDECODABLE
from gateway.configuration import DialectName

_PATHS: dict[Family, str] = {"completions": "/v1/chat/completions", "responses": "/v1/responses"}


class _Body(Struct):
    """The fields that tell one request from another."""

    model: Raw = ABSENT
    messages: Raw = ABSENT
    input: Raw = ABSENT
    functions: Raw = ABSENT
    function_call: Raw = ABSENT
    tools: Raw = ABSENT
    store: Raw = ABSENT


_BODY = msgspec.json.Decoder(_Body)
_TEXT = msgspec.json.Decoder(str)


class Outline(Struct, frozen=True, gc=False):
    """What must be known of a request before anything is done with it."""

    dialect: DialectName
    model: str
    # Whether a Chat or legacy client wants its completion to be kept; Responses clients do so in
    # words of their own.
    store: bool = False


def outline(body: bytes, family: Family) -> Outline:
    """Look over the body of a request that was sent to the address of one family."""
    try:
        seen = _BODY.decode(body)
    except UNDECODABLE:
        # Says exactly what is wrong with it; or it was just half a character, which is let pass.
        seen = _Body(store=read_body(body).raw("store") or ABSENT)
    _check_address(seen, family)
    store = family == "completions" and bytes(seen.store) == b"true"
    return Outline(_dialect(seen, body, family), _model(seen, body), store)


def _check_address(seen: _Body, family: Family) -> None:
    """Refuse a body that belongs to the other address, and say so."""
    other: Family = "responses" if family == "completions" else "completions"
    own, foreign = (seen.messages, seen.input)
    if family == "responses":
        own, foreign = foreign, own
    if is_said(foreign) and not is_said(own):
        field = "input" if family == "completions" else "messages"
        raise InvalidInput(field, f"a body with `{field}` belongs to {_PATHS[other]}")


def _dialect(seen: _Body, body: bytes, family: Family) -> DialectName:
    """Tell Chat from legacy: by how functions are declared, called or answered."""
    if family == "responses":
        return "responses"
    if is_said(seen.functions) or is_said(seen.function_call):
        return "legacy"
    if is_said(seen.tools):
        return "chat"
    # A later turn may repeat calls and declare nothing.
    speaks_legacy = b'"function_call"' in body or b'"function"' in body
    return "legacy" if speaks_legacy and _has_legacy_turns(seen.messages) else "chat"


class _Turn(Struct):
    role: Raw = ABSENT
    function_call: Raw = ABSENT
    tool_calls: Raw = ABSENT


_TURNS = msgspec.json.Decoder(list[_Turn])


def _has_legacy_turns(messages: Raw) -> bool:
    try:
        turns = _TURNS.decode(messages)
    except UNDECODABLE:
        return False
    return any(
        bytes(turn.role) == b'"function"'
        or (is_said(turn.function_call) and not is_said(turn.tool_calls))
        for turn in turns
    )


def _model(seen: _Body, body: bytes) -> str:
    try:
        model = _TEXT.decode(seen.model) if is_said(seen.model) else ""
    except UNDECODABLE:
        # If it is a text at all, what is wrong with it is wrong with the whole.
        read_body(body)
        raise InvalidInput("model", "expected a string") from None
    if not model:
        # A body in which not even these fields could be told apart may still have one.
        model = read_body(body).text("model") or ""
    if not model:
        raise InvalidInput("model", "it is missing")
    return model
