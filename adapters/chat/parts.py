"""Writes content parts for Chat."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw

from adapters.chat.wire import Frames
from adapters.ir.events import Delta
from adapters.ir.types import (
    Audio,
    ExtraField,
    Extras,
    File,
    Image,
    Item,
    OtherPart,
    Part,
    Reasoning,
    Refusal,
    Text,
)
from adapters.losses import Losses
from adapters.sse import PLACEHOLDER
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.json_object import Json, parse

Wire = dict[str, object]

# Between texts that become one and must not run together.
TEXT_SEPARATOR = "\n\n"


def is_media(part: Part) -> bool:
    """Tell whether the part is something that a tool message cannot hold."""
    return isinstance(part, Image | File | Audio)


def is_plain(content: tuple[Part, ...]) -> bool:
    """Tell whether the content is just one text, which every server takes as a string."""
    if len(content) != 1:
        return False
    part = content[0]
    if not isinstance(part, Text) or part.cache_breakpoint is not None:
        return False
    return not any(extra.family == "completions" for extra in part.extras)


class PartWriter:
    """Writes parts, and reports what they cannot keep."""

    def __init__(
        self, label: str, carrier: ExtrasWriter, losses: Losses, *, text_parts: bool = True
    ) -> None:
        self._label = label
        # Whether text may come as a list of parts.
        self._text_parts = text_parts
        self._carrier = carrier
        self._losses = losses

    def write_content(self, content: tuple[Part, ...], path: str) -> str | list[Wire | Raw]:
        """Write the content of a message."""
        if not content:
            return ""
        if is_plain(content) and isinstance(content[0], Text):
            self._carrier.report_dropped(content[0].extras, f"{path}[0]")
            return content[0].text
        if not self._text_parts and all(isinstance(part, Text) for part in content):
            return self._joined(content, path)
        written = [self.write(part, f"{path}[{number}]") for number, part in enumerate(content)]
        return [wire for wire in written if wire is not None]

    def _joined(self, content: tuple[Part, ...], path: str) -> str:
        """Make one string of several texts, and say what it cannot keep."""
        texts = [part for part in content if isinstance(part, Text)]
        if len(texts) > 1:
            self._losses.changed(path, "the backend takes a string; the texts are put together")
        for number, text in enumerate(texts):
            self._carrier.report_dropped(text.extras, f"{path}[{number}]")
            if text.cache_breakpoint is not None:
                why = "a string has no breakpoints"
                self._losses.dropped(f"{path}[{number}].prompt_cache_breakpoint", why)
        return TEXT_SEPARATOR.join(text.text for text in texts)

    def write(self, part: Part, path: str) -> Wire | Raw | None:
        """Write one part; None where Chat has no form for it."""
        if isinstance(part, OtherPart) and part.family == "completions":
            return part.value
        wire = self._shape(part, path)
        if wire is None:
            self._losses.dropped(path, f"{self._label} cannot carry this part", "meaning")
            return None
        if isinstance(part, Text | Image | File | Audio):
            if part.cache_breakpoint is not None:
                wire["prompt_cache_breakpoint"] = part.cache_breakpoint
            self._carrier.carry(part.extras, wire, path)
        return wire

    def _shape(self, part: Part, path: str) -> Wire | None:
        """Give the part's own shape, or None where Chat has none for it."""
        match part:
            case Text() | Refusal():
                return {"type": "text", "text": part.text}
            case Image(url=str(url)):
                detail = {"detail": part.detail} if part.detail else {}
                return {"type": "image_url", "image_url": {"url": url} | detail}
            case File(url=None):
                return self._shape_file(part, path)
            case Audio():
                inner = {"data": part.data, "format": part.format}
                return {"type": "input_audio", "input_audio": inner}
            case _:
                return None

    def _shape_file(self, part: File, path: str) -> Wire:
        if part.detail:
            self._losses.dropped(f"{path}.detail", f"{self._label} has no detail of files")
        names = {"file_data": part.data, "file_id": part.file_id, "filename": part.filename}
        return {"type": "file", "file": {k: v for k, v in names.items() if v is not None}}


# `reasoning_details`, by which some Chat servers tell thoughts: a list, parts of it sealed.
#
# The texts in it can be shown; the list itself is kept, for its server wants it back whole.


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


# Tells a Chat client what the model thought, in the field that the client wants it in.


NO_REASONING_FIELD_REASON = "Chat Completions has no place for reasoning"


def reasoning_text(items: tuple[Item, ...]) -> str:
    """Give all that was thought, summarised or not."""
    return TEXT_SEPARATOR.join(text for text in _texts(items) if text)


def _texts(items: tuple[Item, ...]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Reasoning):
            yield from item.summary + item.content


class ReasoningWriter:
    """The thoughts of one choice on their way out."""

    def __init__(self, frames: Frames, choice: int, field: str | None, losses: Losses) -> None:
        self._template = frames.template(choice, {field: PLACEHOLDER}) if field else None
        self._losses = losses
        # The block and the part that was told last, if any was.
        self._place: tuple[int, int] | None = None

    def fill(self, event: Delta) -> list[bytes]:
        """Write a piece; an empty line stands between parts, as it does between texts."""
        if not event.text:
            return []
        if self._template is None:
            self._losses.dropped("reasoning", NO_REASONING_FIELD_REASON)
            return []
        place = (event.index, event.part)
        begins = self._place not in (None, place)
        self._place = place
        return [self._template.fill(TEXT_SEPARATOR + event.text if begins else event.text)]
