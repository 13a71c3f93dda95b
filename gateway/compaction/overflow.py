"""Requests for a summary that are too long themselves.

A conversation is often summarized only when it no longer fits into the model's context. Then the
request for the summary does not fit either (https://github.com/openai/codex/issues/13271), so the
oldest results of tools in it are shortened.
"""

from collections.abc import Sequence
from typing import Final, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters import InputItem, Loss
from adapters.json_text import DECODE_ERRORS
from adapters.responses.request_reader import input_items
from gateway.compaction.summary_request import PreparedRequest
from gateway.compaction.window import head_of

# The shares of its length to which a request is shortened, one after the other.
_SHARES: Final = (0.75, 0.5, 0.25, 0.0)
# The characters of a text that are kept at its beginning and at its end.
_KEPT: Final = (400, 200)
_OMITTED: Final = "[image omitted]"
_REASON: Final = "too long for the request for a summary; shortened"
_OUTPUT: Final = "_output"
# Its output is one JSON text, which cannot be shortened.
_LOCAL_SHELL: Final = "local_shell_call_output"

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()


def shorten_results(prepared: PreparedRequest, times: int) -> PreparedRequest | None:
    """Return a request for a summary with shorter results, and their losses.

    Return None if that is not shorter than after one time less.
    """
    items = input_items(prepared.body)
    size = _size(items)
    shorter = _shorten(items, size * _SHARES[times - 1])
    before = _shorten(items, size * _SHARES[times - 2]) if times > 1 else items
    if _size(shorter) == _size(before):
        return None
    losses = tuple(
        Loss("changed", item.path, _REASON, "capability")
        for item, shortened in zip(items, shorter, strict=True)
        if item is not shortened
    )
    body = replace(prepared.body, items=tuple(shorter), raw=None)
    return replace(prepared, body=body, losses=losses)


def next_shortening(prepared: PreparedRequest, times: int) -> int | None:
    """Return how often to shorten a request next, after `times`; None if that is not possible."""
    following = range(times + 1, len(_SHARES) + 1)
    return next((n for n in following if shorten_results(prepared, n) is not None), None)


def _size(items: Sequence[InputItem]) -> int:
    return sum(len(bytes(item.raw)) for item in items)


def _shorten(items: Sequence[InputItem], limit: float) -> list[InputItem]:
    """Shorten the results, the oldest first, until the items have at most this size."""
    shorter, size = list(items), _size(items)
    for number, item in enumerate(items):
        if size <= limit:
            break
        raw = _shorten_result(item.raw)
        if raw is not None:
            size -= len(bytes(item.raw)) - len(bytes(raw))
            shorter[number] = replace(item, raw=raw)
    return shorter


def _shorten_result(raw: Raw) -> Raw | None:
    """Return a shorter result; None if the item is none, or cannot be shortened."""
    kind = head_of(raw).type or ""
    if not kind.endswith(_OUTPUT) or kind == _LOCAL_SHELL:
        return None
    try:
        fields = _FIELDS.decode(raw)
        output = cast("object", msgspec.json.decode(fields["output"]))
    except (*DECODE_ERRORS, KeyError):
        return None
    shorter = _ENCODER.encode(fields | {"output": _shorten_value(output)})
    return Raw(shorter) if len(shorter) < len(bytes(raw)) else None


def _shorten_value(value: object) -> object:
    """Shorten all texts in a JSON value, and omit its images."""
    if isinstance(value, str):
        return _shorten_text(value)
    if isinstance(value, list):
        return [_shorten_value(element) for element in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    if fields.get("type") in ("input_image", "input_file"):
        return {"type": "input_text", "text": _OMITTED}
    return {name: _shorten_value(inner) for name, inner in fields.items()}


def _shorten_text(text: str) -> str:
    start, end = _KEPT
    omitted = len(text) - start - end
    if omitted <= 0:
        return text
    return f"{text[:start]}\n[{omitted} characters omitted]\n{text[-end:]}"
