"""Values of the openai package's types with many fields at once, and lists of several elements.

`Walk` has one field of interest in each value; these values show what fields do to each other.
"""

from collections.abc import Collection
from random import Random
from typing import Literal, cast, get_args, get_origin

from adapters.conformance import Json, Object
from tests.judges.walk import fields_of, is_object, members, required_fields

_MAX_ELEMENTS = 3


class RandomValues:
    """Makes values; all strings and numbers in them are different."""

    def __init__(self, seed: int, apart: Collection[str] = ()) -> None:
        self._random = Random(seed)  # noqa: S311 - deterministic values
        # The probability of each field that is not required.
        self._share = self._random.choice((0.2, 0.4, 0.7))
        # The names of fields, and of classes with a field, that are left out.
        self._apart = apart
        self._count = 0

    def number(self) -> int:
        """Return the next number."""
        self._count += 1
        return self._count

    def make(self, owner: type, inside: tuple[object, ...] = ()) -> Object:
        """Return an object with its required fields and some others."""
        made: Object = {}
        for name, hint in fields_of(owner).items():
            is_required = name in required_fields(owner)
            is_left_out = name in self._apart or f"{owner.__name__}.{name}" in self._apart
            if is_required or (not is_left_out and self._random.random() < self._share):
                made[name] = self._value(hint, (*inside, owner))
        return made

    def _value(self, hint: object, inside: tuple[object, ...]) -> Json:
        known = members(hint)
        member = self._random.choice([one for one in known if one not in inside] or known)
        arguments = get_args(member)
        if is_object(member):
            return self.make(cast("type", member), inside)
        if get_origin(member) is Literal:
            word: Json = self._random.choice(arguments)
            return word
        if get_origin(member) is dict:
            return {f"key{self.number()}": self._value(arguments[1], inside)}
        if get_origin(member) is not None:
            count = self._random.randint(1, _MAX_ELEMENTS)
            return [self._value(arguments[0], inside) for _ in range(count)]
        return self._simple(member)

    def _simple(self, hint: object) -> Json:
        if hint is bool:
            return self._random.random() < 1 / 2
        if hint is int:
            return self.number()
        if hint is float:
            return self.number() + 0.5
        return f"text {self.number()}"
