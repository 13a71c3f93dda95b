"""Lenient reading of JSON objects, with exact paths and without losing unknown fields.

The reader of a dialect takes the fields that it knows, one by one, each with its expected type. The
remaining fields are unknown: they are passed on or reported. `null` counts as absent.
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
# The default of a `Raw` field in a Struct, which cannot be `Raw | None`.
MISSING = Raw()

# Decoders are made once, because they compile their type.
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

    __slots__ = ("_left", "path")

    def __init__(self, left: Object, path: str = "") -> None:
        self._left = left
        self.path = path

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether the object has this field, which was not taken yet and is not null."""
        raw = self._left.get(name)
        return raw is not None and raw != NULL

    def count(self) -> int:
        """Return the number of remaining fields."""
        return len(self._left)

    def _take(self, name: str, decoder: Decoder[T]) -> T | None:
        raw = self._left.pop(name, None)
        if raw is None:
            return None
        try:
            return decoder.decode(raw)
        except DECODE_ERRORS as error:
            # The path is built only here, because most fields can be decoded.
            raise _decode_error(error, self.at(name)) from None

    def string(self, name: str) -> str | None:
        """Take a string."""
        return self._take(name, _OPTIONAL_STRING)

    def peek(self, name: str) -> str | None:
        """Return a string without taking it."""
        raw = self._left.get(name)
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
        """Take a value of any type, unparsed."""
        raw = self._left.pop(name, None)
        return None if raw == NULL else raw

    def nested(self, name: str) -> "JsonObject | None":
        """Take an object."""
        left = self._take(name, _OPTIONAL_OBJECT)
        return None if left is None else JsonObject(left, self.at(name))

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
        """Take the output of a tool: a string or an array; an object is returned as JSON text."""
        raw = self._left.get(name)
        if raw is not None and bytes(raw).startswith(b"{"):
            return string_or_raw_json(self._left.pop(name))
        return self.text_or_raws(name)

    def array(self, name: str) -> list[Raw]:
        """Take an array."""
        return self._take(name, _ARRAY) or []

    def objects(self, name: str) -> "list[JsonObject]":
        """Take an array of objects."""
        path = self.at(name)
        objects = self._take(name, _OBJECTS) or []
        return [JsonObject(left, f"{path}[{i}]") for i, left in enumerate(objects)]

    def encode_with(self, **changes: object) -> bytes:
        """Return the object as JSON, with some of its fields changed."""
        return _ENCODER.encode(self._left | changes)

    def take_all(self) -> Object:
        """Take all fields, nulls included."""
        left, self._left = self._left, {}
        return left

    def take_remaining(self) -> Object:
        """Take all fields that are not null."""
        return {name: raw for name, raw in self.take_all().items() if raw != NULL}


class InputItem(Struct, frozen=True, gc=False):
    """An item of a request as raw JSON, with its path in the client's own request."""

    raw: Raw
    path: str


class RequestBody(Struct, frozen=True):
    """A request body after its only top-level decode."""

    fields: Object
    # Replaces the field `input`: the gateway puts stored history before a client's own items.
    items: tuple[InputItem, ...] | None = None
    # The bytes as received, for passthrough; None once anything was replaced.
    raw: bytes | None = None

    def reader(self) -> JsonObject:
        """Return a reader of the fields; each reader takes them from a copy."""
        return JsonObject(dict(self.fields))

    def encode(self, **changes: object) -> bytes:
        """Return the body as JSON, with some of its fields changed."""
        if self.raw is not None and not changes:
            return self.raw
        if self.items is not None:
            changes.setdefault("input", [item.raw for item in self.items])
        return _ENCODER.encode(self.fields | changes)


def parse_body(body: bytes) -> RequestBody:
    """Decode a request body, which must be one JSON object in UTF-8, at its top level."""
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
    """Return the text of a string, and the unparsed JSON of any other value.

    Some servers send arguments as an object. If it were parsed and encoded again, its numbers could
    change (https://github.com/routatic/proxy/issues/173).
    """
    if raw is None or not is_present(raw):
        return ""
    encoded = bytes(raw)
    return _STRING.decode(encoded) if encoded.startswith(b'"') else encoded.decode()


def read_body(body: bytes) -> JsonObject:
    """Read a body, which must be one JSON object in UTF-8."""
    try:
        # `Raw` values are not decoded, so bytes that are not UTF-8 have to be found here.
        _ = body.isascii() or body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError(None, f"the body is not UTF-8 (byte {error.start})") from None
    try:
        return JsonObject(decode(body, _OBJECT, ""))
    except InvalidRequestError:
        # JavaScript writes half a surrogate pair when it splits a string within an emoji; this is
        # legal JSON, but not text.
        text = replace_invalid_text(body)
        if text == body:
            raise
        return JsonObject(decode(text, _OBJECT, ""))


def decode(raw: bytes | Raw, decoder: Decoder[T], path: str) -> T:
    """Decode JSON; raise `InvalidRequestError` with its path if that fails."""
    try:
        return decoder.decode(raw)
    except DECODE_ERRORS as error:
        raise _decode_error(error, path) from None


def _decode_error(error: Exception, path: str) -> InvalidRequestError:
    """Return the error for JSON that cannot be decoded."""
    match error:
        case ValidationError():
            return _type_error(str(error), path)
        case RecursionError():
            return _invalid(path, "is nested too deeply")
        case UnicodeDecodeError():
            return _invalid(path, "is not UTF-8")
        case _:
            # Only some of the decoder's messages begin with these words.
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
    """Return the error for the decoder's "Expected `str`, got `int` - at `$[1]`"."""
    reason, _, where = message.partition(" - at `$")
    inner = where.rstrip("`")
    full = f"{path}{inner}" if path else inner.lstrip(".")
    mismatch = _MISMATCH.fullmatch(reason)
    if mismatch is None:
        return _invalid(full, f"is invalid: {reason[:1].lower()}{reason[1:]}")
    expected, given = (_describe_types(types) for types in mismatch.groups())
    return _invalid(full, f"must be {expected}, not {given}")


def _describe_types(types: str) -> str:
    names = [_TYPE_NAMES.get(name, name) for name in types.split(" | ")]
    # Null is optional everywhere.
    return " or ".join(name for name in names if name != "null" or len(names) == 1)


def _invalid(path: str, reason: str) -> InvalidRequestError:
    if path:
        return InvalidRequestError(path, reason)
    return InvalidRequestError(None, f"the body {reason}")
