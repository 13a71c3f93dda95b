"""Lenient reading of JSON objects, with exact paths in errors and without loss of unknown fields.

The reader of a dialect takes each field that it knows, with its expected type. The remaining fields
are unknown: the reader passes them on or reports them. `null` counts as absent.
"""

import re
from typing import TypeVar

from msgspec import Raw, Struct, ValidationError
from msgspec.json import Decoder, Encoder

from adapters.errors import InvalidRequestError
from adapters.json_text import DECODE_ERRORS, replace_invalid_text

T = TypeVar("T")
Object = dict[str, Raw]

# Parsed JSON.
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

NULL = Raw(b"null")
# The default of a `Raw` field in a Struct, whose type cannot be `Raw | None`.
MISSING = Raw()

# Created once, because a decoder compiles its type.
_ENCODER = Encoder()
_JSON: Decoder[Json] = Decoder()
_OBJECT = Decoder(Object)
_OPTIONAL_OBJECT = Decoder(Object | None)
_OBJECTS: Decoder[list[Object] | None] = Decoder(list[Object] | None)
_STRING = Decoder(str)
_OPTIONAL_STRING = Decoder(str | None)
_STRINGS = Decoder(list[str] | None)
# Not strict: `1.0` and `"1"` are accepted as integers.
_INTEGER = Decoder(int | None, strict=False)
_NUMBER = Decoder(float | None, strict=False)
_BOOLEAN = Decoder(bool | None)
_ARRAY = Decoder(list[Raw] | None)
_STRING_OR_OBJECT = Decoder(str | Object | None)
_STRING_OR_ARRAY = Decoder(str | list[Raw] | None)


class JsonObject:
    """The fields of a JSON object that have not been taken yet."""

    __slots__ = ("_remaining", "path")

    def __init__(self, fields: Object, path: str = "") -> None:
        self._remaining = fields
        self.path = path

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether a field remains and is not null."""
        raw = self._remaining.get(name)
        return raw is not None and raw != NULL

    def count(self) -> int:
        """Return the number of remaining fields."""
        return len(self._remaining)

    def _take(self, name: str, decoder: Decoder[T]) -> T | None:
        raw = self._remaining.pop(name, None)
        if raw is None:
            return None
        try:
            return decoder.decode(raw)
        except DECODE_ERRORS as error:
            # Build the path only for an error: that is faster, because most fields are valid.
            raise _decode_error(error, self.at(name)) from None

    def string(self, name: str) -> str | None:
        """Take a string."""
        return self._take(name, _OPTIONAL_STRING)

    def peek(self, name: str) -> str | None:
        """Return a string without taking it."""
        raw = self._remaining.get(name)
        return _STRING.decode(raw) if raw is not None and bytes(raw).startswith(b'"') else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Take an array of strings."""
        return tuple(self._take(name, _STRINGS) or ())

    def integer(self, name: str) -> int | None:
        """Take an integer."""
        return self._take(name, _INTEGER)

    def number(self, name: str) -> float | None:
        """Take a number."""
        return self._take(name, _NUMBER)

    def boolean(self, name: str) -> bool | None:
        """Take a boolean."""
        return self._take(name, _BOOLEAN)

    def raw(self, name: str) -> Raw | None:
        """Take a value of any type without parsing it."""
        raw = self._remaining.pop(name, None)
        return None if raw == NULL else raw

    def nested(self, name: str) -> "JsonObject | None":
        """Take an object."""
        fields = self._take(name, _OPTIONAL_OBJECT)
        return None if fields is None else JsonObject(fields, self.at(name))

    def text_or_fields(self, name: str) -> "str | JsonObject | None":
        """Take a string or an object."""
        value = self._take(name, _STRING_OR_OBJECT)
        if value is None or isinstance(value, str):
            return value
        return JsonObject(value, self.at(name))

    def text_or_raws(self, name: str) -> str | list[Raw] | None:
        """Take a string or an array."""
        return self._take(name, _STRING_OR_ARRAY)

    def output(self, name: str) -> str | list[Raw] | None:
        """Take the output of a tool: a string, an array, or an object, which becomes JSON text."""
        raw = self._remaining.get(name)
        if raw is not None and bytes(raw).startswith(b"{"):
            return string_or_raw_json(self._remaining.pop(name))
        return self.text_or_raws(name)

    def array(self, name: str) -> list[Raw]:
        """Take an array."""
        return self._take(name, _ARRAY) or []

    def objects(self, name: str) -> "list[JsonObject]":
        """Take an array of objects."""
        path = self.at(name)
        objects = self._take(name, _OBJECTS) or []
        return [JsonObject(fields, f"{path}[{i}]") for i, fields in enumerate(objects)]

    def encode_with(self, **changes: object) -> bytes:
        """Return the remaining fields as JSON, with changes."""
        return _ENCODER.encode(self._remaining | changes)

    def take_all(self) -> Object:
        """Take all remaining fields, including nulls."""
        fields, self._remaining = self._remaining, {}
        return fields

    def take_remaining(self) -> Object:
        """Take all remaining fields, except nulls."""
        return {name: raw for name, raw in self.take_all().items() if raw != NULL}


class InputItem(Struct, frozen=True, gc=False):
    """An item of a request as raw JSON, with its path in the client's request."""

    raw: Raw
    path: str


class RequestBody(Struct, frozen=True):
    """A request body whose top level was decoded."""

    fields: Object
    # Replaces the field `input`, for example with the stored history before the client's items.
    items: tuple[InputItem, ...] | None = None
    # The received bytes, for passthrough; None if a field was replaced.
    raw: bytes | None = None

    @property
    def model(self) -> str | None:
        """The name of the model, if it is a string."""
        value = bytes(self.fields.get("model", NULL))
        return _STRING.decode(value) if value.startswith(b'"') else None

    def reader(self) -> JsonObject:
        """Return the fields as a `JsonObject` of its own."""
        return JsonObject(dict(self.fields))

    def encode(self, **changes: object) -> bytes:
        """Return the body as JSON, with changes of its fields."""
        if self.raw is not None and not changes:
            return self.raw
        if self.items is not None:
            changes.setdefault("input", [item.raw for item in self.items])
        return _ENCODER.encode(self.fields | changes)


def parse_body(body: bytes) -> RequestBody:
    """Decode the top level of a request body, which must be one JSON object in UTF-8."""
    return RequestBody(read_body(body).take_all(), raw=body)


def read_fields(raw: Raw, path: str = "") -> JsonObject:
    """Read a JSON object that is part of another value."""
    return JsonObject(decode(raw, _OBJECT, path), path)


def read_text_or_fields(raw: Raw, path: str) -> str | JsonObject:
    """Read a string or an object that is part of another value."""
    value = decode(raw, _STRING_OR_OBJECT, path)
    if value is None or isinstance(value, str):
        return value or ""
    return JsonObject(value, path)


def is_present(raw: Raw) -> bool:
    """Whether a field of a Struct is neither missing nor null."""
    return bool(raw) and raw != NULL


def string_or_raw_json(raw: Raw | None) -> str:
    """Return the text of a string, or any other value as unparsed JSON.

    Some servers send arguments as an object. Parsing and encoding the object could change its
    numbers (https://github.com/routatic/proxy/issues/173).
    """
    if raw is None or not is_present(raw):
        return ""
    encoded = bytes(raw)
    return _STRING.decode(encoded) if encoded.startswith(b'"') else encoded.decode()


def read_body(body: bytes) -> JsonObject:
    """Read a body, which must be one JSON object in UTF-8."""
    try:
        # The decoder does not find invalid UTF-8 in `Raw` values.
        _ = body.isascii() or body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError(None, f"the body is not UTF-8 (byte {error.start})") from None
    try:
        return JsonObject(decode(body, _OBJECT, ""))
    except InvalidRequestError:
        # JavaScript writes half a surrogate pair if it splits a string within an emoji: valid JSON,
        # but not valid text.
        text = replace_invalid_text(body)
        if text == body:
            raise
        return JsonObject(decode(text, _OBJECT, ""))


def decode(raw: bytes | Raw, decoder: Decoder[T], path: str) -> T:
    """Decode JSON; raise `InvalidRequestError` with the path if that fails."""
    try:
        return decoder.decode(raw)
    except DECODE_ERRORS as error:
        raise _decode_error(error, path) from None


def _decode_error(error: Exception, path: str) -> InvalidRequestError:
    match error:
        case ValidationError():
            return _type_error(str(error), path)
        case RecursionError():
            return _invalid(path, "is nested too deeply")
        case UnicodeDecodeError():
            return _invalid(path, "is not UTF-8")
        case _:
            # Some messages of the decoder repeat that the JSON is malformed.
            reason = str(error).removeprefix("JSON is malformed: ")
            return _invalid(path, f"is not valid JSON: {reason}")


def parse(raw: bytes | Raw, path: str = "") -> Json:
    """Parse JSON; raise `InvalidRequestError` if that fails."""
    return decode(raw, _JSON, path)


_TYPE_NAMES = {
    "array": "an array",
    "bool": "a boolean",
    "float": "a number",
    "int": "an integer",
    "object": "an object",
    "str": "a string",
}
_MISMATCH = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<given>[^`]*)`")


def _type_error(message: str, path: str) -> InvalidRequestError:
    """Return the error for a message such as "Expected `str`, got `int` - at `$[1]`"."""
    reason, _, where = message.partition(" - at `$")
    # The decoder does not name the key of a mapping.
    inner = where.rstrip("`").replace("[...]", "")
    full = f"{path}{inner}" if path else inner.lstrip(".")
    mismatch = _MISMATCH.fullmatch(reason)
    if mismatch is None:
        return _invalid(full, f"is invalid: {reason[:1].lower()}{reason[1:]}")
    expected, given = (_describe_types(types) for types in mismatch.groups())
    return _invalid(full, f"must be {expected}, not {given}")


def _describe_types(types: str) -> str:
    names = [_TYPE_NAMES.get(name, name) for name in types.split(" | ")]
    # Omit null, which is valid for every optional field.
    return " or ".join(name for name in names if name != "null" or len(names) == 1)


def _invalid(path: str, reason: str) -> InvalidRequestError:
    return InvalidRequestError(path or None, reason if path else f"the body {reason}")
