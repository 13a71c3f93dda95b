"""Reading one JSON object leniently, with exact paths, and with an eye for what is left over.

A dialect's reader takes the fields that it knows, one by one, each with the type that it expects.
Whatever nobody took is what the reader does not know: it can be carried on or reported, but it
cannot vanish unseen. `null` reads as absent.
"""

from collections.abc import Iterator
from typing import TypeVar

from msgspec import Raw, Struct, ValidationError
from msgspec.json import Decoder, Encoder

from adapters.errors import InvalidRequestError
from adapters.json_text import DECODE_ERRORS, replace_invalid_text

T = TypeVar("T")
Object = dict[str, Raw]

# JSON that is looked into and not just carried.
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

NULL = Raw(b"null")
# The default of a `Raw` field in a Struct, which cannot be `Raw | None`.
MISSING = Raw()

# Made once: a decoder compiles its type.
_ENCODER = Encoder()
_ANYTHING: Decoder[Json] = Decoder()
_OBJECT = Decoder(Object)
_MAYBE_OBJECT = Decoder(Object | None)
_OBJECTS: Decoder[list[Object] | None] = Decoder(list[Object] | None)
_TEXT: Decoder[str | None] = Decoder(str | None)
_STRING = Decoder(str)
_TEXTS = Decoder(list[str] | None)
# Lax: `1.0` and `"1"` are whole numbers to a lenient reader.
_INTEGER = Decoder(int | None, strict=False)
_NUMBER = Decoder(float | None, strict=False)
_FLAG = Decoder(bool | None)
_RAWS = Decoder(list[Raw] | None)
_TEXT_OR_OBJECT = Decoder(str | Object | None)
_TEXT_OR_RAWS = Decoder(str | list[Raw] | None)


class JsonObject:
    """The fields of one JSON object that have not been taken yet."""

    __slots__ = ("_left", "path")

    def __init__(self, left: Object, path: str = "") -> None:
        self._left = left
        self.path = path

    def at(self, name: str) -> str:
        """Give the path of one of the fields."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Tell whether the field is there and not yet taken; null is as good as absent."""
        raw = self._left.get(name)
        return raw is not None and raw != NULL

    def count(self) -> int:
        """Give the number of fields that are left. There is no truth value: `{}` is an object."""
        return len(self._left)

    def _take(self, name: str, decoder: Decoder[T]) -> T | None:
        raw = self._left.pop(name, None)
        if raw is None:
            return None
        try:
            return decoder.decode(raw)
        except DECODE_ERRORS as error:
            # The path is made only for those who need it.
            raise _explained(error, self.at(name)) from None

    def string(self, name: str) -> str | None:
        """Take a string."""
        # Most fields are strings: no detour by `_take`.
        raw = self._left.pop(name, None)
        if raw is None:
            return None
        try:
            return _TEXT.decode(raw)
        except DECODE_ERRORS as error:
            raise _explained(error, self.at(name)) from None

    def peek(self, name: str) -> str | None:
        """Look at a string without taking it."""
        raw = self._left.get(name)
        return _STRING.decode(raw) if raw is not None and bytes(raw).startswith(b'"') else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of strings."""
        return tuple(self._take(name, _TEXTS) or ())

    def integer(self, name: str) -> int | None:
        """Take a whole number; `1.0` is one."""
        return self._take(name, _INTEGER)

    def number(self, name: str) -> float | None:
        """Take a number."""
        return self._take(name, _NUMBER)

    def boolean(self, name: str) -> bool | None:
        """Take a boolean."""
        return self._take(name, _FLAG)

    def raw(self, name: str) -> Raw | None:
        """Take anything, as it was spelled."""
        raw = self._left.pop(name, None)
        return None if raw == NULL else raw

    def nested(self, name: str) -> "JsonObject | None":
        """Take an object, to be read further."""
        left = self._take(name, _MAYBE_OBJECT)
        return None if left is None else JsonObject(left, self.at(name))

    def text_or_fields(self, name: str) -> "str | JsonObject | None":
        """Take a string or an object."""
        value = self._take(name, _TEXT_OR_OBJECT)
        if value is None or isinstance(value, str):
            return value
        return JsonObject(value, self.at(name))

    def text_or_raws(self, name: str) -> str | list[Raw] | None:
        """Take a string or a list of anything."""
        return self._take(name, _TEXT_OR_RAWS)

    def output(self, name: str) -> str | list[Raw] | None:
        """Take what a tool answered: a string, a list, or an object, which is told as it is."""
        raw = self._left.get(name)
        if raw is not None and bytes(raw).startswith(b"{"):
            return string_or_raw_json(self._left.pop(name))
        return self.text_or_raws(name)

    def array(self, name: str) -> list[Raw]:
        """Take a list of anything."""
        return self._take(name, _RAWS) or []

    def objects(self, name: str) -> "list[JsonObject]":
        """Take a list of objects, to be read further."""
        path = self.at(name)
        objects = self._take(name, _OBJECTS) or []
        return [JsonObject(left, f"{path}[{i}]") for i, left in enumerate(objects)]

    def encode_with(self, **changes: object) -> bytes:
        """Give the object again as it was spelled, with some of its fields changed."""
        return _ENCODER.encode(self._left | changes)

    def take_all(self) -> Object:
        """Take all fields, nulls included."""
        left, self._left = self._left, {}
        return left

    def take_remaining(self) -> Iterator[tuple[str, Raw]]:
        """Take what is left, nulls excepted."""
        left, self._left = self._left, {}
        return ((name, raw) for name, raw in left.items() if raw != NULL)


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
    """Read one JSON object out of a larger text."""
    return JsonObject(decode(raw, _OBJECT, path), path)


def read_text_or_fields(raw: Raw, path: str) -> str | JsonObject:
    """Read a string or an object out of a larger text."""
    value = decode(raw, _TEXT_OR_OBJECT, path)
    if value is None or isinstance(value, str):
        return value or ""
    return JsonObject(value, path)


def is_present(raw: Raw) -> bool:
    """Tell whether a field of a Struct is neither absent nor null."""
    return bool(raw) and raw != NULL


def string_or_raw_json(raw: Raw | None) -> str:
    """Give a string's text, and the spelling of anything else.

    Some servers send arguments as an object; parsed and written again, its numbers could change
    (P142), so its own spelling is what counts.
    """
    if raw is None or not is_present(raw):
        return ""
    spelled = bytes(raw)
    return _STRING.decode(spelled) if spelled.startswith(b'"') else spelled.decode()


def read_body(body: bytes) -> JsonObject:
    """Read a whole body, which must be one JSON object in UTF-8."""
    try:
        # `Raw` is carried on unread, so what is not UTF-8 has to be found here.
        _ = body.isascii() or body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError(None, f"the body is not UTF-8 (byte {error.start})") from None
    try:
        return JsonObject(decode(body, _OBJECT, ""))
    except InvalidRequestError:
        # Half a character, which JavaScript writes when it cuts a string in an emoji, is legal
        # JSON and no text.
        text = replace_invalid_text(body)
        if text == body:
            raise
        return JsonObject(decode(text, _OBJECT, ""))


def decode(raw: bytes | Raw, decoder: Decoder[T], path: str) -> T:
    """Decode JSON; whatever is wrong with it becomes one error that names the path."""
    try:
        return decoder.decode(raw)
    except DECODE_ERRORS as error:
        raise _explained(error, path) from None


def _explained(error: Exception, path: str) -> InvalidRequestError:
    """Say what is wrong with some JSON, and where."""
    match error:
        case ValidationError():
            return InvalidRequestError(*_split(str(error), path))
        case RecursionError():
            return InvalidRequestError(path or None, "the JSON is nested too deeply")
        case UnicodeDecodeError():
            return InvalidRequestError(path or None, "the text is not UTF-8")
        case _:
            # The decoder begins some of its sentences with these words, and some not.
            reason = str(error).removeprefix("JSON is malformed: ")
            return InvalidRequestError(path or None, f"malformed JSON: {reason}")


def parse(raw: bytes | Raw, path: str = "") -> Json:
    """Parse JSON of any shape; whatever is wrong with it becomes one error."""
    return decode(raw, _ANYTHING, path)


def _split(message: str, path: str) -> tuple[str | None, str]:
    """Turn the decoder's "Expected `str`, got `int` - at `$[1]`" into our path and sentence."""
    reason, _, where = message.partition(" - at `$")
    inner = where.rstrip("`")
    full = f"{path}{inner}" if path else inner.lstrip(".")
    return full or None, reason[:1].lower() + reason[1:].replace("`", "")
