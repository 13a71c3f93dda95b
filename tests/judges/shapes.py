"""A small vocabulary for saying what JSON must look like, and what may go beyond that."""

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, get_args

from tests.judges.reading import JsonObject, as_list, as_object

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
NOTHING: Allowed = frozenset()
EVERYTHING: Allowed = frozenset(get_args(Allowance))

# Takes the value, where it stands, and what is allowed beyond the rules.
Check: TypeAlias = Callable[[object, str, Allowed], None]


def anything(_value: object, _at: str, _allowed: Allowed) -> None:
    """Accept any value: only the presence of the key matters."""


def null(value: object, at: str, _allowed: Allowed) -> None:
    assert value is None, f"{at}: expected null, got {value!r}"


def text(value: object, at: str, _allowed: Allowed) -> None:
    assert isinstance(value, str), f"{at}: expected a string, got {value!r}"


def flag(value: object, at: str, _allowed: Allowed) -> None:
    assert isinstance(value, bool), f"{at}: expected a boolean, got {value!r}"


def integer(value: object, at: str, _allowed: Allowed) -> None:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    assert is_integer, f"{at}: expected an integer, got {value!r}"


def number(value: object, at: str, _allowed: Allowed) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    assert is_number, f"{at}: expected a number, got {value!r}"


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


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Require an object with these fields; the specification allows others."""

    def check(value: object, at: str, allowed: Allowed) -> None:
        fields = as_object(value, at)
        absent = sorted(required.keys() - fields.keys())
        assert not absent, f"{at}: lacks {absent}"
        for name, rule in {**(optional or {}), **required}.items():
            if name in fields:
                rule(fields[name], f"{at}.{name}", allowed)

    return check


def tagged(rules: Mapping[str, Check]) -> Check:
    """Choose the rule by the object's type; an unknown type needs `other_types`."""

    def check(value: object, at: str, allowed: Allowed) -> None:
        kind = _kind(as_object(value, at), at)
        assert kind in rules or "other_types" in allowed, f"{at}: unknown type {kind!r}"
        rules.get(kind, anything)(value, at, allowed)

    return check


def _kind(fields: JsonObject, at: str) -> str:
    kind = fields.get("type")
    assert isinstance(kind, str), f"{at}: has no type: {fields!r}"
    return kind


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
