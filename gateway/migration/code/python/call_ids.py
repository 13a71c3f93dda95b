"""The id of the call that a result belongs to, for each place that sends a result."""

from collections.abc import Callable, Iterator, Sequence

import libcst as cst
from msgspec import Struct

from gateway.migration.code.python import syntax
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.program import Scope
from gateway.migration.code.python.syntax import expression
from gateway.migration.code.python.uses import message_of
from gateway.migration.code.python.values import CALL, Value

PARAMETER = "tool_call_id"
_MAXIMUM_DEPTH = 6
_RULE = "function-message"
_READS = {
    "message": "{value}.function_call",
    "choice": "{value}.message.function_call",
    "reply": "{value}.choices[0].message.function_call",
}
_DICT_READS = {
    "message": '{value}["function_call"]',
    "choice": '{value}["message"]["function_call"]',
    "reply": '{value}["choices"][0]["message"]["function_call"]',
}

# Returns an id when the program is rewritten, because it depends on other changes.
CallId = Callable[[], cst.BaseExpression]


class _Planned(Struct):
    """Functions that receive an id as a new parameter, and the ids that their callers pass."""

    functions: list[cst.FunctionDef] = []
    arguments: list[tuple[cst.Call, CallId]] = []


class CallIds:
    """Finds ids of calls; functions that need one from their callers get a parameter for it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._program = context.program
        self._values = context.values
        self._reads: dict[Scope, list[cst.BaseExpression]] = {}
        for node in self._program.expressions():
            value = self._values.of(node)
            if value is not None and value.kind == CALL:
                self._reads.setdefault(self._program.scope(node), []).append(node)
        for scope, reads in self._reads.items():
            self._reads[scope] = sorted(reads, key=self._program.order)
        self._threaded: dict[cst.FunctionDef, str] = {}
        self._missing: set[cst.FunctionDef] = set()

    def find(self, node: cst.CSTNode, rule: str) -> CallId | None:
        """Return the id for a place of the program; None if it is not known there."""
        found = self._known(node)
        if found is not None:
            return found
        function = self._program.function(node)
        if function is None:
            return None
        planned = _Planned()
        if not self._plan(function, planned, _MAXIMUM_DEPTH):
            return None
        self._carry_out(planned, rule)
        return lambda: cst.Name(PARAMETER)

    def _known(self, node: cst.CSTNode) -> CallId | None:
        """Return the id of a call that can be read at a place."""
        function = self._program.function(node)
        if function in self._threaded:
            return lambda: cst.Name(PARAMETER)
        streamed = self._context.streams.call_id(node)
        if streamed is not None:
            return streamed
        scope: Scope | None = self._program.scope(node)
        while scope is not None:
            found = next(self._in_scope(node, scope), None)
            if found is not None:
                return found
            scope = self._enclosing(scope)
        return self._in_attributes(node)

    def _enclosing(self, scope: Scope) -> Scope | None:
        """Return the function around another one, whose variables it can read."""
        if isinstance(scope, cst.Module):
            return None
        outer = self._program.scope(scope)
        return outer if isinstance(outer, cst.FunctionDef | cst.Lambda) else None

    def _in_scope(self, node: cst.CSTNode, scope: Scope) -> Iterator[CallId]:
        order = self._program.order(node)
        for read in reversed(self._reads.get(scope, ())):
            is_before = self._program.order(read) < order
            if not (is_before or self._program.is_inside(read, node)):
                continue
            value = self._values.of(read)
            if value is None or value.is_delta:
                continue
            changed = self._changed_at(read, node)
            if changed is None:
                yield self._id_of(read, value)
            elif self._program.scope(changed) is self._program.scope(node):
                yield self._kept_before(changed, self._id_of(read, value))
        for name, value in self._values.variables(scope):
            is_current = self._is_bound_before(scope, name, order)
            if is_current and self._is_current(scope, name, node) and not value.is_delta:
                if value.kind == CALL:
                    yield self._id_of(cst.Name(name), value)
                elif value.kind in _READS:
                    yield self._id_in(cst.Name(name), value)

    def _is_bound_before(self, scope: Scope, name: str, order: int) -> bool:
        uses = self._program.uses(scope, name)
        return any(
            self._program.order(use) < order and self._program.is_target(use) for use in uses
        )

    def _is_current(self, scope: Scope, name: str, node: cst.CSTNode) -> bool:
        """Whether the last value of a variable before a place is a reply or a part of one."""
        order = self._program.order(node)
        bound = [
            use
            for use in self._program.uses(scope, name)
            if self._program.order(use) < order and self._program.is_target(use)
        ]
        parent = self._program.parent(max(bound, key=self._program.order))
        assign = self._program.parent(parent) if isinstance(parent, cst.AssignTarget) else None
        return not isinstance(assign, cst.Assign) or self._values.of(assign.value) is not None

    def _changed_at(self, read: cst.BaseExpression, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return where the variable of a read gets another value before a later place."""
        name = syntax.root(read)
        if name is None:
            return None
        start, end = self._program.order(read), self._program.order(node)
        for use in self._program.uses(self._program.binding(name), name.value):
            if start < self._program.order(use) < end and self._program.is_target(use):
                statement = self._program.statement(use)
                if not self._program.is_inside(read, statement):
                    return use
        return None

    def _kept_before(self, changed: cst.CSTNode, call_id: CallId) -> CallId:
        """Keep an id in a variable before the variable of its message is changed."""
        self._context.report.edits(_RULE).insert_before(
            self._program.statement(changed),
            lambda: f"{PARAMETER} = {syntax.code(call_id())}\n",
        )
        return _parameter

    def _id_of(self, read: cst.BaseExpression, value: Value) -> CallId:
        """Return the id of a call that an expression is."""
        target = self._context.target
        message = message_of(read)

        def build() -> cst.BaseExpression:
            loop_variable = self._context.loops.variable(read)
            is_known = self._program.has(read)
            is_dict = self._context.is_dict(value, read) if is_known else value.is_dict
            if loop_variable is not None:
                call: cst.BaseExpression = cst.Name(loop_variable)
            elif message is not None and not self._context.is_kept_attribute(read):
                call = target.first_call(self._read(message, is_dict=is_dict))
            else:
                call = self._kept(read)
            template = (
                f'{{call}}["{target.id_field}"]' if is_dict else f"{{call}}.{target.id_field}"
            )
            return expression(template, call=call)

        return build

    def _read(self, message: cst.BaseExpression, *, is_dict: bool) -> cst.BaseExpression:
        rewritten = self._context.report.rewritten(message)
        template = '{message}["function_call"]' if is_dict else "{message}.function_call"
        return expression(template, message=rewritten)

    def _kept(self, read: cst.BaseExpression) -> cst.BaseExpression:
        return cst.Name(read.value) if isinstance(read, cst.Name) else read.deep_clone()

    def _id_in(self, variable: cst.Name, value: Value) -> CallId:
        """Return the id of the first call in a message, choice or reply."""

        def build() -> cst.BaseExpression:
            is_old = value.is_old and not value.is_dict
            is_dict = "sdk" not in self._context.report.applied if is_old else value.is_dict
            kind = value.kind if self._context.target.name == "chat" else "message"
            read = expression((_DICT_READS if is_dict else _READS)[kind], value=variable)
            field = self._context.target.id_field
            call = self._context.target.first_call(read)
            return expression(f'{{call}}["{field}"]' if is_dict else f"{{call}}.{field}", call=call)

        return build

    def _in_attributes(self, node: cst.CSTNode) -> CallId | None:
        """Return the id of a call that an attribute of the same object keeps."""
        function = self._program.function(node)
        if function is None or not isinstance(self._program.scope(function), cst.ClassDef):
            return None
        for kinds in ((CALL,), tuple(_READS)):
            for name, value in self._values.attributes():
                if value.kind in kinds and not value.is_delta and self._is_read(function, name):
                    attribute = cst.Attribute(cst.Name("self"), cst.Name(name))
                    if value.kind == CALL:
                        return self._attribute_id(attribute, value)
        return None

    def _is_read(self, function: cst.FunctionDef, attribute: str) -> bool:
        return any(
            isinstance(one, cst.Attribute)
            and one.attr.value == attribute
            and syntax.code(one.value) == "self"
            for one in self._program.descendants(function)
        )

    def _attribute_id(self, attribute: cst.Attribute, value: Value) -> CallId:
        field = self._context.target.id_field
        template = f'{{call}}["{field}"]' if value.is_dict else f"{{call}}.{field}"
        return lambda: expression(template, call=attribute)

    # New parameters

    def _plan(self, function: cst.FunctionDef, planned: _Planned, depth: int) -> bool:
        """Plan to pass an id to a function; return whether all its callers know one."""
        if function in planned.functions or function in self._threaded:
            return True
        if not depth or function in self._missing or not self._can_be_extended(function):
            return False
        planned.functions.append(function)
        for call in self._context.references.callers(function):
            call_id = self._known(call)
            if call_id is None:
                outer = self._program.function(call)
                if outer is None or not self._plan(outer, planned, depth - 1):
                    self._missing.add(function)
                    return False
                call_id = _parameter
            planned.arguments.append((call, call_id))
        return True

    def _can_be_extended(self, function: cst.FunctionDef) -> bool:
        names = self._program.names_in(function)
        return self._context.references.is_only_called(function) and PARAMETER not in names

    def _carry_out(self, planned: _Planned, rule: str) -> None:
        edits = self._context.report.edits(rule)
        for function in planned.functions:
            if function not in self._threaded:
                self._threaded[function] = PARAMETER
                edits.replace(function.params, _with_parameter)
        for call, call_id in planned.arguments:
            edits.replace(call, _passing(call_id))


def _parameter() -> cst.BaseExpression:
    return cst.Name(PARAMETER)


def _with_parameter(node: cst.CSTNode) -> cst.CSTNode:
    """Return the parameters of a function with one for the id."""
    assert isinstance(node, cst.Parameters)  # noqa: S101 - an edit of parameters
    is_annotated = any(one.annotation is not None for one in node.params)
    annotation = cst.Annotation(cst.Name("str")) if is_annotated else None
    added = cst.Param(cst.Name(PARAMETER), annotation=annotation)
    has_default = any(one.default is not None for one in node.params)
    is_plain = not (node.kwonly_params or isinstance(node.star_arg, cst.Param) or has_default)
    if is_plain and not isinstance(node.star_kwarg, cst.Param):
        return node.with_changes(params=_added(node.params, added))
    changes: dict[str, object] = {"kwonly_params": _added(node.kwonly_params, added)}
    if not node.kwonly_params and not isinstance(node.star_arg, cst.Param):
        changes["star_arg"] = cst.ParamStar()
    return node.with_changes(**changes)


def _added(parameters: Sequence[cst.Param], added: cst.Param) -> list[cst.Param]:
    """Return parameters with a further one, in the layout of the last one."""
    if not parameters:
        return [added]
    *others, last = parameters
    layout = others[-1].comma if others else cst.MaybeSentinel.DEFAULT
    if not isinstance(layout, cst.Comma):
        layout = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [
        *others,
        last.with_changes(comma=layout, whitespace_after_param=cst.SimpleWhitespace("")),
        added.with_changes(comma=last.comma, whitespace_after_param=last.whitespace_after_param),
    ]


def _passing(call_id: CallId) -> Callable[[cst.CSTNode], cst.CSTNode]:
    def edit(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Call)  # noqa: S101 - an edit of a call
        return syntax.with_argument(node, PARAMETER, call_id())

    return edit
