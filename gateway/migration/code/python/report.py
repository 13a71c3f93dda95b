"""The findings of a program, and the changes that rewrite them."""

from collections.abc import Collection
from itertools import chain
from typing import Final

import libcst as cst
import msgspec

from gateway.migration.code.findings import Finding
from gateway.migration.code.python.edits import Changes, Edit, Edits
from gateway.migration.code.python.program import Program
from gateway.migration.code.python.syntax import as_expression
from gateway.migration.code.rules import FAMILIES, RULES, Family

_NOT_SELECTED: Final = "it depends on {rule}, which is not selected"
_OTHER_OPEN: Final = "another place of this program needs a decision first"


class Report:
    """Collects findings. Those of a family are rewritten together, or not at all."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._changes: dict[Family, Changes] = {}
        self.findings: dict[cst.Module, list[Finding]] = {}
        # The statements of findings that a person must decide, with the reasons.
        self.open: list[tuple[cst.CSTNode, str, str]] = []
        self._left: dict[Family, str] = {}
        # The families whose changes are applied; known when all findings are.
        self.applied: set[Family] = set()
        self._edits = Edits()

    def edits(self, rule: str) -> Changes:
        """Return the changes of the family of a rule."""
        return self.edits_of(RULES[rule].family)

    def edits_of(self, family: Family) -> Changes:
        """Return the changes of a family."""
        return self._changes.setdefault(family, Changes())

    def rewrite(self, node: cst.CSTNode, rule: str, message: str, edit: Edit) -> None:
        """Report a finding that is rewritten by an edit of the node."""
        self.find(node, rule, message)
        self.edits(rule).replace(node, edit)

    def find(self, node: cst.CSTNode, rule: str, message: str) -> None:
        """Report a finding that is rewritten by other edits."""
        self._add(node, rule, message, None)

    def leave(self, node: cst.CSTNode, rule: str, message: str, reason: str) -> None:
        """Report a finding that a person must decide."""
        self._add(node, rule, message, reason)
        statement = self._program.statement(node)
        self.open.append((statement, rule, reason))

    def _add(self, node: cst.CSTNode, rule: str, message: str, reason: str | None) -> None:
        finding = Finding(*self._program.place(node), rule, message, reason)
        findings = self.findings.setdefault(self._program.module(node), [])
        if finding not in findings:
            findings.append(finding)

    def all_findings(self) -> list[Finding]:
        """Return the findings in all modules."""
        return [one for findings in self.findings.values() for one in findings]

    @property
    def families(self) -> set[Family]:
        """The families with findings."""
        return {RULES[one.rule].family for one in self.all_findings()}

    def has_change(self, node: cst.CSTNode) -> bool:
        """Whether a node is rewritten by a change of its own."""
        return any(
            change.node is node for changes in self._changes.values() for change in changes.all
        )

    def decide(self, rules: Collection[str]) -> None:
        """Decide which families are rewritten, if only these rules are selected."""
        found = {one.rule for findings in self.findings.values() for one in findings}
        chosen: set[Family] = {RULES[rule].family for rule in found & set(rules)}
        is_open = any(RULES[rule].family in chosen for _, rule, _ in self.open)
        for family in chosen:
            missing = sorted(
                rule for rule in found if RULES[rule].family == family and rule not in rules
            )
            if missing:
                self._left[family] = _NOT_SELECTED.format(rule=missing[0])
            elif is_open:
                self._left[family] = _OTHER_OPEN
            else:
                self.applied.add(family)

    def with_reason(self, finding: Finding) -> Finding:
        """Return a finding with the reason why it is left."""
        reason = finding.reason or self._left.get(RULES[finding.rule].family)
        return msgspec.structs.replace(finding, reason=reason)

    def prepare(self, rules: Collection[str]) -> Edits:
        """Return the changes of the applied families, and the comments for the others."""
        comments = Changes()
        for statement, rule, reason in self.open:
            if rule in rules:
                comments.add_comment(statement, reason)
        applied = [
            self._changes[one].all
            for one in FAMILIES
            if one in self._changes and one in self.applied
        ]
        self._edits = Edits(chain(*applied, comments.all))
        return self._edits

    def rewritten(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return an expression with its changes, to be used at another place."""
        return as_expression(self._edits.visited(node))
