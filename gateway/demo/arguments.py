"""Example arguments for tools, taken from the user's question and from the tool's JSON Schema.

A value comes from the question where the parameter's name suggests it, then from the schema
(`const`, `enum`, `default`, `examples`), and otherwise is a fixed example of its type. Of `anyOf`,
`oneOf` and `allOf` only the first usable option is read; `pattern` and the like are ignored.
"""

import re
from collections import deque
from collections.abc import Iterator
from itertools import dropwhile, groupby
from typing import Literal, TypeGuard
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.errors import InvalidRequestError
from adapters.wire.json_object import Json, parse

Schema = dict[str, Json]
ParameterKind = Literal["name", "text", "example"]

# Limits for schemas that refer to themselves or ask for very much.
_MAX_VALUES = 1000
_MAX_DEPTH = 6
_MAX_REFERENCES = 20
_MAX_ITEMS = 100
_MAX_TEXT_LENGTH = 1000
# Optional parameters are given only at the top level.
_MAX_OPTIONAL_PARAMETERS = 2
_MAX_DIGITS = 15

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
# A name does not continue over a comma, a quotation mark or the end of a sentence.
_PHRASE_END = re.compile(r"[^\w\s'\u2019-]+|\n")
_NUMBER = re.compile(r"(?<![\w.,])-?\d+(?:\.\d+)?(?!\w)")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# Capitalized words that name nothing, mostly because a sentence begins with them.
_NOT_NAMES = word_set(
    "a add an and are book can celsius check compare convert could do does fahrenheit find for get"
    " give hello hey hi how i i'd i'm if in is it list make monday my of on please run say search"
    " send set should show sunday tell thanks that the this to translate use was we weather what"
    " what's when where which who why will with would write you your"
)
# Parameters that take something the user named, and those that take the user's own text.
_NAME_PARAMETERS = word_set(
    "address airport city company country currency destination from id location name origin person"
    " place region stock symbol target ticker to town"
)
_TEXT_PARAMETERS = word_set(
    "answer body content description input message prompt q query question reason search summary"
    " task text title topic"
)
# Examples for other names. Commands and code are harmless, because a client may run them.
_EXAMPLES = {
    "city": "Paris",
    "cmd": "echo hello",
    "code": "print('hello')",
    "command": "echo hello",
    "country": "France",
    "cwd": ".",
    "date": "2025-01-31",
    "directory": ".",
    "email": "ada@example.com",
    "file": "README.md",
    "filename": "README.md",
    "language": "en",
    "location": "Paris",
    "name": "Ada",
    "path": "README.md",
    "python": "print('hello')",
    "script": "echo hello",
    "shell": "echo hello",
    "sql": "select 1",
    "time": "12:00",
    "url": "https://example.com",
    "workdir": ".",
}
_FORMAT_EXAMPLES = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "email": "ada@example.com",
    "time": "12:00:00Z",
    "uri": "https://example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}


class Question(Struct, frozen=True):
    """The user's text, with the names and numbers in it."""

    text: str = ""
    names: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()


def read_question(text: str) -> Question:
    """Find the names and numbers in a text, each name once."""
    names = dict.fromkeys(name for phrase in _PHRASE_END.split(text) for name in _names_in(phrase))
    numbers = (found for found in _NUMBER.findall(text) if len(found) <= _MAX_DIGITS)
    return Question(text.strip(), tuple(names), tuple(map(_read_number, numbers)))


def _names_in(phrase: str) -> Iterator[str]:
    """Yield the names in a phrase; capitalized words in a row are one name (New York)."""
    for capitalized, words in groupby(phrase.split(), lambda word: word[0].isupper()):
        name = " ".join(dropwhile(_is_no_name, words))
        if capitalized and name:
            yield name


def _is_no_name(word: str) -> bool:
    return word.lower().replace("\u2019", "'") in _NOT_NAMES


def _read_number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def split_words(name: str) -> list[str]:
    """Split `get_weather`, `getWeather` and `get-weather` into lower-case words."""
    return [word.lower() for word in _WORD.findall(name)]


def parameter_kind(name: str) -> ParameterKind | None:
    """Return what a parameter takes, by the last known word of its name."""
    for word in _words_by_weight(name):
        singular = word[:-3] + "y" if word.endswith("ies") else word.removesuffix("s")
        if word in _NAME_PARAMETERS or singular in _NAME_PARAMETERS:
            return "name"
        if word in _TEXT_PARAMETERS:
            return "text"
        if word in _EXAMPLES:
            return "example"
    return None


def example_text(name: str) -> str | None:
    """Return an example for a parameter or tool of this name."""
    return next((_EXAMPLES[word] for word in _words_by_weight(name) if word in _EXAMPLES), None)


def _words_by_weight(name: str) -> list[str]:
    """Return the words of a name, the last first, but `name` itself after all others."""
    words = split_words(name)[::-1]
    return sorted(words, key=lambda word: word == "name")


def arguments_for(schema: Raw | None, question: Question) -> str:
    """Return the arguments of a call as the JSON text of an object."""
    value = value_for(schema, question)
    return msgspec.json.encode(value if isinstance(value, dict) else {}).decode()


def value_for(schema: Raw | None, question: Question) -> Json:
    """Return a value for a schema; without a schema, an empty object."""
    root = _parse_schema(schema)
    return _Generator(root, question).value("", root) if root else {}


def questions_per_call(schema: Raw | None, question: Question) -> list[Question]:
    """Return one question per name if a call takes exactly one name, otherwise one for all.

    A name that is a listed value of a parameter (Fahrenheit) does not count.
    """
    root = _parse_schema(schema)
    properties = _properties(_resolve(root, root))
    listed = {
        value.lower()
        for parameter in properties.values()
        for value in _list(_as_schema(parameter), "enum")
        if isinstance(value, str)
    }
    names = tuple(name for name in question.names if name.lower() not in listed)
    takers = [schema for name, schema in properties.items() if parameter_kind(name) == "name"]
    if len(takers) != 1 or _type_of(_as_schema(takers[0])) == "array" or not names:
        return [replace(question, names=names)]
    return [replace(question, names=(name,)) for name in names]


class _Generator:
    """Generates one value; each name and number of the question is used once."""

    def __init__(self, root: Schema, question: Question) -> None:
        self._root = root
        self._text = question.text
        self._names = deque(question.names)
        self._numbers = deque(question.numbers)
        self._remaining_values = _MAX_VALUES

    def value(self, name: str, schema: Json, depth: int = 0) -> Json:
        """Return a value for a parameter with this name and schema."""
        self._remaining_values -= 1
        if self._remaining_values < 0 or depth > _MAX_DEPTH:
            return None
        resolved = _resolve(schema, self._root)
        if "const" in resolved:
            return resolved["const"]
        if enum := _list(resolved, "enum"):
            return self._enum_value(enum, resolved.get("default"))
        type_name, given = _type_of(resolved), _given_value(resolved)
        # The question has better texts than the schema, but not better values of other types.
        if given is not None and type_name != "string":
            return given
        return self._typed_value(type_name, name, resolved, depth)

    def _typed_value(self, type_name: str, name: str, schema: Schema, depth: int) -> Json:
        match type_name:
            case "string":
                return self._string(name, schema)
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(name, schema, depth)
            case "integer" | "number":
                number = self._numbers.popleft() if self._numbers else 1
                number = _clamp(number, schema, "minimum", "maximum")
                return int(number) if type_name == "integer" else number
            case "boolean":
                return True
            case _:
                return None

    def _enum_value(self, values: list[Json], default: Json) -> Json:
        """Return the value that the question mentions, the default, or the first."""
        text = self._text.lower()
        mentioned = (one for one in values if isinstance(one, str) and one and one.lower() in text)
        usable = (one for one in values if one is not None)
        fallback = default if default is not None and default in values else next(usable, None)
        return next(mentioned, fallback)

    def _string(self, name: str, schema: Schema) -> str:
        text = self._text_for(name, schema)
        length = _clamp(len(text), schema, "minLength", "maxLength")
        length = max(0, min(int(length), _MAX_TEXT_LENGTH))
        return text.ljust(length, ".")[:length]

    def _text_for(self, name: str, schema: Schema) -> str:
        given, text_format = _given_value(schema), schema.get("format")
        known = _FORMAT_EXAMPLES.get(text_format) if isinstance(text_format, str) else None
        if known is None:
            match parameter_kind(name):
                case "name" if self._names:
                    return self._names.popleft()
                case "text" if self._text:
                    return self._text
                case _:
                    known = example_text(name) or "example"
        return given if isinstance(given, str) else known

    def _array(self, name: str, schema: Schema, depth: int) -> list[Json]:
        """Return one element, or one for each name if the list takes names."""
        wanted = len(self._names) if parameter_kind(name) == "name" else 1
        count = int(_clamp(max(wanted, 1), schema, "minItems", "maxItems"))
        items = schema.get("items", {})
        return [self.value(name, items, depth + 1) for _ in range(min(count, _MAX_ITEMS))]

    def _object(self, schema: Schema, depth: int) -> dict[str, Json]:
        properties = _properties(schema)
        required = [name for name in _list(schema, "required") if isinstance(name, str)]
        chosen = {*required, *(self._optional(properties, required) if depth == 0 else ())}
        names = [name for name in dict.fromkeys((*properties, *required)) if name in chosen]
        return {
            name: self.value(name, properties.get(name, {}), depth + 1)
            for name in names[: max(self._remaining_values, 0)]
        }

    def _optional(self, properties: Schema, required: list[str]) -> list[str]:
        """Choose optional parameters: those with a known value, or any if nothing is required."""
        optional = [name for name in properties if name not in required]
        known = [name for name in optional if self._has_known_value(name, properties[name])]
        return (known or ([] if required else optional))[:_MAX_OPTIONAL_PARAMETERS]

    def _has_known_value(self, name: str, schema: Json) -> bool:
        resolved = _resolve(schema, self._root)
        listed = bool(_list(resolved, "enum")) or _given_value(resolved) is not None
        return listed or parameter_kind(name) in ("name", "text")


def _parse_schema(schema: Raw | None) -> Schema:
    """Parse a schema; anything but an object counts as an empty schema."""
    try:
        return {} if schema is None else _as_schema(parse(schema))
    except InvalidRequestError:
        # A number out of range, or too many nested levels.
        return {}


def _resolve(schema: Json, root: Schema) -> Schema:
    """Return a schema with its local references followed and its first option chosen."""
    for _ in range(_MAX_REFERENCES):
        resolved = _as_schema(schema)
        key = next((one for one in ("$ref", "anyOf", "oneOf", "allOf") if one in resolved), None)
        if key is None:
            return resolved
        target = _find(resolved[key], root) if key == "$ref" else _first_option(resolved, key)
        siblings = {name: value for name, value in resolved.items() if name != key}
        schema = {**target, **siblings}
    return {}


def _find(reference: Json, root: Schema) -> Schema:
    """Follow a reference within the document; others lead to an empty schema."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    found: Json = root
    for step in unquote(reference).split("/")[1:]:
        found = _as_schema(found).get(step.replace("~1", "/").replace("~0", "~"))
    return _as_schema(found)


def _first_option(schema: Schema, key: str) -> Schema:
    """Return the first option that is not null."""
    for option in map(_as_schema, _list(schema, key)):
        if option.get("type") != "null":
            return option
    return {}


def _type_of(schema: Schema) -> str:
    """Return the first type other than null; guess it if the schema names none."""
    named = schema.get("type")
    types = [one for one in (named if isinstance(named, list) else [named]) if one is not None]
    if types:
        return next((one for one in types if isinstance(one, str) and one != "null"), "null")
    if schema.keys() & {"properties", "required"}:
        return "object"
    return "array" if "items" in schema else "string"


def _given_value(schema: Schema) -> Json:
    """Return the value that the schema itself gives, or None."""
    values = (schema.get("default"), *_list(schema, "examples"), schema.get("example"))
    return next((value for value in values if value is not None), None)


def _clamp(number: float, schema: Schema, low_key: str, high_key: str) -> int | float:
    low, high = schema.get(low_key), schema.get(high_key)
    number = max(number, low) if _is_number(low) else number
    return min(number, high) if _is_number(high) else number


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _properties(schema: Schema) -> Schema:
    return _as_schema(schema.get("properties"))


def _as_schema(value: Json) -> Schema:
    return value if isinstance(value, dict) else {}


def _list(schema: Schema, key: str) -> list[Json]:
    value = schema.get(key)
    return value if isinstance(value, list) else []
