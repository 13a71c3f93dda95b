"""Loops over all calls of a message, where the code handles each call by itself.

The statements from the first read of a call to its result become the body of a loop, and the
message is added to the history before it. If that is not possible for all calls of a program, it
requests one call at a time instead.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import libcst as cst
from msgspec import Struct

from gateway.migration.code.findings import CELL_MARK
from gateway.migration.code.python import syntax
from gateway.migration.code.python.edits import Statement, as_statement
from gateway.migration.code.python.program import Block, Program, Scope
from gateway.migration.code.python.report import Report
from gateway.migration.code.python.request_dicts import RequestDicts
from gateway.migration.code.python.syntax import expression
from gateway.migration.code.python.target import Target
from gateway.migration.code.python.uses import Uses, message_of
from gateway.migration.code.python.values import CALL, FIELD, Values

_RULE: Final = "read-function-call"
_VARIABLE: Final = "tool_call"
_LEAVING = (cst.Return, cst.Yield, cst.Break, cst.Continue, cst.FunctionDef, cst.ClassDef)


class _Region(Struct, frozen=True, eq=False):
    """The statements that handle the call of a message."""

    statements: Sequence[Statement]
    # Those that add the message to the history.
    hoisted: Sequence[Statement]
    reads: Sequence[cst.BaseExpression]
    variable: str


class Loops:
    """The reads that are rewritten to the variable of a loop over all calls."""

    def __init__(
        self, program: Program, values: Values, uses: Uses, requests: RequestDicts, report: Report
    ) -> None:
        self._program = program
        self._values = values
        self._uses = uses
        self._requests = requests
        self._report = report
        self._variables: dict[cst.CSTNode, str] = {}
        self._regions = self._find_all()
        for region in self._regions:
            self._variables.update((read, region.variable) for read in region.reads)

    @property
    def are_complete(self) -> bool:
        """Whether all calls of all replies are handled by loops."""
        return bool(self._regions)

    def variable(self, read: cst.CSTNode) -> str | None:
        """Return the variable of the loop for a read; None outside of loops."""
        return self._variables.get(read)

    def migrate(self, target: Target) -> None:
        """Put the statements into their loops."""
        for region in self._regions:
            self._wrap(region, target)

    # Regions

    def _find_all(self) -> Sequence[_Region]:
        """Return the regions of a program; none if one of its calls is in no region."""
        if any(syntax.dict_value(one, FIELD) for one in self._program.of_type(cst.Dict)):
            # A message is written with one call.
            return ()
        if any(CELL_MARK in module.code for module in self._program.modules.values()):
            # A loop cannot contain several cells of a notebook.
            return ()
        groups: dict[tuple[Scope, str], list[cst.BaseExpression]] = {}
        for node in self._program.expressions():
            value, message = self._values.of(node), message_of(node)
            if value is None or value.kind not in (CALL, "function") or message is None:
                continue
            if value.is_delta or value.kind == "function" or not isinstance(message, cst.Name):
                return ()
            groups.setdefault((self._program.scope(node), message.value), []).append(node)
        regions = [self._find(scope, name, reads) for (scope, name), reads in groups.items()]
        found = [region for region in regions if region is not None]
        return found if len(found) == len(regions) else ()

    def _find(
        self, scope: Scope, message: str, reads: Sequence[cst.BaseExpression]
    ) -> _Region | None:
        inner = [one for one in reads if self._uses.of(one) in ("member", "kept", "other")]
        results = [one for one in self._results(scope) if self._is_after(one, inner)]
        if not inner or not results or any(self._uses.of(one) == "message" for one in reads):
            return None
        block = self._block([*inner, *results])
        statements = self._between(block, [*inner, *results]) if block is not None else ()
        hoisted = [one for one in statements if self._adds(one, message)]
        if not hoisted and not self._is_added(scope, message, statements):
            return None
        if block is None or self._is_counted(block):
            return None
        if not statements or not self._can_repeat(scope, message, statements, hoisted):
            return None
        contained = [one for one in reads if self._is_in(one, statements)]
        return _Region(statements, hoisted, contained, self._fresh(scope))

    def _results(self, scope: Scope) -> Iterator[cst.CSTNode]:
        for node in self._program.of_type(cst.Dict):
            is_result = syntax.string(syntax.dict_value(node, "role")) == "function"
            if is_result and self._program.scope(node) is scope:
                yield node

    def _is_after(self, node: cst.CSTNode, reads: Sequence[cst.CSTNode]) -> bool:
        return (bool(reads) and self._program.order(node) > self._program.order(reads[0])) or any(
            self._program.is_inside(one, node) for one in reads
        )

    def _block(self, nodes: Sequence[cst.CSTNode]) -> Block | None:
        """Return the innermost block that contains all nodes."""
        for outer in self._program.ancestors(nodes[0]):
            if isinstance(outer, Block) and all(
                self._program.is_inside(one, outer) for one in nodes
            ):
                return outer
        return None

    def _between(self, block: Block, nodes: Sequence[cst.CSTNode]) -> Sequence[Statement]:
        """Return the statements of a block from the first to the last that contains a node."""
        places = [
            place
            for place, statement in enumerate(block.body)
            if any(self._program.is_inside(one, statement) for one in nodes)
        ]
        return [as_statement(one) for one in block.body[min(places) : max(places) + 1]]

    def _is_in(self, node: cst.CSTNode, statements: Sequence[cst.CSTNode]) -> bool:
        return any(self._program.is_inside(node, one) for one in statements)

    def _adds(self, statement: Statement, message: str) -> bool:
        """Whether a statement only adds the message to the history."""
        match statement:
            case cst.SimpleStatementLine(
                body=[cst.Expr(value=cst.Call(func=cst.Attribute() as func, args=[argument]))]
            ):
                is_append = func.attr.value == "append"
                return is_append and syntax.root_name(argument.value) == message
            case _:
                return False

    def _is_counted(self, block: Block) -> bool:
        """Whether a block is in a loop that limits the number of calls."""
        for outer in self._program.ancestors(block):
            if isinstance(outer, cst.FunctionDef):
                return False
            if isinstance(outer, cst.For):
                return True
        return False

    def _is_added(self, scope: Scope, message: str, statements: Sequence[cst.CSTNode]) -> bool:
        """Whether the message is added to the history before some statements."""
        return any(
            self._adds(line, message)
            and self._program.scope(line) is scope
            and bool(statements)
            and self._program.order(line) < self._program.order(statements[0])
            for line in self._program.of_type(cst.SimpleStatementLine)
        )

    def _can_repeat(
        self,
        scope: Scope,
        message: str,
        statements: Sequence[Statement],
        hoisted: Sequence[Statement],
    ) -> bool:
        """Whether statements can be repeated for each call."""
        bound: set[str] = set()
        for statement in statements:
            for node in self._program.descendants(statement):
                if isinstance(node, _LEAVING) or self._is_request(node):
                    return False
                if isinstance(node, cst.Name) and self._program.is_target(node):
                    bound.add(node.value)
                is_whole = isinstance(node, cst.Name) and node.value == message
                if is_whole and statement not in hoisted and not self._is_read_here(node):
                    return False
        return message not in bound and not any(
            self._is_used_outside(scope, name, statements) for name in bound
        )

    def _is_request(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and self._values.kind(node) == "reply"

    def _is_read_here(self, node: cst.CSTNode) -> bool:
        """Whether a message is only used for its call."""
        parent = self._program.parent(node)
        return parent is not None and message_of(parent) is node

    def _is_used_outside(self, scope: Scope, name: str, statements: Sequence[cst.CSTNode]) -> bool:
        return any(
            not self._program.is_target(use) and not self._is_in(use, statements)
            for use in self._program.uses(self._program.resolve(scope, name), name)
        )

    def _fresh(self, scope: Scope) -> str:
        name = _VARIABLE
        while name in self._program.names_in(scope):
            name += "_"
        return name

    # Rewrite

    def _wrap(self, region: _Region, target: Target) -> None:
        first, last = region.statements[0], region.statements[-1]
        hoisted = [region.statements.index(one) for one in region.hoisted]

        def group(statements: Sequence[Statement]) -> Sequence[Statement]:
            outside = [statements[place] for place in hoisted]
            inside = [one for place, one in enumerate(statements) if place not in hoisted]
            loop = cst.For(
                cst.Name(region.variable),
                self._calls(region, target),
                cst.IndentedBlock([inside[0].with_changes(leading_lines=[]), *inside[1:]]),
                leading_lines=inside[0].leading_lines,
            )
            return [*outside, loop]

        self._report.edits(_RULE).group(first, last, group)

    def _calls(self, region: _Region, target: Target) -> cst.BaseExpression:
        read = region.reads[0]
        message, value = message_of(read), self._values.of(read)
        assert message is not None  # noqa: S101 - only reads are found
        assert value is not None  # noqa: S101 - only known values are found
        is_old = value.is_old and not value.is_dict
        is_dict = "sdk" not in self._report.applied if is_old else value.is_dict
        template = '{message}["function_call"]' if is_dict else "{message}.function_call"
        return target.calls(expression(template, message=self._report.rewritten(message)))
