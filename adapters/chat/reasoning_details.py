"""`reasoning_details`, by which some Chat servers tell thoughts: a list, parts of it sealed.

The texts in it can be shown; the list itself is kept, for its server wants it back whole.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from adapters.chat.parts import TEXT_SEPARATOR
from adapters.ir.types import ExtraField, Extras, Reasoning
from adapters.wire.json_object import Json, parse

DETAILS = "reasoning_details"

_LIST = msgspec.json.Decoder(list[Raw])

# Where the text of an entry stands, and what may come in pieces.
_TEXTS = ("text", "summary")

Entry = dict[str, Json]


def read_details(raw: Raw) -> tuple[str, Extras]:
    """Read a whole list: the text in it, and the list itself."""
    details = ReasoningDetails()
    text = details.add(raw)
    return text, (ExtraField("completions", DETAILS, raw),) if details else ()


def merge_reasoning_details(thoughts: Iterable[Reasoning]) -> Extras:
    """Make one list of those of several thoughts, which become one message."""
    extras = [extra for thought in thoughts for extra in thought.extras]
    lists = [extra for extra in extras if extra.name == DETAILS]
    if len(lists) <= 1:
        return tuple(extras)
    entries = [entry for one in lists for entry in _LIST.decode(one.value)]
    value = Raw(msgspec.json.encode(entries))
    others = tuple(extra for extra in extras if extra.name != DETAILS)
    return (ExtraField("completions", DETAILS, value), *others)


def as_details(text: str) -> list[dict[str, str]]:
    """Give a thought that came in no list as one, for a server that takes it back in no other."""
    return [{"type": "reasoning.text", "text": text}] if text else []


class ReasoningDetails:
    """Gathers a list of which each chunk of a stream brings a piece."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        # Whether any text was found yet.
        self._told = False

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, raw: Raw) -> str:
        """Take a piece; give the text in it. What is no list of objects is passed over."""
        given = parse(raw)
        entries = given if isinstance(given, list) else []
        return "".join(self._take(entry) for entry in entries if isinstance(entry, dict))

    def _take(self, entry: Entry) -> str:
        text = _text(entry)
        known = self._find(entry) if text else None
        if known is None:
            self._entries.append(dict(entry))
        else:
            _extend(known, entry)
        separator = TEXT_SEPARATOR if text and known is None and self._told else ""
        self._told = self._told or bool(text)
        return separator + text

    def _find(self, entry: Entry) -> Entry | None:
        """Find the entry that a piece goes on with."""
        place, kind = entry.get("index"), entry.get("type")
        for known in reversed(self._entries):
            if known.get("type") == kind and known.get("index") == place and _text(known):
                return known
        return None

    def take(self) -> Extras:
        """Give the list so far, and begin another."""
        entries, self._entries, self._told = self._entries, [], False
        value = Raw(msgspec.json.encode(entries))
        return (ExtraField("completions", DETAILS, value),) if entries else ()


def _text(entry: Entry) -> str:
    found = (entry.get(name) for name in _TEXTS)
    return next((text for text in found if isinstance(text, str) and text), "")


def _extend(known: Entry, entry: Entry) -> None:
    """Add a piece to its entry: texts are joined, of all else the last word counts."""
    for name, value in entry.items():
        before = known.get(name)
        if name in _TEXTS and isinstance(before, str) and isinstance(value, str):
            known[name] = before + value
        elif value is not None:
            known[name] = value
