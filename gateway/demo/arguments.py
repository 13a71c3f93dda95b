"""Plausible values for JSON Schemas: what a model might say when it calls a tool.

The user's own words are used where they fit, then what the schema itself offers (`default`,
`examples`), then something made up. Whatever the schema is, the value is made in bounded time.
"""

from collections import deque
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from adapters.errors import InvalidRequestError
from adapters.wire.json_object import Json, parse
from gateway.demo.question import Question
from gateway.demo.schemas import (
    Plain,
    Resolver,
    Schema,
    allowed_choices,
    leads_back,
    listed,
    types_of,
)
from gateway.demo.values import format_example, limits, number_for, shortened, text_for
from gateway.demo.words import example_for, kind_of

# How many parameters are given that need not be, and how far down.
_OPTIONAL = 2
_OPTIONAL_DEPTH = 2
# From here on the simplest options are chosen, and lists stay as short as they may.
_DEEP = 4
_DEEPEST = 24
# How many values one call may hold; schemas that refer to themselves have no end otherwise.
_VALUES = 1000
_LONGEST_LIST = 100


def arguments_for(schema: Raw | None, question: Question) -> str:
    """Make the arguments of a call, as JSON text; they are always an object."""
    value = value_for(schema, question)
    return msgspec.json.encode(value if isinstance(value, dict) else {}).decode()


def value_for(schema: Raw | None, question: Question) -> Json:
    """Make a value for a schema; without a schema, an empty object."""
    root = _parsed(schema)
    return Maker(root, question).make() if root else {}


class Slots(Struct, frozen=True):
    """What a tool's parameters tell before they are filled."""

    # A call is about one thing, so that another thing needs another call.
    one_subject: bool
    # Words that are values of a parameter, and so name nothing: Fahrenheit.
    listed: frozenset[str]


def read_slots(schema: Raw | None) -> Slots:
    """Look at the parameters of a tool."""
    root = _parsed(schema)
    said = Resolver(root).plain(root, frozenset()).schema.get("properties")
    properties = said if isinstance(said, dict) else {}
    slots = [one for name, one in properties.items() if kind_of(name) == "subject"]
    choices = [one for one in properties.values() if isinstance(one, dict)]
    values = (value for one in choices for value in listed(one, "enum"))
    return Slots(
        one_subject=len(slots) == 1 and not _is_list(slots[0]),
        listed=frozenset(value.lower() for value in values if isinstance(value, str)),
    )


def _parsed(schema: Raw | None) -> Schema:
    """Parse a schema; what is none, or cannot be parsed, asks for nothing."""
    try:
        root = None if schema is None else parse(schema)
    except InvalidRequestError:
        # A number out of range, or nested too deeply.
        return {}
    return root if isinstance(root, dict) else {}


def _is_list(schema: Json) -> bool:
    return isinstance(schema, dict) and "array" in types_of(schema)


class Maker:
    """Makes one value; each thing that the user named is used once."""

    def __init__(self, root: Json, question: Question) -> None:
        self._root = root
        self._resolver = Resolver(root)
        self._question = question
        self._words = question.text.lower()
        self._subjects = deque(question.subjects)
        self._numbers = deque(question.numbers)
        self._left = _VALUES

    def make(self) -> Json:
        """Make the value of the whole schema."""
        return self._value("", self._root, frozenset(("#",)), 0)

    def _value(self, name: str, schema: Json, inside: frozenset[str], depth: int) -> Json:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST or schema is False:
            return None
        found = self._resolver.plain(schema, inside, deep=depth >= _DEEP)
        plain = found.schema
        if "const" in plain:
            return plain["const"]
        if listed(plain, "enum"):
            return self._choice(plain)
        kind = next((one for one in types_of(plain) if one != "null"), "null")
        return self._of_kind(kind, name, found, depth)

    def _of_kind(self, kind: str, name: str, found: Plain, depth: int) -> Json:
        plain = found.schema
        match kind:
            case "object":
                return self._object(found, depth)
            case "array":
                return self._array(name, found, depth)
            case "integer" | "number":
                return number_for(plain, self._number_candidates(plain), whole=kind == "integer")
            case "boolean":
                return next((one for one in _offered(plain) if isinstance(one, bool)), True)
            case "null":
                return None
            case _:
                return text_for(plain, self._text_candidates(name, plain))

    def _choice(self, plain: Schema) -> Json:
        """Choose among listed values: one that the user said, the default, the first."""
        values = allowed_choices(plain)
        said = [value for value in values if isinstance(value, str) and value]
        for value in said:
            if value.lower() in self._words:
                return value
        default = plain.get("default")
        if "default" in plain and default in values:
            return default
        return next((value for value in values if value is not None), None)

    # Texts and numbers

    def _text_candidates(self, name: str, plain: Schema) -> Iterator[Json]:
        """Give what the text might be, the most fitting first."""
        known = format_example(plain)
        if known is not None:
            yield from (*_offered(plain), known)
            return
        kind = kind_of(name)
        if kind == "subject" and self._subjects:
            yield self._subjects.popleft()
        elif kind == "query" and self._question.text:
            yield shortened(self._question.text, plain)
        yield from _offered(plain)
        yield example_for(name)
        yield from self._question.subjects

    def _number_candidates(self, plain: Schema) -> Iterator[Json]:
        yield from _offered(plain)
        if self._numbers:
            yield self._numbers.popleft()

    # Lists

    def _array(self, name: str, found: Plain, depth: int) -> Json:
        plain = found.schema
        least, most = limits(plain, "minItems", "maxItems", _LONGEST_LIST)
        for offered in _offered(plain):
            if isinstance(offered, list) and offered and least <= len(offered) <= most:
                return offered
        first, items = listed(plain, "prefixItems"), plain.get("items", {})
        if isinstance(items, list):
            # So tuples were described before there was `prefixItems`.
            first, items = items, plain.get("additionalItems", {})
        values = [self._value(name, one, found.inside, depth + 1) for one in first[:most]]
        count = self._count(name, found, depth)
        if items is not False:
            while len(values) < count:
                values.append(self._value(name, items, found.inside, depth + 1))
        return _distinct(values, items) if plain.get("uniqueItems") is True else values

    def _count(self, name: str, found: Plain, depth: int) -> int:
        """Decide how many elements to make: one, or one for each thing that the user named."""
        least, most = limits(found.schema, "minItems", "maxItems", _LONGEST_LIST)
        if depth >= _DEEP or leads_back(found.schema, found.inside):
            return least
        wanted = len(self._subjects) if kind_of(name) == "subject" else 1
        return min(max(least, wanted, 1), most)

    # Objects

    def _object(self, found: Plain, depth: int) -> Json:
        plain = found.schema
        for offered in _offered(plain):
            if isinstance(offered, dict) and offered and not {*_required(plain)} - offered.keys():
                return offered
        properties = plain.get("properties")
        known = properties if isinstance(properties, dict) else {}
        others = plain.get("additionalProperties", {})
        names = self._names(plain, known, found.inside, depth)
        made: dict[str, Json] = {
            name: self._value(name, known.get(name, others), found.inside, depth + 1)
            for name in names
        }
        self._fill(made, found, depth)
        return made

    def _names(
        self, plain: Schema, known: dict[str, Json], inside: frozenset[str], depth: int
    ) -> list[str]:
        """Choose the properties: all that are required and a few that are not, in their order."""
        required = _required(plain)
        others = [name for name, one in known.items() if name not in required and one is not False]
        useful = [name for name in others if self._is_useful(name, known[name], inside)]
        # A schema that requires nothing would else be called with nothing.
        wanted = (useful or ([] if required else others))[:_OPTIONAL]
        if depth >= _OPTIONAL_DEPTH:
            wanted = []
        least, most = limits(plain, "minProperties", "maxProperties", _VALUES)
        count = max(min(len(wanted), most - len(required)), least - len(required), 0)
        # The rest only where there must be so many.
        ranked = [*wanted, *(name for name in others if name not in wanted)]
        chosen = _with_dependents({*required, *ranked[:count]}, plain)
        return [
            name for name in dict.fromkeys((*known, *required, *sorted(chosen))) if name in chosen
        ]

    def _is_useful(self, name: str, schema: Json, inside: frozenset[str]) -> bool:
        """Tell whether something better than a guess can be said for a property."""
        if not isinstance(schema, dict) or leads_back(schema, inside):
            return False
        told = kind_of(name) in ("subject", "query") or bool(listed(schema, "enum"))
        return told or any(True for _ in _offered(schema))

    def _fill(self, made: dict[str, Json], found: Plain, depth: int) -> None:
        """Add properties that nobody named, where there must be so many."""
        least, _ = limits(found.schema, "minProperties", "maxProperties", _LONGEST_LIST)
        others = found.schema.get("additionalProperties", True)
        while len(made) < least and others is not False:
            name = f"key{len(made) + 1}"
            made[name] = self._value(name, others, found.inside, depth + 1)


def _required(plain: Schema) -> list[str]:
    return [name for name in listed(plain, "required") if isinstance(name, str)]


def _with_dependents(names: set[str], plain: Schema) -> set[str]:
    """Add the properties that others need beside them."""
    said = plain.get("dependentRequired")
    needs = said if isinstance(said, dict) else {}
    todo = list(names)
    while todo:
        new = {one for one in listed(needs, todo.pop()) if isinstance(one, str)} - names
        names = names | new
        todo += new
    return names


def _offered(plain: Schema) -> Iterator[Json]:
    """Give the values that the schema itself offers."""
    if "default" in plain:
        yield plain["default"]
    yield from listed(plain, "examples")
    if "example" in plain:
        yield plain["example"]


def _distinct(values: list[Json], items: Json) -> list[Json]:
    """Make every element differ from the others, as far as that is easy."""
    listed_values = listed(items, "enum") if isinstance(items, dict) else []
    if listed_values:
        return listed_values[: len(values)]
    made: list[Json] = []
    for value in values:
        made.append(_varied(value, made))
    return made


def _varied(value: Json, others: list[Json]) -> Json:
    """Vary a value until nobody has it; of as many variations as there are others, one is free."""
    variations = (_variation(value, number) for number in range(len(others) + 1))
    return next((one for one in variations if one not in others), value)


def _variation(value: Json, number: int) -> Json:
    match value:
        case bool():
            return value != (number % 2 == 1)
        case int() | float():
            return value + number
        case str() if number:
            return f"{value} {number + 1}"
        case _:
            return value
