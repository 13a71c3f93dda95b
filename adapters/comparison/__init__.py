"""Comparison of JSON bodies by meaning."""

from adapters.comparison.differences import (
    MARKER,
    Difference,
    NormalBody,
    compare_json,
    compare_normal,
)

__all__ = ["MARKER", "Difference", "NormalBody", "compare_json", "compare_normal"]
