"""Reads of `function_call` in replies, and of `finish_reason`."""

from collections.abc import Callable, Iterator

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.calls import (
    FIELD,
    CallVariable,
    Read,
    find_reads,
    is_condition,
    is_guarded,
    member,
    none_comparison,
)
from gateway.migration.code.python.report import Report
from gateway.migration.code.python.source import Source
from gateway.migration.code.python.syntax import expression

READ = "read-function-call"
FINISH_REASON = "finish-reason"

_MESSAGE = "reads function_call of a reply"
_FIRST_CALL = {
    "attribute": "{message}.tool_calls[0]",
    "getattr": "{message}.tool_calls[0]",
    "subscript": '{message}["tool_calls"][0]',
    "get": '{message}["tool_calls"][0]',
}
_ANY_CALL = {
    "attribute": "({message}.tool_calls or [None])[0]",
    "getattr": '(getattr({message}, "tool_calls", None) or [None])[0]',
    "subscript": '{message}["tool_calls"][0]',
    "get": '({message}.get("tool_calls") or [None])[0]',
}
_HAS_CALLS = {
    "attribute": "{message}.tool_calls",
    "getattr": 'getattr({message}, "tool_calls", None)',
    "subscript": '{message}["tool_calls"]',
    "get": '{message}.get("tool_calls")',
}


class ReplyMigration:
    """Rewrites what a program reads of its replies."""

    def __init__(self, source: Source, report: Report) -> None:
        self._source = source
        self._report = report
        self.reads = list(find_reads(source))
        self.variables: list[CallVariable] = []

    def migrate(self) -> None:
        """Rewrite all reads, and the uses of the variables that keep a call."""
        for read in self.reads:
            self._migrate_read(read)
        done = 0
        while done < len(self.variables):
            # Passing a variable to a function adds a further one.
            self._migrate_variable(self.variables[done])
            done += 1
        for comparison in self._source.of_type(cst.Comparison):
            self._migrate_comparison(comparison)
        for call in self._source.of_type(cst.Call):
            self._migrate_hasattr(call)

    # The call of a message

    def _migrate_read(self, read: Read) -> None:
        source, report, node = self._source, self._report, read.node
        comparison = none_comparison(source, node)
        if comparison is not None:
            is_equal = isinstance(comparison.comparisons[0].operator, cst.Is | cst.Equal)
            template = ("not " if is_equal else "") + _HAS_CALLS[read.style]
            report.rewrite(comparison, READ, _MESSAGE, _template(template, read))
        elif is_condition(source, node):
            report.rewrite(node, READ, _MESSAGE, _template(_HAS_CALLS[read.style], read))
        elif _is_history_value(source, node):
            # `messages.append({..., "function_call": message.function_call})`
            report.find(node, READ, _MESSAGE)
        elif member(source, node) is not None:
            report.rewrite(node, READ, _MESSAGE, _template(_FIRST_CALL[read.style], read))
            self._migrate_member(node, is_dict=read.is_dict)
        elif self._keep(node, is_dict=read.is_dict):
            templates = _FIRST_CALL if is_guarded(source, read) else _ANY_CALL
            report.rewrite(node, READ, _MESSAGE, _template(templates[read.style], read))
        else:
            reason = "the call is used in a way that cannot be followed; read tool_calls here"
            report.leave(node, READ, _MESSAGE, reason)

    def _migrate_member(self, node: cst.CSTNode, *, is_dict: bool) -> None:
        """Read the name or the arguments from the function in a tool call."""
        found = member(self._source, node)
        if found is None:
            return
        template = '{call}["function"]' if is_dict else "{call}.function"
        self._report.edits.replace(node, lambda call: expression(template, call=_expression(call)))

    def _keep(self, node: cst.CSTNode, *, is_dict: bool) -> bool:
        """Follow a call to the variable or parameter that keeps it; return whether that works."""
        source, parent = self._source, self._source.parent(node)
        scope = source.scope(node)
        match parent:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
                return self._add(CallVariable(scope, name, is_dict))
            case cst.NamedExpr(target=cst.Name(value=name)):
                return self._add(CallVariable(scope, name, is_dict))
            case cst.Arg():
                return self._pass(parent, is_dict=is_dict)
            case _:
                return False

    def _add(self, variable: CallVariable) -> bool:
        known = {(id(one.scope), one.name): one for one in self.variables}
        former = known.get((id(variable.scope), variable.name))
        if former is None:
            self.variables.append(variable)
        return former is None or former.is_dict == variable.is_dict

    def _pass(self, argument: cst.Arg, *, is_dict: bool) -> bool:
        """Follow a call to the parameter of a function of this module."""
        call = self._source.parent(argument)
        if not isinstance(call, cst.Call):
            return False
        function = self._callee(call)
        if function is None:
            return False
        name = _parameter(call, argument, function)
        return name is not None and self._add(CallVariable(function, name, is_dict))

    def _callee(self, call: cst.Call) -> cst.FunctionDef | None:
        match call.func:
            case cst.Name(value=name):
                return self._source.functions.get(name)
            case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
                return self._source.functions.get(name)
            case _:
                return None

    # Variables

    def _migrate_variable(self, variable: CallVariable) -> None:
        source, report = self._source, self._report
        for use in source.names(variable.scope, variable.name):
            if self._is_assigned(use) or _is_harmless(source, use):
                continue
            if member(source, use) is not None:
                self._migrate_member(use, is_dict=variable.is_dict)
            elif not self._keep(use, is_dict=variable.is_dict):
                reason = f"{variable.name} would be a tool call; this use of it cannot be followed"
                report.leave(use, READ, _MESSAGE, reason)

    def _is_assigned(self, use: cst.Name) -> bool:
        parent = self._source.parent(use)
        match parent:
            case cst.AssignTarget():
                return True
            case cst.NamedExpr(target=target) | cst.AnnAssign(target=target):
                return target is use
            case _:
                return False

    # Conditions

    def _migrate_comparison(self, comparison: cst.Comparison) -> None:
        if len(comparison.comparisons) != 1:
            return
        [target] = comparison.comparisons
        for side, other in (
            (comparison.left, target.comparator),
            (target.comparator, comparison.left),
        ):
            if syntax.string(side) != FIELD:
                continue
            if isinstance(target.operator, cst.In | cst.NotIn) and side is comparison.left:
                self._migrate_membership(side, other)
            elif _reads_finish_reason(other):
                message = 'compares finish_reason with "function_call"'
                self._report.rewrite(
                    side, FINISH_REASON, message, lambda node: syntax.with_text(node, "tool_calls")
                )

    def _migrate_membership(self, side: cst.BaseExpression, message: cst.BaseExpression) -> None:
        """Rewrite `"function_call" in message`."""
        if syntax.code(message).endswith("finish_reason"):
            return
        report = self._report
        report.rewrite(side, READ, _MESSAGE, lambda node: syntax.with_text(node, "tool_calls"))

    def _migrate_hasattr(self, call: cst.Call) -> None:
        if syntax.code(call.func) != "hasattr" or len(call.args) != 2:  # noqa: PLR2004 - its parameters
            return
        name = call.args[1].value
        if syntax.string(name) == FIELD:
            self._report.rewrite(
                name, READ, _MESSAGE, lambda node: syntax.with_text(node, "tool_calls")
            )


def _template(template: str, read: Read) -> Callable[[cst.CSTNode], cst.CSTNode]:
    return lambda _: expression(template, message=read.message)


def _expression(node: cst.CSTNode) -> cst.BaseExpression:
    assert isinstance(node, cst.BaseExpression)  # noqa: S101 - only expressions are edited so
    return node


def _is_history_value(source: Source, node: cst.CSTNode) -> bool:
    """Whether an expression is the call in a message of the history, which is migrated there."""
    parent = source.parent(node)
    return isinstance(parent, cst.DictElement) and syntax.string(parent.key) == FIELD


def _is_harmless(source: Source, use: cst.CSTNode) -> bool:
    """Whether a use of a call is the same for a tool call."""
    return (
        is_condition(source, use)
        or none_comparison(source, use) is not None
        or _is_history_value(source, use)
    )


def _parameter(call: cst.Call, argument: cst.Arg, function: cst.FunctionDef) -> str | None:
    """Return the parameter of a function that an argument is passed to."""
    if argument.keyword is not None:
        return argument.keyword.value
    names = [parameter.name.value for parameter in function.params.params]
    if isinstance(call.func, cst.Attribute) and names[:1] == ["self"]:
        names = names[1:]
    place = call.args.index(argument)
    is_plain = all(not one.star and one.keyword is None for one in call.args[:place])
    return names[place] if is_plain and place < len(names) else None


def _reads_finish_reason(node: cst.BaseExpression) -> bool:
    return (
        syntax.code(node).endswith("finish_reason")
        or syntax.key(node) == "finish_reason"
        or syntax.method_argument(node, "get") == "finish_reason"
    )


def call_ids(
    source: Source, replies: ReplyMigration, node: cst.CSTNode
) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the expressions for the id of a call that was read before a node or inside it."""
    place, scope = source.place(node), source.scope(node)
    for variable in replies.variables:
        if variable.scope is scope:
            yield (0, 0), f'{variable.name}["id"]' if variable.is_dict else f"{variable.name}.id"
    for read in replies.reads:
        is_before = source.place(read.node) < place or node in source.ancestors(read.node)
        if source.scope(read.node) is scope and not read.is_delta and is_before:
            call = _FIRST_CALL[read.style].format(message=syntax.code(read.message))
            yield source.place(read.node), call + ('["id"]' if read.is_dict else ".id")
