"""Calls that are accumulated from the parts of a streamed reply.

A program accumulates the name and the arguments of a call; its id has to be accumulated too. It is
kept in the dictionary of the call, if there is one, or in a variable.
"""

from collections.abc import Callable, Iterator
from typing import Final

import libcst as cst
from msgspec import Struct

from gateway.migration.code.python import syntax
from gateway.migration.code.python.program import Program, Scope
from gateway.migration.code.python.report import Report
from gateway.migration.code.python.syntax import expression
from gateway.migration.code.python.target import Target
from gateway.migration.code.python.uses import Uses, message_of
from gateway.migration.code.python.values import Values

_RULE: Final = "read-function-call"
_VARIABLE: Final = "tool_call_id"


class _Stream(Struct, frozen=True, eq=False):
    """A loop over the parts of a reply that reads calls."""

    loop: cst.For
    scope: Scope
    # The first expression that reads a call in it.
    read: cst.BaseExpression
    # The variable for the id, if no dictionary has it.
    variable: str | None


class Streams:
    """Adds the id to what is accumulated."""

    def __init__(
        self, program: Program, values: Values, uses: Uses, target: Target, report: Report
    ) -> None:
        self._program = program
        self._values = values
        self._uses = uses
        self._target = target
        self._report = report
        self._streams = list(self._find())

    def call_id(self, node: cst.CSTNode) -> Callable[[], cst.BaseExpression] | None:
        """Return the id of an accumulated call at a place of the program."""
        scope, order = self._program.scope(node), self._program.order(node)
        for stream in reversed(self._streams):
            if stream.scope is scope and self._program.order(stream.loop) < order:
                variable = stream.variable
                if variable is not None:
                    return lambda: cst.Name(variable)
        return None

    def is_accumulator(self, node: cst.BaseExpression) -> bool:
        """Whether a dictionary is the call in an accumulated message."""
        return node in self._values.accumulators

    def migrate(self) -> None:
        """Accumulate ids, and give dictionaries with calls the form of tool calls."""
        for stream in self._streams:
            for keeper in self._keepers(stream):
                self._keep_id(stream, keeper)
            if stream.variable is not None:
                statement = self._program.statement(stream.loop)
                self._report.edits(_RULE).insert_before(statement, f'{stream.variable} = ""\n')
        for node in self._values.accumulators:
            if self._values.kind(node) == "call":
                self._report.edits(_RULE).replace(node, self._as_tool_call)

    # Loops

    def _find(self) -> Iterator[_Stream]:
        for loop in self._program.of_type(cst.For):
            reads = [
                one
                for one in self._program.descendants(loop.body)
                if isinstance(one, cst.BaseExpression) and self._is_delta_read(one)
            ]
            if not reads:
                continue
            scope = self._program.scope(loop)
            has_keeper = any(True for _ in self._accumulated(loop))
            variable = None if has_keeper else self._fresh(scope)
            yield _Stream(loop, scope, reads[0], variable)

    def _is_delta_read(self, node: cst.BaseExpression) -> bool:
        if message_of(node) is None:
            return False
        value = self._values.of(node)
        return value is not None and value.is_delta and value.kind in ("call", "function")

    def _fresh(self, scope: Scope) -> str:
        name = _VARIABLE
        while name in self._program.names_in(scope):
            name += "_"
        return name

    # What keeps the id

    def _keepers(self, stream: _Stream) -> Iterator[str]:
        """Yield the expressions that an id is assigned to."""
        if stream.variable is not None:
            yield stream.variable
            return
        found = {syntax.code(one): one for one in self._accumulated(stream.loop)}
        for text, accumulator in found.items():
            if message_of(accumulator) is None:
                yield f'{text}["{self._target.id_field}"]'
            else:
                message = syntax.code(message_of(accumulator) or accumulator)
                yield f'{message}["tool_calls"][0]["id"]'

    def _accumulated(self, loop: cst.For) -> Iterator[cst.BaseExpression]:
        """Yield the dictionaries of calls whose items are changed in a loop."""
        for node in self._program.descendants(loop.body):
            target: cst.BaseExpression
            match node:
                case cst.AugAssign(target=target) | cst.AssignTarget(target=target):
                    pass
                case _:
                    continue
            if isinstance(target, cst.Subscript) and self._is_call(target.value):
                yield target.value

    def _is_call(self, node: cst.BaseExpression) -> bool:
        value = self._values.of(node)
        return value is not None and value.kind == "call" and value.is_dict and not value.is_delta

    def _keep_id(self, stream: _Stream, keeper: str) -> None:
        """Insert the assignment of the id where a part of a call is known to be there."""
        message = message_of(stream.read)
        assert message is not None  # noqa: S101 - only reads are found
        guard = self._guard(stream.loop, stream.read)
        value = self._values.of(stream.read)
        assert value is not None  # noqa: S101 - only known values are found

        def part() -> tuple[str, str]:
            owner = syntax.code(self._report.rewritten(message))
            is_old = value.is_old and not value.is_dict
            if value.is_dict or (is_old and "sdk" not in self._report.applied):
                return f'{owner}.get("tool_calls")', f'{owner}["tool_calls"][0].get("id")'
            return f"{owner}.tool_calls", f"{owner}.tool_calls[0].id"

        if guard is not None:
            self._report.edits(_RULE).insert_before(
                guard, lambda: f"{keeper} = {part()[1]} or {keeper}\n"
            )
            return
        statement = self._inner_statement(stream)
        self._report.edits(_RULE).insert_before(
            statement, lambda: f"if {part()[0]}:\n    {keeper} = {part()[1]} or {keeper}\n"
        )

    def _guard(self, loop: cst.For, read: cst.BaseExpression) -> cst.CSTNode | None:
        """Return the first statement that is only reached with a part of a call."""
        for node in self._program.descendants(loop.body):
            if not isinstance(node, cst.If) or not isinstance(node.body, cst.IndentedBlock):
                continue
            if self._uses.requires(node.test, read):
                return node.body.body[0]
        return None

    def _inner_statement(self, stream: _Stream) -> cst.CSTNode:
        """Return the statement of the loop that contains the first read."""
        inner: cst.CSTNode = stream.read
        for outer in self._program.ancestors(stream.read):
            if outer is stream.loop.body:
                break
            inner = outer
        return inner

    def _as_tool_call(self, node: cst.CSTNode) -> cst.CSTNode:
        function = syntax.as_expression(node)
        if self._target.has_function_field:
            template = '{"id": "", "type": "function", "function": {function}}'
            return expression(template, function=function)
        head = expression('{"type": "function_call", "call_id": ""}')
        assert isinstance(head, cst.Dict)  # noqa: S101 - the template is one
        assert isinstance(function, cst.Dict)  # noqa: S101 - accumulators are dictionaries
        first, second = head.elements
        second = second.with_changes(comma=syntax.space_comma())
        return function.with_changes(elements=[first, second, *function.elements])
