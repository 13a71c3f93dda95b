"""Reading of replies in which single values are malformed.

A wrong type in a detail, such as a log probability, an annotation or a token count, costs this
value, which is reported, and not the reply. Values that decide what the model answered or which
tool it called are not removed: a reply without them would be another reply.
"""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from adapters.errors import InvalidRequestError
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses

T = TypeVar("T")

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
# Fields without which a reply would be another one.
_ESSENTIAL = frozenset(
    (
        *("choices", "message", "delta", "content", "text", "output", "item", "response"),
        *("tool_calls", "function_call", "function", "custom", "name", "input", "arguments"),
    )
)
# Fields of the events that end a text, which repeat what the stream has.
_REPEATED = (["text"], ["input"])
# Fields of a whole reply or an event that decide what it is.
_DECISIVE = frozenset(
    ("type", "status", "incomplete_details", "response.status", "response.incomplete_details")
)
# Details, in which nothing is essential.
_DETAILS = frozenset(("annotations", "logprobs", "summary", "usage"))
# Fields without which an element of a list of details is useless.
_ELEMENT_FIELDS = frozenset(("type", "text"))
# The values of malformed fields that have a default.
_DEFAULTS = {"role": Raw(b'"assistant"')}
# A list with more malformed elements is removed, because each removal reads the value again.
_MAX_ELEMENTS = 8

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()

Steps = list[str | int]


def read_tolerantly(read: Callable[[Raw], T], raw: Raw, path: str, losses: Losses) -> T:
    """Read a value, without its malformed details, which are reported.

    `read` raises `InvalidRequestError` with the path of a malformed value, which begins with
    `path`. The error is raised again if the value is essential.
    """
    try:
        return read(raw)
    except InvalidRequestError as error:
        removal = _Removal(path, losses)
        raw = removal.repair(raw, error)
    while True:
        try:
            return read(raw)
        except InvalidRequestError as error:
            raw = removal.repair(raw, error)


def read_or_drop(read: Callable[[Raw], T], raw: Raw, path: str, losses: Losses) -> T | None:
    """Read a detail without its malformed values; None if nothing of it can be read."""
    try:
        return read_tolerantly(read, raw, path, losses)
    except InvalidRequestError as error:
        losses.dropped(path, f"the backend's value {error.message}")
        return None


class _Removal(Struct):
    """Removes malformed values, one at a time."""

    path: str
    losses: Losses
    # The original indices of the removed elements, by the path of their list.
    removed: dict[tuple[str | int, ...], list[int]] = {}

    def repair(self, raw: Raw, error: InvalidRequestError) -> Raw:
        """Return the value without the part that the error names."""
        path = error.path or ""
        inner = path[len(self.path) :]
        if not path.startswith(self.path) or (self.path and inner[:1] not in (".", "[")):
            raise error
        steps = _removable([int(i) if i else name for i, name in _STEP.findall(inner)], raw)
        if not steps or path in _DECISIVE:
            raise error
        last = steps[-1]
        if isinstance(last, int) and len(self.removed.get(tuple(steps[:-1]), ())) >= _MAX_ELEMENTS:
            steps = steps[:-1]
        self._report(steps, error)
        try:
            return _replaced(raw, steps)
        except DECODE_ERRORS:
            raise error from None

    def _report(self, steps: Steps, error: InvalidRequestError) -> None:
        path = self._original_path(steps)
        reason = f"the backend's value {error.message}"
        if steps[-1] in _DEFAULTS:
            self.losses.changed(path, reason)
        else:
            self.losses.dropped(path, reason)

    def _original_path(self, steps: Steps) -> str:
        """Return a path with the indices that elements had before others were removed."""
        path = self.path
        for number, step in enumerate(steps):
            if isinstance(step, str):
                path += f".{step}" if path else step
                continue
            removed = self.removed.setdefault(tuple(steps[:number]), [])
            index = step
            for other in sorted(removed):
                index += other <= index
            if number == len(steps) - 1:
                removed.append(index)
            path += f"[{index}]"
        return path


def _removable(steps: Steps, raw: Raw) -> Steps:
    """Return the path of what to remove because of a malformed value; empty if it is essential."""
    if not steps or steps[-1] in _DEFAULTS or steps in _REPEATED:
        return steps
    if not _exists(raw, steps):
        # A required field is missing, so its object is malformed.
        return _removable(steps[:-1], raw) if len(steps) > 1 else []
    last = steps[-1]
    if any(step in _DETAILS for step in steps[:-1]):
        elements = [number for number, step in enumerate(steps, 1) if isinstance(step, int)]
        return steps[: elements[-1]] if elements and last in _ELEMENT_FIELDS else steps
    field = steps[-2] if isinstance(last, int) and len(steps) > 1 else last
    if field in _ESSENTIAL and not (field != "output" and _is_reasoning(raw, steps)):
        return []
    return steps


def _is_reasoning(raw: Raw, steps: Steps) -> bool:
    """Whether a malformed value is inside a reasoning item, which contains no answer."""
    for number in range(len(steps)):
        try:
            kind = _OBJECT.decode(_find(raw, steps[:number])).get("type")
        except DECODE_ERRORS:
            continue
        if kind == Raw(b'"reasoning"'):
            return True
    return False


def _exists(raw: Raw, steps: Steps) -> bool:
    try:
        _find(raw, steps)
    except (*DECODE_ERRORS, KeyError, IndexError):
        return False
    return True


def _find(raw: Raw, steps: Steps) -> Raw:
    for step in steps:
        raw = _LIST.decode(raw)[step] if isinstance(step, int) else _OBJECT.decode(raw)[step]
    return raw


def _replaced(raw: Raw, steps: Steps) -> Raw:
    """Return JSON without a value, or with its default; all other values keep their bytes."""
    step, *rest = steps
    if isinstance(step, int):
        elements = _LIST.decode(raw)
        elements[step : step + 1] = [_replaced(elements[step], rest)] if rest else []
        return Raw(_ENCODER.encode(elements))
    fields = _OBJECT.decode(raw)
    if rest:
        fields[step] = _replaced(fields[step], rest)
    elif step in _DEFAULTS:
        fields[step] = _DEFAULTS[step]
    else:
        del fields[step]
    return Raw(_ENCODER.encode(fields))
