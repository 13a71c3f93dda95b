"""Calls that are accumulated from the parts of a streamed reply."""

from collections.abc import Callable

import libcst as cst


class Streams:
    """Finds the ids of accumulated calls."""

    def call_id(self, _node: cst.CSTNode) -> Callable[[], cst.BaseExpression] | None:
        """Return the id of an accumulated call at a place of the program."""
        return None
