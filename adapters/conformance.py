"""Base of the stream checkers: splits a stream into frames and checks the shapes of their JSON.

Readers are lenient, checkers are strict. Each dialect describes valid streams in tables; anything
that is in no table is a violation.
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
# In SSE, only CR, LF and CRLF end a line. `str.splitlines` would also split JSON strings.
_LINE_END = re.compile(rb"\r\n|\r|\n")
_PREVIEW_LENGTH = 60


class Violation(msgspec.Struct, frozen=True):
    """A violation of one rule, and its line in the stream."""

    line: int
    message: str


# Frames


class Frame(msgspec.Struct, frozen=True):
    """One event of the stream, and the line of its first `data:` field."""

    line: int
    data: str
    event: str | None = None


class ParsedStream(msgspec.Struct, frozen=True):
    """The frames of a stream, and its violations of the SSE format."""

    frames: list[Frame]
    violations: list[Violation]
    # The line numbers of `id:` fields, which not all dialects allow.
    id_lines: list[int]


class _Splitter:
    """Splits lines into frames by the rules of SSE."""

    def __init__(self) -> None:
        self.parsed = ParsedStream([], [], [])
        self._data: list[str] = []
        self._data_line = 0
        self._event: str | None = None
        self._event_line = 0

    def feed(self, number: int, line: bytes) -> None:
        """Read one line, without its end."""
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
        """Report an event without an empty line after it, and keep it if its JSON is valid."""
        frame = self._pending()
        if frame is None and self._event is None:
            return
        line = self._data_line if frame else self._event_line
        self._report(line, "the event is not terminated by an empty line")
        if frame and (frame.data == DONE or not isinstance(read_object(frame), Violation)):
            self.parsed.frames.append(frame)

    def _field(self, number: int, name: str, value: str) -> None:
        match name:
            case "data":
                self._data_line = self._data_line or number
                self._data.append(value)
            case "event":
                self._event, self._event_line = value, number
            case "id":
                self.parsed.id_lines.append(number)
            case "retry":
                pass
            case _:
                self._report(number, f"unknown SSE field {preview(name)}")

    def _dispatch(self) -> None:
        frame = self._pending()
        if frame:
            self.parsed.frames.append(frame)
        elif self._event is not None:
            message = f"event {preview(self._event)} has no data: line and is never delivered"
            self._report(self._event_line, message)
        self._data, self._data_line, self._event = [], 0, None

    def _pending(self) -> Frame | None:
        if not self._data:
            return None
        return Frame(self._data_line, "\n".join(self._data), self._event)

    def _report(self, line: int, message: str) -> None:
        self.parsed.violations.append(Violation(line, message))


def split(data: bytes) -> ParsedStream:
    """Split a stream into frames, and find the violations of the SSE format."""
    splitter = _Splitter()
    *lines, rest = _LINE_END.split(data.removeprefix(BYTE_ORDER_MARK))
    for number, line in enumerate(lines, start=1):
        splitter.feed(number, line)
    if rest:
        splitter.feed(len(lines) + 1, rest)
    splitter.flush()
    return splitter.parsed


def read_object(frame: Frame) -> Object | Violation:
    """Decode the JSON object of a frame."""
    try:
        value: Json = msgspec.json.decode(frame.data)
    except (msgspec.DecodeError, RecursionError) as error:
        return Violation(frame.line, f"the data is not JSON: {error}")
    if isinstance(value, dict):
        return value
    return Violation(frame.line, f"the data must be a JSON object, not {preview(value)}")


# Shapes of JSON values


class JsonShape(msgspec.Struct, frozen=True):
    """The required form of a JSON value. Types are compared exactly: true is not an integer."""

    name: str
    types: tuple[type, ...]
    # The allowed strings; empty if all strings are allowed.
    values: tuple[str, ...] = ()
    # Whether it must be non-empty (True) or empty (False).
    filled: bool | None = None
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


def optional(shape: JsonShape) -> JsonShape:
    """Allow the field to be missing."""
    return msgspec.structs.replace(shape, required=False)


def nullable(shape: JsonShape) -> JsonShape:
    """Allow null."""
    name, types = f"{shape.name} or null", (*shape.types, NoneType)
    return msgspec.structs.replace(shape, name=name, types=types)


def either(first: JsonShape, second: JsonShape) -> JsonShape:
    """Allow either shape."""
    return JsonShape(f"{first.name} or {second.name}", first.types + second.types)


def one_of(*values: str) -> JsonShape:
    """Require one of these strings."""
    return JsonShape(" or ".join(map(preview, values)), (str,), values)


def object_of(fields: Fields) -> JsonShape:
    """Require an object with these fields; it may have others."""
    return msgspec.structs.replace(OBJECT, fields=fields)


def list_of(shape: JsonShape) -> JsonShape:
    """Require a list with entries of this shape."""
    return msgspec.structs.replace(LIST, each=shape)


def shape_errors(value: Object, fields: Fields, path: str = "") -> Iterator[str]:
    """Yield the fields that are missing or have a wrong shape, at any depth."""
    for key, shape in fields.items():
        key_path = f"{path}.{key}" if path else key
        if key in value:
            yield from _value_errors(key_path, value[key], shape)
        elif shape.required:
            yield f"{key_path} is missing"


def _value_errors(path: str, value: Json, shape: JsonShape) -> Iterator[str]:
    if not _matches(value, shape):
        yield f"{path} must be {shape.name}, not {preview(value)}"
    elif isinstance(value, dict):
        yield from shape_errors(value, shape.fields, path)
    elif isinstance(value, list) and shape.each:
        for number, entry in enumerate(value):
            yield from _value_errors(f"{path}[{number}]", entry, shape.each)


def _matches(value: Json, shape: JsonShape) -> bool:
    if type(value) not in shape.types:
        return False
    if isinstance(value, str) and shape.values and value not in shape.values:
        return False
    return shape.filled is None or not isinstance(value, str | list) or bool(value) is shape.filled


# Lookup of values. A value with a wrong shape counts as missing, so that it is reported only once,
# when its shape is checked.


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
    """Return the objects in the list under a key, if there is one."""
    found = value.get(key)
    entries = found if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def same(first: Json, second: Json) -> bool:
    """Whether two values are equal or both empty; False if they are too deep to compare."""
    try:
        return (first or None) == (second or None)
    except RecursionError:
        return False


def preview(value: Json) -> str:
    """Return a short description of a value."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            text = msgspec.json.encode(value).decode()
            return text if len(text) <= _PREVIEW_LENGTH else f"{text[:_PREVIEW_LENGTH]}…"


# Rules


class StreamRules(Protocol):
    """The rules of one dialect, which check one frame after the other."""

    def read(self, frame: Frame, value: Object) -> Iterable[str]:
        """Return the violations of a frame with a JSON object."""
        ...

    def done(self) -> Iterable[str]:
        """Return the violations of `[DONE]`."""
        ...

    def flush(self) -> Iterable[str]:
        """Return the violations of the end of the stream."""
        ...


def validate(parsed: ParsedStream, rules: StreamRules) -> list[Violation]:
    """Return all violations in a stream, in the order of their lines."""
    violations = list(parsed.violations)
    line = 1
    for frame in parsed.frames:
        line = frame.line
        value = None if frame.data == DONE else read_object(frame)
        if isinstance(value, Violation):
            violations.append(value)
        else:
            messages = rules.done() if value is None else rules.read(frame, value)
            violations += [Violation(line, message) for message in messages]
    violations += [Violation(line, message) for message in rules.flush()]
    return sorted(violations, key=lambda violation: violation.line)
