"""The differences between two JSON bodies, field by field."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal

from msgspec import Struct

from adapters.comparison.alignment import CallLabels, align, align_by_name, name_of
from adapters.comparison.normal_form import is_call_id, normalize
from adapters.conformance import Json, Object
from adapters.errors import InvalidRequestError

# What replaces a secret in errors and in recordings; equal secrets have the same number there.
MARKER: Final = re.compile(r"\[redacted(?::\d+)?\]")
_TOOL_LISTS: Final = ("tools", "functions")


class Difference(Struct, frozen=True):
    """A field in which two bodies differ: missing on the right, extra there, or changed."""

    path: str
    kind: Literal["missing", "extra", "changed"]
    left: Json = None
    right: Json = None


class NormalBody:
    """The normal form of a body, for several comparisons."""

    def __init__(self, body: Json) -> None:
        with _limited_depth():
            self.value = normalize(body)
            self.labels = CallLabels(self.value)

    def fingerprint(self) -> str:
        """Return a text that is equal for bodies without differences, unless one has redactions."""
        with _limited_depth():
            return self.labels.fingerprint(self.value)


def compare_json(left: Json, right: Json) -> list[Difference]:
    """Return the differences in meaning between two requests, replies or errors.

    Ids, dates, the order of keys and redacted values are ignored, but ids must pair the same calls
    and outputs on both sides. Raises `InvalidRequestError` for a body that is nested too deeply.
    """
    return compare_normal(NormalBody(left), NormalBody(right))


def compare_normal(left: NormalBody, right: NormalBody) -> list[Difference]:
    """Return the differences between two bodies whose normal form is known."""
    with _limited_depth():
        return _Comparison(left, right).differences


@contextmanager
def _limited_depth() -> Generator[None]:
    """Convert the error for a body whose values are nested too deeply."""
    try:
        yield
    except RecursionError:
        raise InvalidRequestError(None, "the body is nested too deeply") from None


class _Comparison:
    def __init__(self, left: NormalBody, right: NormalBody) -> None:
        self.differences: list[Difference] = []
        self._labels = left.labels, right.labels
        # The call ids on the right by those on the left, and the reverse.
        self._right_ids: dict[str, str] = {}
        self._left_ids: dict[str, str] = {}
        self._compare("", left.value, right.value)

    def _compare(self, path: str, left: Json, right: Json) -> None:
        if isinstance(left, dict) and isinstance(right, dict):
            self._compare_objects(path, left, right)
        elif isinstance(left, list) and isinstance(right, list):
            self._compare_lists(path, left, right)
        elif not _equal(left, right):
            self.differences.append(Difference(path, "changed", left, right))

    def _compare_objects(self, path: str, left: Object, right: Object) -> None:
        for key in [*left, *(key for key in right if key not in left)]:
            field_path = f"{path}.{key}" if path else key
            if key not in right:
                self.differences.append(Difference(field_path, "missing", left=left[key]))
            elif key not in left:
                self.differences.append(Difference(field_path, "extra", right=right[key]))
            else:
                self._compare_fields(field_path, left[key], right[key], ids=is_call_id(key, left))

    def _compare_fields(self, path: str, left: Json, right: Json, *, ids: bool) -> None:
        if not (ids and isinstance(left, str) and isinstance(right, str)):
            self._compare(path, left, right)
        elif not self._correspond(left, right):
            self.differences.append(Difference(path, "changed", left, right))

    def _correspond(self, left: str, right: str) -> bool:
        """Whether two ids belong to the same call on both sides."""
        if left not in self._right_ids and right not in self._left_ids:
            self._right_ids[left], self._left_ids[right] = right, left
        return self._right_ids.get(left) == right

    def _compare_lists(self, path: str, left: list[Json], right: list[Json]) -> None:
        named = align_by_name(left, right) if path in _TOOL_LISTS else None
        for one, other in named or align(left, right, self._labels):
            if one is None and other is not None:
                entry_path = f"{path}[{_key(right, other, named=named is not None)}]"
                self.differences.append(Difference(entry_path, "extra", right=right[other]))
            elif one is not None:
                entry_path = f"{path}[{_key(left, one, named=named is not None)}]"
                if other is None:
                    self.differences.append(Difference(entry_path, "missing", left=left[one]))
                else:
                    self._compare(entry_path, left[one], right[other])


def _key(entries: list[Json], index: int, *, named: bool) -> str:
    """Return the name of a tool, or the index of an entry, for its path."""
    return str(name_of(entries[index]) if named else index)


def _equal(left: Json, right: Json) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        # In Python, 1 == True.
        return left is right
    if isinstance(left, str) and isinstance(right, str) and left != right:
        return _matches_redacted(left, right) or _matches_redacted(right, left)
    return left == right


def _matches_redacted(redacted: str, text: str) -> bool:
    """Whether a text is equal to one in which secrets were redacted."""
    first, *rest = MARKER.split(redacted)
    if not rest or not text.startswith(first):
        return False
    *middle, last = rest
    place, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return place <= end and text.endswith(last)
