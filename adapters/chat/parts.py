"""Content parts of Chat requests, and `reasoning_details`."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw, Struct

from adapters.chat.wire import FAMILY, Wire
from adapters.dialect import ReplyContext
from adapters.ir import types as ir
from adapters.ir.normalize import (
    FILE_ID_BESIDE_URL_REASON,
    REFUSAL_AS_TEXT_REASON,
    STRING_BREAKPOINT_REASON,
)
from adapters.losses import Losses
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.json_object import Json, parse

# The separator of messages or parts whose texts are joined.
TEXT_SEPARATOR = "\n\n"


def is_media(part: ir.Part) -> bool:
    """Whether a part cannot be in a tool message."""
    return isinstance(part, ir.Image | ir.File | ir.Audio)


def is_single_text(content: tuple[ir.Part, ...]) -> bool:
    """Whether the content can be written as a string, which every server accepts."""
    if len(content) != 1 or not isinstance(content[0], ir.Text):
        return False
    text = content[0]
    has_own_extras = bool(text.extras) and any(extra.family == FAMILY for extra in text.extras)
    return text.cache_breakpoint is None and not has_own_extras


def report_reply_fields(text: ir.Text, path: str, losses: Losses) -> None:
    """Report the fields of a text that only a reply can have."""
    if text.annotations:
        losses.dropped(f"{path}.annotations", "requests do not support annotations")
    if text.logprobs:
        losses.dropped(f"{path}.logprobs", "requests do not support log probabilities")


class PartWriter:
    """Writes content parts; reports parts and fields that Chat does not support."""

    def __init__(
        self, label: str, extras: ExtrasWriter, losses: Losses, *, text_parts: bool = True
    ) -> None:
        self._label = label
        # Whether the backend accepts text as a list of parts.
        self._text_parts = text_parts
        self._extras = extras
        self._losses = losses

    def write_content(self, content: tuple[ir.Part, ...], path: str) -> str | list[Wire | Raw]:
        """Write the content of a message."""
        if not content:
            return ""
        if is_single_text(content) and isinstance(content[0], ir.Text):
            self._extras.report_dropped(content[0].extras, f"{path}[0]")
            report_reply_fields(content[0], f"{path}[0]", self._losses)
            return content[0].text
        texts = [part for part in content if isinstance(part, ir.Text)]
        if not self._text_parts and len(texts) == len(content):
            return self._join(texts, path)
        written = [self.write(part, f"{path}[{number}]") for number, part in enumerate(content)]
        return [wire for wire in written if wire is not None]

    def _join(self, texts: list[ir.Text], path: str) -> str:
        if len(texts) > 1:
            self._losses.changed(path, "only a string is supported; text parts are joined")
        for number, text in enumerate(texts):
            self._extras.report_dropped(text.extras, f"{path}[{number}]")
            report_reply_fields(text, f"{path}[{number}]", self._losses)
            if text.cache_breakpoint is not None:
                breakpoint_path = f"{path}[{number}].prompt_cache_breakpoint"
                self._losses.dropped(breakpoint_path, STRING_BREAKPOINT_REASON)
        return TEXT_SEPARATOR.join(text.text for text in texts)

    def write(self, part: ir.Part, path: str) -> Wire | Raw | None:
        """Write one part; None if Chat does not support it."""
        if isinstance(part, ir.OtherPart) and part.family == FAMILY:
            return part.value
        wire = self._write_body(part, path)
        if wire is None:
            self._losses.dropped(path, f"{self._label} does not support this part", "meaning")
            return None
        if isinstance(part, ir.Refusal):
            self._losses.changed(path, REFUSAL_AS_TEXT_REASON)
        elif not isinstance(part, ir.OtherPart) and part.cache_breakpoint is not None:
            wire["prompt_cache_breakpoint"] = part.cache_breakpoint
        if isinstance(part, ir.Text):
            report_reply_fields(part, path, self._losses)
        if not isinstance(part, ir.OtherPart):
            self._extras.carry(part.extras, wire, path)
        return wire

    def _write_body(self, part: ir.Part, path: str) -> Wire | None:
        match part:
            case ir.Text() | ir.Refusal():
                return {"type": "text", "text": part.text}
            case ir.Image(url=str(url)):
                if part.file_id is not None:
                    self._losses.dropped(f"{path}.file_id", FILE_ID_BESIDE_URL_REASON)
                detail = {"detail": part.detail} if part.detail else {}
                return {"type": "image_url", "image_url": {"url": url} | detail}
            case ir.File(url=None):
                return self._write_file(part, path)
            case ir.Audio():
                audio = {"data": part.data, "format": part.format}
                return {"type": "input_audio", "input_audio": audio}
            case _:
                return None

    def _write_file(self, part: ir.File, path: str) -> Wire:
        if part.detail:
            self._losses.dropped(f"{path}.detail", f"{self._label} does not support this field")
        file = {"file_data": part.data, "file_id": part.file_id, "filename": part.filename}
        return {"type": "file", "file": {k: v for k, v in file.items() if v is not None}}


# Reasoning


def reasoning_text(items: tuple[ir.Item, ...]) -> str:
    """Return the text of all reasoning, summaries included."""
    reasoning = (item for item in items if isinstance(item, ir.Reasoning))
    texts = (text for item in reasoning for text in item.summary + item.content)
    return TEXT_SEPARATOR.join(text for text in texts if text)


# The fields of a message in which servers send the text of reasoning.
REASONING_FIELDS = ("reasoning_content", "reasoning")


def reasoning_field(reasoning: Iterable[ir.Reasoning], context: ReplyContext) -> str | None:
    """Return the message field for the text of reasoning in a reply; None if it has none."""
    field = context.reply_options.reasoning_field
    if field is not None or not context.keeps_reasoning_field:
        return field
    return next((one.field for one in reasoning if one.field in REASONING_FIELDS), None)


# A list in which some servers send reasoning, partly encrypted. Its texts are read, and the list is
# kept as an extra field, because later requests to the server must contain it unchanged.
DETAILS_FIELD = "reasoning_details"

_LIST = msgspec.json.Decoder(list[Raw])
# The fields of an entry that contain text, which a stream may split.
_TEXT_FIELDS = ("text", "summary")
_Entry = dict[str, Json]


def read_details(raw: Raw) -> tuple[str, ir.Extras]:
    """Return the text of a complete list, and the list as an extra field."""
    details = ReasoningDetails()
    text = details.add(raw)
    return text, (ir.ExtraField(FAMILY, DETAILS_FIELD, raw),) if details else ()


def merge_reasoning_details(reasoning: Iterable[ir.Reasoning]) -> ir.Extras:
    """Return the extra fields of several reasoning items, with their lists merged into one."""
    extras = [extra for item in reasoning for extra in item.extras]
    lists = [extra for extra in extras if extra.name == DETAILS_FIELD]
    if len(lists) <= 1:
        return tuple(extras)
    entries = [entry for extra in lists for entry in _LIST.decode(extra.value)]
    value = Raw(msgspec.json.encode(entries))
    others = tuple(extra for extra in extras if extra.name != DETAILS_FIELD)
    return (ir.ExtraField(FAMILY, DETAILS_FIELD, value), *others)


def write_details(text: str) -> list[dict[str, str]]:
    """Write the text of reasoning as a list."""
    return [{"type": "reasoning.text", "text": text}] if text else []


def write_reasoning(reasoning: Sequence[ir.Reasoning]) -> dict[str, object]:
    """Write reasoning in the fields in which it was received."""
    fields: dict[str, object] = {
        extra.name: extra.value for extra in merge_reasoning_details(reasoning)
    }
    name = next((one.field for one in reasoning if one.field), None)
    text = TEXT_SEPARATOR.join(text for one in reasoning for text in one.content)
    if name is not None and text and name not in fields:
        fields[name] = write_details(text) if name == DETAILS_FIELD else text
    return fields


class ReasoningDetails(Struct, eq=False):
    """A list that is received in pieces."""

    _entries: list[_Entry] = []
    _has_text: bool = False

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, raw: Raw) -> str:
        """Add a piece and return its text; ignore values that are not objects in a list."""
        value = parse(raw)
        entries = value if isinstance(value, list) else []
        return "".join(self._add_entry(entry) for entry in entries if isinstance(entry, dict))

    def take(self) -> ir.Extras:
        """Return the list so far as an extra field and begin a new list."""
        entries, self._entries, self._has_text = self._entries, [], False
        value = Raw(msgspec.json.encode(entries))
        return (ir.ExtraField(FAMILY, DETAILS_FIELD, value),) if entries else ()

    def _add_entry(self, entry: _Entry) -> str:
        text = _entry_text(entry)
        continued = self._find_continued(entry) if text else None
        if continued is None:
            self._entries.append(dict(entry))
        else:
            _extend(continued, entry)
        separator = TEXT_SEPARATOR if text and continued is None and self._has_text else ""
        self._has_text = self._has_text or bool(text)
        return separator + text

    def _find_continued(self, entry: _Entry) -> _Entry | None:
        """Return the known entry that a piece with text continues."""
        index, kind = entry.get("index"), entry.get("type")
        for known in reversed(self._entries):
            if known.get("type") == kind and known.get("index") == index and _entry_text(known):
                return known
        return None


def _entry_text(entry: _Entry) -> str:
    values = (entry.get(name) for name in _TEXT_FIELDS)
    return next((text for text in values if isinstance(text, str) and text), "")


def _extend(known: _Entry, entry: _Entry) -> None:
    """Add a piece to its entry: join texts, replace other fields."""
    for name, value in entry.items():
        before = known.get(name)
        if name in _TEXT_FIELDS and isinstance(before, str) and isinstance(value, str):
            known[name] = before + value
        elif value is not None:
            known[name] = value
