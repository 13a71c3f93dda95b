"""Example arguments for tools, taken from the user's question and from the tool's JSON Schema.

A value comes from the question where the parameter's name suggests it, then from the schema
(`const`, `enum`, `default`, `examples`), and otherwise is a fixed example of its type. Of `anyOf`,
`oneOf` and `allOf` only the first usable option is read; `pattern` and the like are ignored.
"""

import re
from collections.abc import Iterator
from itertools import dropwhile, groupby
from typing import cast
from urllib.parse import unquote

import msgspec
from msgspec import Struct

Schema = dict[str, object]

# Limits for schemas that refer to themselves or ask for very much.
_MAX_VALUES = 1000
_MAX_DEPTH = 6
_MAX_REFERENCES = 20
_MAX_ITEMS = 100
_MAX_TEXT_LENGTH = 1000
# Optional parameters are given only at the top level.
_MAX_OPTIONAL_PARAMETERS = 2

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
# A name does not continue over a comma, a quotation mark or the end of a sentence.
_PHRASE_END = re.compile(r"[^\w\s'\u2019-]+|\n")
_NUMBER = re.compile(r"(?<![\w.,])-?\d{1,15}(?:\.\d{1,15})?(?!\w)")


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
# Examples by the parameter's name or format. A client may run commands and code.
_EXAMPLES = {
    word: example
    for example, words in {
        "12:00:00Z": "time",
        "123e4567-e89b-12d3-a456-426614174000": "uuid",
        "2025-01-31": "date",
        "2025-01-31T12:00:00Z": "date-time",
        ".": "cwd directory workdir",
        "Ada": "name",
        "France": "country",
        "Paris": "city location",
        "README.md": "file filename path",
        "ada@example.com": "email",
        "echo hello": "cmd command script shell",
        "en": "language",
        "https://example.com": "uri url",
        "print('hello')": "code python",
        "select 1": "sql",
    }.items()
    for word in words.split()
}
# What a parameter takes, by a word in its name: an example, something that the question names, or
# the text of the question.
_KINDS = {
    word: kind
    for kind, words in {
        "example": " ".join(_EXAMPLES),
        "name": "address airport cities city companies company countries country currencies"
        " currency destination from id location name origin person place region stock symbol target"
        " ticker to town",
        "text": "answer body content description input message prompt q query question reason"
        " search summary task text title topic",
    }.items()
    for word in words.split()
}


class Question(Struct):
    """The user's text, with the names and numbers in it that are not used yet."""

    text: str
    names: list[str]
    numbers: list[int | float]

    def copy(self, names: list[str]) -> "Question":
        """Return the question with some of its names."""
        return Question(self.text, list(names), list(self.numbers))


def read_question(text: str) -> Question:
    """Find the names and numbers in a text, each name once."""
    names = dict.fromkeys(name for phrase in _PHRASE_END.split(text) for name in _names_in(phrase))
    numbers = [float(one) if "." in one else int(one) for one in _NUMBER.findall(text)]
    return Question(text.strip(), list(names), numbers)


def _names_in(phrase: str) -> Iterator[str]:
    """Yield the names in a phrase; capitalized words in a row are one name (New York)."""
    for capitalized, words in groupby(phrase.split(), lambda word: word[0].isupper()):
        kept = dropwhile(lambda word: word.lower().replace("\u2019", "'") in _NOT_NAMES, words)
        name = " ".join(kept)
        if capitalized and name:
            yield name


def split_words(name: str) -> list[str]:
    """Split `get_weather`, `getWeather` and `get-weather` into lower-case words."""
    return [word.lower() for word in _WORD.findall(name)]


def parameter_kind(name: str) -> str | None:
    """Return what a parameter takes, by the last known word of its name."""
    forms = (form for word in _last_first(name) for form in (word, word.removesuffix("s")))
    return next((_KINDS[form] for form in forms if form in _KINDS), None)


def example_text(name: str) -> str | None:
    """Return an example for a parameter or tool of this name."""
    return next((_EXAMPLES[word] for word in _last_first(name) if word in _EXAMPLES), None)


def _last_first(name: str) -> list[str]:
    """Return the words of a name, the last first, but `name` itself after all others."""
    words = split_words(name)[::-1]
    return sorted(words, key="name".__eq__)


def arguments_for(schema: Schema, question: Question) -> str:
    """Return the arguments of a call as the JSON text of an object."""
    return msgspec.json.encode(_as_schema(value_for(schema, question))).decode()


def value_for(schema: Schema, question: Question) -> object:
    """Return a value for a schema; without a schema, an empty object."""
    return _Generator(schema, question.copy(question.names)).value("", schema) if schema else {}


def questions_per_call(schema: Schema, question: Question) -> list[Question]:
    """Return one question per name if a call takes exactly one name, otherwise one for all.

    A name that is a listed value of a parameter (Fahrenheit) does not count.
    """
    properties = _as_schema(_resolve(schema, schema).get("properties"))
    parameters = [(name, _as_schema(parameter)) for name, parameter in properties.items()]
    listed = {str(value).lower() for _, one in parameters for value in _list(one, "enum")}
    names = [name for name in question.names if name.lower() not in listed]
    takers = [_type_of(one) for name, one in parameters if parameter_kind(name) == "name"]
    if len(takers) != 1 or takers == ["array"] or not names:
        return [question.copy(names)]
    return [question.copy([name]) for name in names]


class _Generator(Struct):
    """Generates one value; each name and number of the question is used once."""

    root: Schema
    question: Question
    remaining_values: int = _MAX_VALUES

    def value(self, name: str, schema: object, depth: int = 0) -> object:
        """Return a value for a parameter with this name and schema."""
        self.remaining_values -= 1
        if self.remaining_values < 0 or depth > _MAX_DEPTH:
            return None
        resolved = _resolve(schema, self.root)
        listed = [resolved["const"]] if "const" in resolved else _list(resolved, "enum")
        if listed:
            return self._listed(listed, resolved.get("default"))
        type_name, given = _type_of(resolved), _given_value(resolved)
        # The question has better texts than the schema, but not better values of other types.
        if given is not None and type_name != "string":
            return given
        return self._typed(type_name, name, resolved, depth)

    def _listed(self, values: list[object], default: object) -> object:
        """Return the value that the question mentions, the default, or the first."""
        text = self.question.text.lower()
        mentioned = (one for one in values if isinstance(one, str) and one and one.lower() in text)
        usable = (one for one in (default, *values) if one is not None and one in values)
        return next(mentioned, next(usable, None))

    def _typed(self, type_name: str, name: str, schema: Schema, depth: int) -> object:
        match type_name:
            case "string":
                text = self._text(name, schema)
                length = int(_clamp(len(text), schema, "minLength", "maxLength"))
                return text.ljust(min(length, _MAX_TEXT_LENGTH), ".")[: max(length, 0)]
            case "object":
                return self._object(schema, depth)
            case "array":
                wanted = len(self.question.names) if parameter_kind(name) == "name" else 1
                count = int(_clamp(max(wanted, 1), schema, "minItems", "maxItems"))
                items = [schema.get("items")] * min(count, _MAX_ITEMS)
                return [self.value(name, item, depth + 1) for item in items]
            case "integer" | "number":
                number = self.question.numbers.pop(0) if self.question.numbers else 1
                number = _clamp(number, schema, "minimum", "maximum")
                return int(number) if type_name == "integer" else number
            case _:
                return True if type_name == "boolean" else None

    def _text(self, name: str, schema: Schema) -> str:
        example = _EXAMPLES.get(str(schema.get("format")))
        kind = parameter_kind(name) if example is None else None
        if kind == "name" and self.question.names:
            return self.question.names.pop(0)
        if kind == "text" and self.question.text:
            return self.question.text
        given = _given_value(schema)
        return given if isinstance(given, str) else example or example_text(name) or "example"

    def _object(self, schema: Schema, depth: int) -> Schema:
        """Return the required parameters and, at the top level, optional ones with known values."""
        properties = _as_schema(schema.get("properties"))
        required = [name for name in _list(schema, "required") if isinstance(name, str)]
        optional = [name for name in properties if name not in required and depth == 0]
        known = [name for name in optional if self._has_known_value(name, properties[name])]
        known = known or ([] if required else optional)
        chosen = {*required, *known[:_MAX_OPTIONAL_PARAMETERS]}
        names = [name for name in dict.fromkeys((*properties, *required)) if name in chosen]
        left = max(self.remaining_values, 0)
        return {name: self.value(name, properties.get(name), depth + 1) for name in names[:left]}

    def _has_known_value(self, name: str, schema: object) -> bool:
        resolved = _resolve(schema, self.root)
        listed = bool(_list(resolved, "enum")) or _given_value(resolved) is not None
        return listed or parameter_kind(name) in ("name", "text")


def _resolve(schema: object, root: Schema) -> Schema:
    """Return a schema with its local references followed and its first option chosen."""
    for _ in range(_MAX_REFERENCES):
        resolved = _as_schema(schema)
        key = next((one for one in ("$ref", "anyOf", "oneOf", "allOf") if one in resolved), None)
        if key is None:
            return resolved
        options = [_find(str(resolved[key]), root)] if key == "$ref" else _list(resolved, key)
        usable = [one for one in map(_as_schema, options) if one.get("type") != "null"]
        rest = {name: value for name, value in resolved.items() if name != key}
        schema = {**usable[0], **rest} if usable else rest
    return {}


def _find(reference: str, root: Schema) -> object:
    """Follow a reference within the document; others lead nowhere."""
    found: object = root if reference.startswith("#") else None
    for step in unquote(reference).split("/")[1:]:
        found = _as_schema(found).get(step.replace("~1", "/").replace("~0", "~"))
    return found


def _type_of(schema: Schema) -> str:
    """Return the first type other than null; guess it if the schema names none."""
    named = schema.get("type")
    types = _list(schema, "type") or ([] if named is None else [named])
    if types:
        return next((one for one in types if isinstance(one, str) and one != "null"), "null")
    if schema.keys() & {"properties", "required"}:
        return "object"
    return "array" if "items" in schema else "string"


def _given_value(schema: Schema) -> object:
    """Return the value that the schema itself gives, or None."""
    values = (schema.get("default"), *_list(schema, "examples"), schema.get("example"))
    return next((value for value in values if value is not None), None)


def _clamp(number: float, schema: Schema, low_key: str, high_key: str) -> int | float:
    low, high = schema.get(low_key), schema.get(high_key)
    number = max(number, low) if isinstance(low, int | float) else number
    return min(number, high) if isinstance(high, int | float) else number


def _as_schema(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, dict) else {}


def _list(schema: Schema, key: str) -> list[object]:
    value = schema.get(key)
    return cast("list[object]", value) if isinstance(value, list) else []
