"""Alignment of two lists, so that an inserted entry is one difference and not one per entry."""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

import msgspec

from adapters.comparison.normal_form import is_call_id
from adapters.conformance import Json

# The indices of two entries that correspond to each other; None if an entry has no counterpart.
Pair: TypeAlias = tuple[int | None, int | None]

_ENCODER = msgspec.json.Encoder(order="deterministic")


class CallLabels:
    """Labels of the calls in a body, which do not depend on their ids."""

    def __init__(self, body: Json) -> None:
        self._labels: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._collect(body)

    def fingerprint(self, value: Json) -> str:
        """Return a text that is equal for values with the same meaning."""
        return _ENCODER.encode(self._with_labels(value)).decode()

    def _collect(self, value: Json) -> None:
        if isinstance(value, list):
            for entry in value:
                self._collect(entry)
        elif isinstance(value, dict):
            call_id = _id_of_call(value)
            if call_id is not None:
                content = {key: field for key, field in value.items() if field != call_id}
                label = _ENCODER.encode(content).decode()
                self._counts[label] += 1
                self._labels.setdefault(call_id, f"{label}#{self._counts[label]}")
            for field in value.values():
                self._collect(field)

    def _with_labels(self, value: Json) -> Json:
        if isinstance(value, list):
            return [self._with_labels(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self._labels.get(field, "")
            if isinstance(field, str) and is_call_id(key, value)
            else self._with_labels(field)
            for key, field in value.items()
        }


def _id_of_call(value: dict[str, Json]) -> str | None:
    """Return the id of a call; None if the value is no call."""
    kind = value.get("type")
    if isinstance(kind, str) and kind.endswith("call"):
        found = value.get("call_id")
    else:
        found = value.get("id") if is_call_id("id", value) else None
    return found if isinstance(found, str) else None


def align(left: list[Json], right: list[Json], labels: tuple[CallLabels, CallLabels]) -> list[Pair]:
    """Return the pairs of two lists: first equal entries, then entries of the same kind."""
    fingerprints = (
        [labels[0].fingerprint(entry) for entry in left],
        [labels[1].fingerprint(entry) for entry in right],
    )
    kinds = [_kind(entry) for entry in left], [_kind(entry) for entry in right]
    pairs: list[Pair] = []
    for tag, left_from, left_to, right_from, right_to in _opcodes(*fingerprints):
        if tag == "equal":
            pairs += zip(range(left_from, left_to), range(right_from, right_to), strict=True)
        else:
            pairs += _align_kinds(kinds, range(left_from, left_to), range(right_from, right_to))
    return pairs


def align_by_name(left: list[Json], right: list[Json]) -> list[Pair] | None:
    """Return the pairs of two lists of tools; None if the names are not unique."""
    left_names, right_names = [name_of(tool) for tool in left], [name_of(tool) for tool in right]
    if any(len(set(names)) < len(names) for names in (left_names, right_names)):
        return None
    by_name = {name: index for index, name in enumerate(right_names)}
    missing = [(None, index) for name, index in by_name.items() if name not in left_names]
    return [*((index, by_name.get(name)) for index, name in enumerate(left_names)), *missing]


def _align_kinds(kinds: tuple[list[str], list[str]], left: range, right: range) -> Iterator[Pair]:
    left_kinds, right_kinds = [kinds[0][i] for i in left], [kinds[1][i] for i in right]
    for tag, left_from, left_to, right_from, right_to in _opcodes(left_kinds, right_kinds):
        if tag == "equal":
            yield from zip(left[left_from:left_to], right[right_from:right_to], strict=True)
        else:
            yield from ((index, None) for index in left[left_from:left_to])
            yield from ((None, index) for index in right[right_from:right_to])


def _opcodes(left: Sequence[str], right: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, left, right, autojunk=False).get_opcodes()


def _kind(entry: Json) -> str:
    """Return what an entry is apart from its content: its type, its role and its name."""
    if not isinstance(entry, dict):
        return ""
    return f"{entry.get('type')} {entry.get('role')} {name_of(entry)}"


def name_of(entry: Json) -> str | None:
    """Return the name of a tool or a call; of a tool without a name, its type."""
    match entry:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}}:
            return name
        case {"name": str(name)} | {"server_label": str(name)}:
            return name
        case {"type": str(kind)}:
            return kind
        case _:
            return None
