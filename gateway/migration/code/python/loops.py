"""Loops over all calls of a message, where the code can handle several."""

import libcst as cst


class Loops:
    """The reads that are rewritten to the variable of a loop over all calls."""

    def __init__(self) -> None:
        self._variables: dict[cst.CSTNode, str] = {}

    @property
    def are_complete(self) -> bool:
        """Whether all calls of all replies are handled by loops."""
        return False

    def variable(self, read: cst.CSTNode) -> str | None:
        """Return the variable of the loop for a read; None outside of loops."""
        return self._variables.get(read)
