"""The differences between two JSON bodies, field by field."""

import re
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

from adapters.comparison.alignment import CallLabels, align, align_by_name, name_of
from adapters.comparison.normal_form import is_call_id, normalize
from adapters.conformance import Json, Object

# What replaces a secret in errors and in recordings; equal secrets have the same number there.
_MARKER: Final = re.compile(r"\[redacted(?::\d+)?\]")
_MARKER_START: Final = "[redacted"
_TOOL_LISTS: Final = ("tools", "functions")


class Difference(Struct, frozen=True):
    """A field in which two bodies differ: missing on the right, extra there, or changed."""

    path: str
    kind: Literal["missing", "extra", "changed"]
    left: Json = None
    right: Json = None


def compare_json(left: Json, right: Json) -> list[Difference]:
    """Return the differences in meaning between two requests, replies or errors.

    Ids, dates, the order of keys and redacted values are ignored, but ids must pair the same calls
    and outputs on both sides.
    """
    comparison = _Comparison(normalize(left), normalize(right))
    return comparison.differences


class _Comparison:
    def __init__(self, left: Json, right: Json) -> None:
        self.differences: list[Difference] = []
        self._left_labels, self._right_labels = CallLabels(left), CallLabels(right)
        # The call ids on the right by those on the left, and the reverse.
        self._right_ids: dict[str, str] = {}
        self._left_ids: dict[str, str] = {}
        self._compare("", left, right)

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
            elif not (is_call_id(key, left) and self._corresponds(left[key], right[key])):
                self._compare(field_path, left[key], right[key])

    def _corresponds(self, left: Json, right: Json) -> bool:
        """Whether two ids belong to the same call on both sides."""
        if not isinstance(left, str) or not isinstance(right, str):
            return False
        if left not in self._right_ids and right not in self._left_ids:
            self._right_ids[left], self._left_ids[right] = right, left
        return self._right_ids.get(left) == right

    def _compare_lists(self, path: str, left: list[Json], right: list[Json]) -> None:
        named = align_by_name(left, right) if path in _TOOL_LISTS else None
        for one, other in named or align(left, right, (self._left_labels, self._right_labels)):
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
    if _MARKER_START not in redacted:
        return False
    return _redacted_pattern(redacted).fullmatch(text) is not None


@lru_cache(maxsize=64)
def _redacted_pattern(redacted: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, _MARKER.split(redacted))), re.DOTALL)
