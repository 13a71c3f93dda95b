"""What the stream checkers of all dialects share: breaches, SSE frames and the shapes of JSON.

Our readers forgive; the checkers do not. Each dialect describes a legal stream in tables, and
whatever has no place in a table is a breach.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import Protocol, TypeAlias

import msgspec

from adapters.sse import BYTE_ORDER_MARK

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Object: TypeAlias = dict[str, Json]

DONE = "[DONE]"
# SSE ends a line at CR, LF or CRLF and nowhere else: str.splitlines would cut inside JSON strings.
_LINE_END = re.compile(rb"\r\n|\r|\n")
_SHOWN = 60


class Violation(msgspec.Struct, frozen=True):
    """One rule that the stream broke, and the line where it did."""

    line: int
    message: str


# --- frames -----------------------------------------------------------------------------------


class Frame(msgspec.Struct, frozen=True):
    """One event of the stream; `line` is that of its first `data:` field."""

    line: int
    data: str
    event: str | None = None


class ParsedStream(msgspec.Struct, frozen=True):
    """A whole stream, split into its frames."""

    frames: list[Frame]
    breaches: list[Violation]
    id_lines: list[int]
    """Where `id:` fields stand; whether they are legal is for the dialect to say."""


class _Splitter:
    """Collects the fields of one event after another, as the SSE specification says."""

    def __init__(self) -> None:
        self.recording = ParsedStream([], [], [])
        self._data: list[str] = []
        self._data_line = 0
        self._event: str | None = None
        self._event_line = 0

    def feed(self, number: int, line: bytes) -> None:
        """Take one line without its end."""
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self._report(number, "the line is not UTF-8")
            text = line.decode(errors="replace")
        if not text:
            self._dispatch()
        elif not text.startswith(":"):
            name, _, value = text.partition(":")
            self._field(number, name, value.removeprefix(" "))

    def flush(self) -> None:
        """Report an event that no empty line ended; keep it if it can be read nevertheless."""
        frame = self._pending()
        if frame is None and self._event is None:
            return
        line = self._data_line if frame else self._event_line
        self._report(line, "the event is cut by the end of the file: no empty line follows it")
        if frame and (frame.data == DONE or not isinstance(read_object(frame), Violation)):
            self.recording.frames.append(frame)

    def _field(self, number: int, name: str, value: str) -> None:
        match name:
            case "data":
                self._data_line = self._data_line or number
                self._data.append(value)
            case "event":
                self._event, self._event_line = value, number
            case "id":
                self.recording.id_lines.append(number)
            case "retry":
                pass
            case _:
                self._report(number, f"unknown SSE field {preview(name)}")

    def _dispatch(self) -> None:
        frame = self._pending()
        if frame:
            self.recording.frames.append(frame)
        elif self._event is not None:
            message = f"event {preview(self._event)} has no data: line, so it is never delivered"
            self._report(self._event_line, message)
        self._data, self._data_line, self._event = [], 0, None

    def _pending(self) -> Frame | None:
        if not self._data:
            return None
        return Frame(self._data_line, "\n".join(self._data), self._event)

    def _report(self, line: int, message: str) -> None:
        self.recording.breaches.append(Violation(line, message))


def split(data: bytes) -> ParsedStream:
    """Split a whole stream into frames, and report what breaks SSE itself."""
    splitter = _Splitter()
    *lines, rest = _LINE_END.split(data.removeprefix(BYTE_ORDER_MARK))
    for number, line in enumerate(lines, start=1):
        splitter.feed(number, line)
    if rest:
        splitter.feed(len(lines) + 1, rest)
    splitter.flush()
    return splitter.recording


def read_object(frame: Frame) -> Object | Violation:
    """Decode the JSON object that a frame carries."""
    try:
        value: Json = msgspec.json.decode(frame.data)
    except (msgspec.DecodeError, RecursionError) as error:
        return Violation(frame.line, f"the data is not JSON: {error}")
    if isinstance(value, dict):
        return value
    return Violation(frame.line, f"the data must be a JSON object, not {preview(value)}")


# --- shapes -----------------------------------------------------------------------------------


class JsonShape(msgspec.Struct, frozen=True):
    """What a JSON value must be. Types are compared exactly: true is no integer here."""

    name: str
    types: tuple[type, ...]
    words: tuple[str, ...] = ()
    """The only strings allowed, if there is a closed list of them."""
    filled: bool | None = None
    """True: may not be empty. False: must be empty."""
    fields: "Fields" = msgspec.field(default_factory=dict[str, "JsonShape"])
    each: "JsonShape | None" = None
    required: bool = True


Fields: TypeAlias = Mapping[str, JsonShape]

STRING = JsonShape("a string", (str,))
FILLED = JsonShape("a string that is not empty", (str,), filled=True)
EMPTY = JsonShape("an empty string", (str,), filled=False)
INTEGER = JsonShape("an integer", (int,))
NUMBER = JsonShape("a number", (int, float))
BOOLEAN = JsonShape("a boolean", (bool,))
LIST = JsonShape("a list", (list,))
EMPTY_LIST = JsonShape("an empty list", (list,), filled=False)
OBJECT = JsonShape("an object", (dict,))


def optional(kind: JsonShape) -> JsonShape:
    """Let the field be absent."""
    return msgspec.structs.replace(kind, required=False)


def nullable(kind: JsonShape) -> JsonShape:
    """Let the value be null."""
    name, types = f"{kind.name} or null", (*kind.types, NoneType)
    return msgspec.structs.replace(kind, name=name, types=types)


def either(first: JsonShape, second: JsonShape) -> JsonShape:
    """Let the value be of one kind or the other."""
    return JsonShape(f"{first.name} or {second.name}", first.types + second.types)


def one_of(*words: str) -> JsonShape:
    """Allow these strings only."""
    return JsonShape(" or ".join(preview(word) for word in words), (str,), words)


def object_of(fields: Fields) -> JsonShape:
    """Ask for an object with these fields; further ones are nobody's business."""
    return msgspec.structs.replace(OBJECT, fields=fields)


def list_of(kind: JsonShape) -> JsonShape:
    """Ask for a list whose entries are all of one kind."""
    return msgspec.structs.replace(LIST, each=kind)


def shape_errors(value: Object, fields: Fields, where: str = "") -> Iterator[str]:
    """Say which fields are missing or of the wrong kind, at any depth."""
    for key, kind in fields.items():
        path = f"{where}.{key}" if where else key
        if key in value:
            yield from _misfits_at(path, value[key], kind)
        elif kind.required:
            yield f"{path} is missing"


def _misfits_at(path: str, value: Json, kind: JsonShape) -> Iterator[str]:
    if not _fits(value, kind):
        yield f"{path} must be {kind.name}, not {preview(value)}"
    elif isinstance(value, dict):
        yield from shape_errors(value, kind.fields, path)
    elif isinstance(value, list) and kind.each:
        for number, entry in enumerate(value):
            yield from _misfits_at(f"{path}[{number}]", entry, kind.each)


def _fits(value: Json, kind: JsonShape) -> bool:
    if type(value) not in kind.types:
        return False
    if isinstance(value, str) and kind.words and value not in kind.words:
        return False
    return kind.filled is None or not isinstance(value, str | list) or bool(value) is kind.filled


# --- reading what may be misshapen ------------------------------------------------------------
# A field of the wrong kind is reported once, by its table. These let the rules that come after
# pass over it in silence, so that one fault does not become ten breaches.


def text_at(value: Object, key: str) -> str | None:
    """Return the string under a key, if there is one."""
    found = value.get(key)
    return found if isinstance(found, str) else None


def integer_at(value: Object, key: str) -> int | None:
    """Return the integer under a key, if there is one."""
    found = value.get(key)
    return found if type(found) is int else None


def object_at(value: Object, key: str) -> Object | None:
    """Return the object under a key, if there is one."""
    found = value.get(key)
    return found if isinstance(found, dict) else None


def objects_at(value: Object, key: str) -> list[Object]:
    """Return those entries of the list under a key that are objects."""
    found = value.get(key)
    entries = found if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def same(first: Json, second: Json) -> bool:
    """Compare two values; absent, null and empty are one. Nesting too deep to compare differs."""
    try:
        return (first or None) == (second or None)
    except RecursionError:
        return False


def preview(value: Json) -> str:
    """Name a value in a sentence, shortly."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            text = msgspec.json.encode(value).decode()
            return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# --- judging ----------------------------------------------------------------------------------


class StreamRules(Protocol):
    """The rules of one dialect: takes frame after frame, says what is wrong with each."""

    def read(self, frame: Frame, value: Object) -> Iterable[str]:
        """Judge a frame that carries a JSON object."""
        ...

    def done(self) -> Iterable[str]:
        """Judge the `[DONE]` frame."""
        ...

    def flush(self) -> Iterable[str]:
        """Say what is wrong with the stream ending here."""
        ...


def validate(recording: ParsedStream, rules: StreamRules) -> list[Violation]:
    """Run a recording past the rules of a dialect; breaches come in line order."""
    breaches = list(recording.breaches)
    line = 1
    for frame in recording.frames:
        line = frame.line
        breaches += _judge_frame(frame, rules)
    breaches += [Violation(line, message) for message in rules.flush()]
    return sorted(breaches, key=lambda breach: breach.line)


def _judge_frame(frame: Frame, rules: StreamRules) -> list[Violation]:
    if frame.data == DONE:
        return [Violation(frame.line, message) for message in rules.done()]
    value = read_object(frame)
    if isinstance(value, Violation):
        return [value]
    return [Violation(frame.line, message) for message in rules.read(frame, value)]
