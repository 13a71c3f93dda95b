"""Fields that only one family of dialects knows: kept as spelled, carried on or reported."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Raw

from adapters.conversation import Extra, Extras, Family
from adapters.fields import Fields
from adapters.loss import Losses, Severity

# How grave it is to leave a field out: always the same, or by its value.
Gravity = Severity | None | Callable[[Raw], Severity | None]

# What says nothing may go without a word.
_EMPTY = frozenset((b"[]", b"{}", b'""', b"false", b"0", b"0.0"))


def left_over(
    fields: Fields, family: Family, known: Mapping[str, Gravity] | None = None, prefix: str = ""
) -> Extras:
    """Take what the reader of an object did not: known to its family, or to nobody."""
    return tuple(
        Extra(family, prefix + name, raw, _weigh(raw, (known or {}).get(name, "hint")))
        for name, raw in fields.rest()
    )


def unless(harmless: object, severity: Severity) -> Callable[[Raw], Severity | None]:
    """Make a gravity that one value does not have."""
    return lambda raw: None if msgspec.json.decode(raw) == harmless else severity


def _weigh(raw: Raw, gravity: Gravity) -> Severity | None:
    if bytes(raw) in _EMPTY:
        return None
    return gravity(raw) if callable(gravity) else gravity


class Carrier:
    """Carries extras into what one family writes, and reports those of any other family."""

    def __init__(self, family: Family, label: str, losses: Losses) -> None:
        self._family = family
        # How the family is called in a sentence for the caller.
        self._label = label
        self._losses = losses

    def carry(self, extras: Extras, into: dict[str, object], path: str = "") -> None:
        """Write the extras into an object, or say that they are lost."""
        for extra in extras:
            if extra.family == self._family:
                _put(into, extra.name, extra.value)
            elif extra.severity is not None:
                where = f"{path}.{extra.name}" if path else extra.name
                self._losses.dropped(where, f"{self._label} has no such field", extra.severity)


def _put(into: dict[str, object], name: str, value: Raw) -> None:
    """Put a value under a name that may lead into an inner object (`reasoning.summary`)."""
    outer, dot, inner = name.partition(".")
    if not dot:
        into[name] = value
        return
    nested = into.setdefault(outer, {})
    if isinstance(nested, dict):
        _put(nested, inner, value)  # pyright: ignore[reportUnknownArgumentType] - an object of ours
