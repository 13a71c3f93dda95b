"""Changes to a syntax tree, which are collected first and applied together."""

from collections.abc import Callable, Sequence

import libcst as cst
from libcst import FlattenSentinel, RemovalSentinel

Edit = Callable[[cst.CSTNode], cst.CSTNode]
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement

COMMENT = "# dragoman: "


class Edits:
    """The changes to one tree. Edits of a node and of nodes inside it are both applied."""

    def __init__(self) -> None:
        self._edits: dict[cst.CSTNode, list[Edit]] = {}
        self._before: dict[cst.CSTNode, list[Statement]] = {}
        self._comments: dict[cst.CSTNode, list[str]] = {}

    def replace(self, node: cst.CSTNode, edit: Edit) -> None:
        """Change a node after the nodes inside it were changed."""
        self._edits.setdefault(node, []).append(edit)

    def insert_before(self, statement: cst.CSTNode, code: str) -> None:
        """Insert a statement before another one."""
        self._before.setdefault(statement, []).append(cst.parse_statement(code))

    def add_comment(self, statement: cst.CSTNode, reason: str) -> None:
        """Insert a comment before a statement, unless it has this comment already."""
        comments = self._comments.setdefault(statement, [])
        if reason not in comments:
            comments.append(reason)

    def apply(self, module: cst.Module) -> cst.Module:
        """Return the changed tree."""
        if module.body:
            # The lines before the first statement belong to the module.
            written = _comments(module.header)
            comments = self._comments.get(module.body[0], [])
            comments[:] = [reason for reason in comments if COMMENT + reason not in written]
        return module.visit(_Applier(self))

    def changed(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        """Return a node with its edits."""
        for edit in self._edits.get(original, ()):
            updated = edit(updated)
        return updated

    def statements(self, original: cst.CSTNode, updated: Statement) -> Sequence[Statement]:
        """Return a statement with its comments, behind the statements that are inserted."""
        written = _comments(updated.leading_lines)
        new = [COMMENT + reason for reason in self._comments.get(original, ())]
        lines = [cst.EmptyLine(comment=cst.Comment(one)) for one in new if one not in written]
        if lines:
            updated = updated.with_changes(leading_lines=[*updated.leading_lines, *lines])
        before = self._before.get(original, [])
        if before and updated.leading_lines:
            # Comments and empty lines stay in front.
            first = before[0].with_changes(leading_lines=updated.leading_lines)
            return [first, *before[1:], updated.with_changes(leading_lines=[])]
        return [*before, updated]


def _comments(lines: Sequence[cst.EmptyLine]) -> set[str]:
    return {line.comment.value for line in lines if line.comment is not None}


class _Applier(cst.CSTTransformer):
    def __init__(self, edits: Edits) -> None:
        super().__init__()
        self._edits = edits

    def on_leave(  # type: ignore[override]  # libcst types the result by the node's own class
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> "cst.CSTNode | RemovalSentinel | FlattenSentinel[cst.CSTNode]":
        changed = self._edits.changed(original_node, updated_node)
        if not isinstance(changed, Statement):
            return changed
        statements = self._edits.statements(original_node, changed)
        return statements[0] if len(statements) == 1 else FlattenSentinel(list(statements))
