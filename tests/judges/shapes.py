"""A small vocabulary for saying what JSON must look like, and what may go beyond that."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType
from typing import Literal, TypeAlias, get_args

from tests.judges.reading import as_list, as_object

# Parts of OpenAI's Responses API that Open Responses lacks. A check allows those that it is given,
# and is strict by default.
Allowance: TypeAlias = Literal[
    "custom_tools",  # custom tools, their calls, outputs, events and tool_choice
    "reasoning_text",  # response.reasoning_text.*, which Open Responses calls response.reasoning.*
    "json_schema",  # the echo of a schema: the generated validator takes nothing but null
    "efforts",  # reasoning efforts minimal and max
    "citations",  # annotations other than url_citation
    "long_names",  # function names of 65 to 128 characters
    "other_types",  # every other item, tool, choice and event type of OpenAI
]
Allowed: TypeAlias = frozenset[Allowance]
EVERYTHING: Allowed = frozenset(get_args(Allowance))

# Takes the value, where it stands, and what is allowed beyond the rules.
Check: TypeAlias = Callable[[object, str, Allowed], None]


def anything(_value: object, _at: str, _allowed: Allowed) -> None:
    """Accept any value: only the presence of the key matters."""


def _of_type(what: str, *types: type) -> Check:
    def check(value: object, at: str, _allowed: Allowed) -> None:
        # A bool is an int to Python, never to JSON.
        assert type(value) in types, f"{at}: expected {what}, got {value!r}"

    return check


null = _of_type("null", NoneType)
text = _of_type("a string", str)
flag = _of_type("a boolean", bool)
integer = _of_type("an integer", int)
number = _of_type("a number", int, float)


def matching(pattern: str, what: str) -> Check:
    compiled = re.compile(pattern)

    def check(value: object, at: str, _allowed: Allowed) -> None:
        is_match = isinstance(value, str) and compiled.fullmatch(value)
        assert is_match, f"{at}: expected {what}, got {value!r}"

    return check


def word(*words: str) -> Check:
    def check(value: object, at: str, _allowed: Allowed) -> None:
        assert value in words, f"{at}: expected one of {words}, got {value!r}"

    return check


def nullable(rule: Check) -> Check:
    def check(value: object, at: str, allowed: Allowed) -> None:
        if value is not None:
            rule(value, at, allowed)

    return check


def array(rule: Check) -> Check:
    def check(value: object, at: str, allowed: Allowed) -> None:
        for index, element in enumerate(as_list(value, at)):
            rule(element, f"{at}[{index}]", allowed)

    return check


def record(optional: Mapping[str, Check] = MappingProxyType({}), /, **required: Check) -> Check:
    """Require an object with these fields; the specification allows others."""
    rules = {**optional, **required}

    def check(value: object, at: str, allowed: Allowed) -> None:
        fields = as_object(value, at)
        absent = sorted(required.keys() - fields.keys())
        assert not absent, f"{at}: lacks {absent}"
        for name, rule in rules.items():
            if name in fields:
                rule(fields[name], f"{at}.{name}", allowed)

    return check


def tagged(**rules: Check) -> Check:
    """Choose the rule by the object's type; an unknown type needs `other_types`."""

    def check(value: object, at: str, allowed: Allowed) -> None:
        kind = as_object(value, at).get("type")
        assert isinstance(kind, str), f"{at}: has no type: {value!r}"
        assert kind in rules or "other_types" in allowed, f"{at}: unknown type {kind!r}"
        rules.get(kind, anything)(value, at, allowed)

    return check


def beyond(allowance: Allowance, rule: Check) -> Check:
    """Apply a rule that goes beyond the specification, where that is allowed."""

    def check(value: object, at: str, allowed: Allowed) -> None:
        assert allowance in allowed, f"{at}: {value!r} needs the allowance {allowance!r}"
        rule(value, at, allowed)

    return check


def either(rule: Check, allowance: Allowance, wider: Check) -> Check:
    """Apply the specification's rule, or a wider one where that is allowed."""

    def check(value: object, at: str, allowed: Allowed) -> None:
        (wider if allowance in allowed else rule)(value, at, allowed)

    return check
