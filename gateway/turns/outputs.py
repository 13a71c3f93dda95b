"""Checks that what a continued turn answers was asked.

A client that sends the whole history may have cut off the call that an output belongs to; then the
core tells the output as text (rule 10 of its pairing). With `previous_response_id` we hold the
history ourselves: an output whose call is not in it is a mistake, and OpenAI refuses it with the
same sentence. Nothing is known of what was summed up.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.json_text import DECODE_ERRORS
from gateway.errors import OpenAIMessageError
from gateway.store import Item

_CALL_ID: Final = b'"call_id"'
_OUTPUT: Final = "_output"
_SUMMARY: Final = b'"compaction"'
# So much of a name is repeated to whoever said it.
_SHOWN: Final = 100


class CallNotFound(OpenAIMessageError):
    """An output answers a call that nobody made."""

    status = 400
    code = "tool_call_not_found"

    def __init__(self, kind: str, call_id: str) -> None:
        words = kind.replace("_", " ")
        why = f"No tool call found for {words} with call_id {call_id[:_SHOWN]}."
        super().__init__("input", why)


class _Paired(Struct):
    type: str = ""
    call_id: str | None = None


_PAIRED: Final = msgspec.json.Decoder(_Paired)


def check_outputs_have_calls(history: Iterable[Item], given: Iterable[Item]) -> None:
    """Raise `CallNotFound` for an output among the new items that belongs to no call."""
    given = list(given)
    outputs = [one for one in _paired(given) if one.type.endswith(_OUTPUT)]
    if not outputs:
        return
    before = [*history, *given]
    if any(_SUMMARY in bytes(item.body) for item in before):
        return
    made = {one.call_id for one in _paired(before) if not one.type.endswith(_OUTPUT)}
    for output in outputs:
        if output.call_id is not None and output.call_id not in made:
            raise CallNotFound(output.type, output.call_id)


def _paired(items: Iterable[Item]) -> list[_Paired]:
    """Read the items that name a call."""
    return [_read(item.body) for item in items if _CALL_ID in bytes(item.body)]


def _read(body: Raw) -> _Paired:
    try:
        return _PAIRED.decode(body)
    except DECODE_ERRORS:
        # Whoever reads it next says what is wrong.
        return _Paired()
