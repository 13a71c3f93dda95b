"""Types of the SDK that only legacy functions have."""

from collections.abc import Sequence
from typing import Final

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.context import Context

TYPE: Final = "legacy-type"

_MESSAGE = "uses the type {name} of the SDK"
_REASON = "this type of legacy functions has no counterpart; use one for tools"
# The new name and module of each type, for each target.
_CHAT: Final = {
    "FunctionCall": ("openai.types.chat", "ChatCompletionMessageFunctionToolCall"),
    "ChatCompletionFunctionMessageParam": ("openai.types.chat", "ChatCompletionToolMessageParam"),
}
_RESPONSES: Final = {
    "FunctionCall": ("openai.types.responses", "ResponseFunctionToolCall"),
    "ChatCompletionMessage": ("openai.types.responses", "Response"),
    "ChatCompletion": ("openai.types.responses", "Response"),
    "Choice": ("openai.types.responses", "Response"),
}
_LEFT: Final = frozenset(("ChoiceDeltaFunctionCall", "ChatCompletionFunctionMessageParam"))


class TypeMigration:
    """Rewrites the imports of types, and the annotations with them."""

    def __init__(self, context: Context) -> None:
        self._program = context.program
        self._references = context.references
        self._report = context.report
        self._types = _CHAT if context.target.name == "chat" else _RESPONSES

    def migrate(self) -> None:
        """Rewrite the names of all types that are imported from the SDK."""
        for statement in self._program.of_type(cst.ImportFrom):
            module = syntax.code(statement.module) if statement.module else ""
            if module.startswith("openai.types") and not isinstance(
                statement.names, cst.ImportStar
            ):
                self._migrate_import(statement, statement.names)

    def _migrate_import(
        self, statement: cst.ImportFrom, aliases: Sequence[cst.ImportAlias]
    ) -> None:
        found = [one for one in aliases if one.evaluated_name in self._types]
        for alias in aliases:
            name = alias.evaluated_name
            if name in _LEFT and name not in self._types:
                self._report.leave(statement, TYPE, _MESSAGE.format(name=name), _REASON)
        if not found:
            return
        names = {one.evaluated_name for one in found}
        for name in sorted(names):
            self._report.find(statement, TYPE, _MESSAGE.format(name=name))
        self._rewrite_import(statement, names)
        for node in self._program.of_type(cst.Name):
            self._rename(node, names)

    def _rewrite_import(self, statement: cst.ImportFrom, names: set[str]) -> None:
        edits = self._report.edits(TYPE)
        line = self._program.statement(statement)
        for module in sorted({self._types[name][0] for name in names}):
            new = sorted({self._types[name][1] for name in names if self._types[name][0] == module})
            edits.insert_before(line, f"from {module} import {', '.join(new)}\n")
        assert not isinstance(statement.names, cst.ImportStar)  # noqa: S101 - checked before
        kept = [one for one in statement.names if one.evaluated_name not in names]
        if not kept:
            edits.remove(line)
            return
        if not statement.lpar:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        edits.replace(statement, lambda one: one.with_changes(names=kept))

    def _rename(self, node: cst.Name, names: set[str]) -> None:
        _, name = self._references.imported_name(node)
        if name not in names or node.value != name or self._program.is_label(node):
            return
        if isinstance(self._program.parent(node), cst.ImportAlias):
            return
        new = self._types[name][1]
        self._report.edits(TYPE).replace(node, lambda one: one.with_changes(value=new))
