"""Comparison of JSON bodies by meaning."""

from adapters.comparison.differences import Difference, compare_json

__all__ = ["Difference", "compare_json"]
