"""A short way through a stream: the next chunk is mostly like the last but for one string.

After a chunk that gave one plain delta, the bytes before and after its string are remembered. If
the next frame begins and ends with the same bytes, and what is between is one JSON string, it says
the same of the same block, and nothing else needs to be read. Everything else takes the long way,
which misses nothing; both give the same events.
"""

from msgspec.json import Decoder

from adapters.chat.tool_calls import PartialCall
from adapters.ir.events import Channel, Delta, Event
from adapters.json_text import DECODE_ERRORS
from adapters.template import encode

_STRING = Decoder(str)
_KEYS: dict[Channel, bytes] = {"text": b'"content":', "arguments": b'"arguments":'}
# What begins like whole arguments may be all of them again (see `Calls`).
_WHOLE = ("{", "[")


class DeltaFastPath:
    """What to expect of the next chunk."""

    __slots__ = ("_after", "_before", "_delta", "_end", "_slot", "_start")

    def __init__(self, before: bytes, after: bytes, delta: Delta, slot: PartialCall | None) -> None:
        self._before = before
        self._after = after
        # Where its string begins, and where, from the end, it ends.
        self._start = len(before)
        self._end = -len(after)
        self._delta = delta
        # The call whose arguments these are.
        self._slot = slot

    def read(self, data: bytes) -> Delta | None:
        """Read the next chunk, if it is as expected."""
        if not (data.startswith(self._before) and data.endswith(self._after)):
            return None
        try:
            text = _STRING.decode(data[self._start : self._end])
        except DECODE_ERRORS:
            return None
        if not text or text.startswith(_WHOLE):
            return None
        slot = self._slot
        if slot is not None:
            slot.fragments.append(text)
            slot.told += 1
        delta = self._delta
        return Delta(delta.index, delta.channel, text, delta.part)


def find_shortcut(
    data: bytes, events: list[Event], slot: PartialCall | None
) -> DeltaFastPath | None:
    """Learn from a chunk and what it gave; `slot` is the call to which it added just arguments."""
    delta = events[0]
    if len(events) != 1 or not isinstance(delta, Delta) or delta.logprobs or delta.annotations:
        return None
    if delta.channel != "arguments":
        slot = None
    elif slot is None or slot.block != delta.index:
        return None
    key = _KEYS.get(delta.channel)
    return None if key is None else _around(data, key, delta, slot)


def _around(
    data: bytes, key: bytes, delta: Delta, slot: PartialCall | None
) -> DeltaFastPath | None:
    """Find the bytes around the string of a delta, if they can only be that."""
    before, found, rest = data.partition(key)
    # Twice could mean that one of them stands within a text.
    if not found or key in rest:
        return None
    space = len(rest) - len(rest.lstrip(b" "))
    spelled = encode(delta.text)
    if not rest.startswith(spelled, space):
        return None
    return DeltaFastPath(before + key + rest[:space], rest[space + len(spelled) :], delta, slot)
