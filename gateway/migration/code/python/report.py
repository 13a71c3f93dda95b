"""The findings and the edits of one source."""

import libcst as cst

from gateway.migration.code.findings import Finding
from gateway.migration.code.python.edits import Edit, Edits
from gateway.migration.code.python.source import Source


class Report:
    """Collects findings, with the edits that rewrite them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.edits = Edits()
        self.findings: list[Finding] = []
        # The statements of findings that a person must decide, with the reasons.
        self.open: list[tuple[cst.CSTNode, str]] = []

    def rewrite(self, node: cst.CSTNode, rule: str, message: str, edit: Edit) -> None:
        """Report a finding that is rewritten by an edit of the node."""
        self.find(node, rule, message)
        self.edits.replace(node, edit)

    def find(self, node: cst.CSTNode, rule: str, message: str) -> None:
        """Report a finding that is rewritten by other edits."""
        self.findings.append(Finding(*self._source.place(node), rule, message))

    def leave(self, node: cst.CSTNode, rule: str, message: str, reason: str) -> None:
        """Report a finding that a person must decide."""
        self.findings.append(Finding(*self._source.place(node), rule, message, reason))
        self.open.append((self._source.statement(node), reason))
