"""The fields `functions` and `function_call` of requests."""

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.entries import Entries, Entry
from gateway.migration.code.python.request_dicts import FIELDS
from gateway.migration.code.python.syntax import expression

FUNCTIONS = "request-functions"
FUNCTION_CALL = "request-function-call"

_FUNCTIONS_MESSAGE = "sends functions"
_CHOICE_MESSAGE = "sends function_call"
_READ = "the functions of a request are read here; read its tools"
_NOT_GIVEN = ("None", "NOT_GIVEN", "openai.NOT_GIVEN", "NotGiven()", "openai.omit", "omit", "[]")


class RequestMigration:
    """Rewrites what a program sends."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._program = context.program
        self._report = context.report
        self._dicts = context.request_dicts

    def migrate(self) -> None:
        """Rewrite the arguments of requests, and the dictionaries that are passed as `**`."""
        for call in self._program.of_type(cst.Call):
            self._migrate_call(call)
        for node in self._program.of_type(cst.Dict):
            if self._dicts.is_request(node):
                self._migrate_entries(node)
        for assign in self._program.of_type(cst.Assign):
            self._migrate_item(assign)
        for subscript in self._program.of_type(cst.Subscript):
            self._migrate_other_use(subscript)
        for comparison in self._program.of_type(cst.Comparison):
            self._migrate_membership(comparison)

    # Arguments and entries

    def _migrate_call(self, call: cst.Call) -> None:
        names = Entries.of(call).names
        if not names & set(FIELDS):
            self._migrate_method(call)
            return
        is_dict = syntax.code(call.func) == "dict" and self._dicts.is_request(call)
        if is_dict or self._dicts.is_update(call):
            self._migrate_entries(call)
        elif self._dicts.is_request_call(call):
            self._migrate_entries(call, self._own_parameters(call))

    def _own_parameters(self, call: cst.Call) -> frozenset[str]:
        """Return the parameters of a function of the program, which keep their names."""
        callee = self._context.references.callee(call)
        if isinstance(callee, cst.FunctionDef):
            parameters = (*callee.params.params, *callee.params.kwonly_params)
            return frozenset(one.name.value for one in parameters)
        return frozenset()

    def _migrate_entries(
        self, node: cst.Dict | cst.Call, left: frozenset[str] = frozenset()
    ) -> None:
        entries = Entries.of(node)
        found = [one for one in entries if one.name in FIELDS and one.name not in left]
        for entry in found:
            is_functions = entry.name == "functions"
            rule = FUNCTIONS if is_functions else FUNCTION_CALL
            message = _FUNCTIONS_MESSAGE if is_functions else _CHOICE_MESSAGE
            self._report.find(entry.node, rule, message)
        if not found:
            return
        optional = {one.name: self._is_optional(one.value) for one in found}

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            own = Entries.of(changed)
            new: list[Entry] = []
            for entry in own.all:
                if entry.name == "functions" and "functions" in optional:
                    new += self._tools(entry, is_optional=optional["functions"])
                elif entry.name == "function_call" and "function_call" in optional:
                    new += self._choice(entry, is_optional=optional["function_call"])
                else:
                    new.append(entry)
            return own.with_all(new)

        self._report.edits(FUNCTIONS).replace(node, edit)

    def _tools(self, entry: Entry, *, is_optional: bool) -> list[Entry]:
        if syntax.code(entry.value) in _NOT_GIVEN:
            return [entry.renamed("tools")]
        single = cst.Name("False")
        if not is_optional:
            tools = entry.renamed("tools").with_value(self.tools_of(entry.value))
            if self._context.loops.are_complete:
                return [tools]
            return [tools, entry.renamed("parallel_tool_calls").with_value(single)]
        fields = "" if self._context.loops.are_complete else ', "parallel_tool_calls": False'
        template = '{"tools": {tools}' + fields + "} if {test} else {}"
        test, value = _condition(entry.value)
        return [entry.starred(expression(template, tools=self.tools_of(value), test=test))]

    def _choice(self, entry: Entry, *, is_optional: bool) -> list[Entry]:
        if not is_optional:
            return [
                entry.renamed("tool_choice").with_value(
                    syntax.bare_test(self.choice_of(entry.value))
                )
            ]
        test, value = _condition(entry.value)
        template = '{"tool_choice": {choice}} if {test} else {}'
        return [entry.starred(expression(template, choice=self.choice_of(value), test=test))]

    def _is_optional(self, value: cst.BaseExpression) -> bool:
        """Whether a value may be None."""
        match value:
            case cst.IfExp(body=body, orelse=orelse):
                return any(syntax.code(one) in _NOT_GIVEN for one in (body, orelse))
            case cst.BooleanOperation(operator=cst.Or(), right=right):
                return syntax.code(right) in _NOT_GIVEN
            case cst.Name(value=name):
                return self._is_optional_parameter(value, name)
            case _:
                return False

    def _is_optional_parameter(self, node: cst.Name, name: str) -> bool:
        scope = self._program.binding(node)
        if not isinstance(scope, cst.FunctionDef):
            return False
        parameters = (*scope.params.params, *scope.params.kwonly_params)
        defaults = [one.default for one in parameters if one.name.value == name]
        tests = [
            outer.test
            for outer in self._program.ancestors(node)
            if isinstance(outer, cst.If | cst.IfExp)
        ]
        if any(name in syntax.code(test).split() for test in tests):
            return False
        return any(one is not None and syntax.code(one) in _NOT_GIVEN for one in defaults)

    # Items: `arguments["functions"] = ...`

    def _migrate_item(self, assign: cst.Assign) -> None:
        target = assign.targets[0].target
        name = syntax.key(target) if isinstance(target, cst.Subscript) else None
        if len(assign.targets) != 1 or name not in FIELDS or not isinstance(target, cst.Subscript):
            return
        if not self._dicts.is_request_dict(target.value):
            return
        is_functions = name == "functions"
        rule, message = (
            (FUNCTIONS, _FUNCTIONS_MESSAGE) if is_functions else (FUNCTION_CALL, _CHOICE_MESSAGE)
        )
        convert = self.tools_of if is_functions else self.choice_of
        new_name = "tools" if is_functions else "tool_choice"

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Assign)  # noqa: S101 - an edit of an assignment
            [one] = changed.targets
            return changed.with_changes(
                targets=[one.with_changes(target=syntax.with_key(one.target, new_name))],
                value=syntax.bare_test(convert(changed.value)),
            )

        self._report.rewrite(assign, rule, message, edit)
        if is_functions:
            self._add_single_call(assign, target.value)

    def _add_single_call(self, node: cst.CSTNode, request: cst.BaseExpression) -> None:
        def code() -> str | None:
            if self._context.loops.are_complete:
                return None
            return f'{syntax.code(request)}["parallel_tool_calls"] = False\n'

        self._report.edits(FUNCTIONS).insert_after(self._program.statement(node), code)

    def _migrate_method(self, call: cst.Call) -> None:
        """Rewrite `request.pop("functions", None)` and `request.setdefault("functions", ...)`."""
        match call:
            case cst.Call(
                func=cst.Attribute(value=request, attr=cst.Name(value=method)), args=[first, *_]
            ) if method in ("pop", "setdefault", "get"):
                name = syntax.string(first.value)
            case _:
                return
        if name not in FIELDS or not self._dicts.is_request_dict(request):
            return
        rule = FUNCTIONS if name == "functions" else FUNCTION_CALL
        message = _FUNCTIONS_MESSAGE if name == "functions" else _CHOICE_MESSAGE
        is_statement = isinstance(self._program.parent(call), cst.Expr)
        if not is_statement and not (method == "get" and self._context.uses.is_condition(call)):
            self._report.leave(call, rule, message, _READ)
            return
        new_name = "tools" if name == "functions" else "tool_choice"
        convert = self.tools_of if name == "functions" else self.choice_of

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Call)  # noqa: S101 - an edit of a call
            key, *others = changed.args
            key = key.with_changes(value=syntax.with_text(key.value, new_name))
            if method == "setdefault":
                others = [one.with_changes(value=convert(one.value)) for one in others]
            return changed.with_changes(args=[key, *others])

        self._report.rewrite(call, rule, message, edit)
        if name == "functions" and method == "setdefault":
            self._add_single_call(call, request)
        elif name == "functions" and method == "pop":
            text = f'{syntax.code(request)}.pop("parallel_tool_calls", None)\n'
            self._report.edits(FUNCTIONS).insert_after(
                self._program.statement(call),
                lambda: None if self._context.loops.are_complete else text,
            )

    def _migrate_other_use(self, node: cst.Subscript) -> None:
        """Rewrite `del request["functions"]`; leave reads of it for a person."""
        name = syntax.key(node)
        if name not in FIELDS or not self._dicts.is_request_dict(node.value):
            return
        parent = self._program.parent(node)
        if isinstance(parent, cst.AssignTarget):
            return
        if isinstance(parent, cst.Element):
            # `del request["functions"], request["function_call"]`
            outer = self._program.parent(parent)
            parent = self._program.parent(outer) if outer is not None else None
        rule = FUNCTIONS if name == "functions" else FUNCTION_CALL
        message = _FUNCTIONS_MESSAGE if name == "functions" else _CHOICE_MESSAGE
        if not isinstance(parent, cst.Del):
            self._report.leave(node, rule, message, _READ)
            return
        new_name = "tools" if name == "functions" else "tool_choice"
        self._report.rewrite(node, rule, message, lambda one: syntax.with_key(one, new_name))
        if name == "functions":
            text = f'{syntax.code(node.value)}.pop("parallel_tool_calls", None)\n'
            self._report.edits(FUNCTIONS).insert_after(
                self._program.statement(node),
                lambda: None if self._context.loops.are_complete else text,
            )

    def _migrate_membership(self, comparison: cst.Comparison) -> None:
        """Rewrite `"functions" in request`."""
        match comparison:
            case cst.Comparison(
                left=left,
                comparisons=[cst.ComparisonTarget(operator=cst.In() | cst.NotIn(), comparator=one)],
            ) if syntax.string(left) in FIELDS and self._dicts.is_request_dict(one):
                pass
            case _:
                return
        is_functions = syntax.string(left) == "functions"
        new_name = "tools" if is_functions else "tool_choice"
        self._report.rewrite(
            left,
            FUNCTIONS if is_functions else FUNCTION_CALL,
            _FUNCTIONS_MESSAGE if is_functions else _CHOICE_MESSAGE,
            lambda node: syntax.with_text(node, new_name),
        )

    # Values

    def tools_of(self, functions: cst.BaseExpression) -> cst.BaseExpression:
        """Return the tools for an expression with functions."""
        match functions:
            case cst.List(elements=[cst.StarredElement(value=value)]):
                return self.tools_of(value)
            case cst.List(elements=elements):
                tools = [self._tool_element(element) for element in elements]
                return functions.with_changes(elements=tools)
            case cst.ListComp(elt=element):
                return functions.with_changes(elt=self._tool(element))
            case cst.BooleanOperation(left=left, operator=cst.Or(), right=right) if (
                syntax.code(right) in _NOT_GIVEN
            ):
                return self.tools_of(left)
            case _:
                template = "[" + self._context.target.tool + " for function in {functions}]"
                template = template.replace("{function}", "function")
                return syntax.with_parentheses_of(
                    functions, expression(template, functions=syntax.bare(functions))
                )

    def _tool_element(self, element: cst.BaseElement) -> cst.BaseElement:
        if isinstance(element, cst.StarredElement):
            return element.with_changes(value=self.tools_of(element.value))
        return element.with_changes(value=self._tool(element.value))

    def _tool(self, function: cst.BaseExpression) -> cst.BaseExpression:
        return _wrapped(self._context.target.tool, function)

    def choice_of(self, choice: cst.BaseExpression) -> cst.BaseExpression:
        """Return the tool choice for an expression with a function call."""
        if syntax.string(choice) is not None or syntax.code(choice) in _NOT_GIVEN:
            return choice
        match choice:
            case cst.Dict():
                return self._forced(choice)
            case cst.Call(func=cst.Name(value="dict")):
                return self._forced(choice)
            case cst.IfExp(body=body, orelse=orelse):
                return choice.with_changes(body=self.choice_of(body), orelse=self.choice_of(orelse))
            case _:
                template = "({choice} if isinstance({choice}, str) else " + (
                    self._context.target.choice.replace("{function}", "{choice}") + ")"
                )
                return expression(template, choice=choice)

    def _forced(self, function: cst.BaseExpression) -> cst.BaseExpression:
        return _wrapped(self._context.target.choice, function)


def _wrapped(template: str, function: cst.BaseExpression) -> cst.BaseExpression:
    """Return a template with a function, whose entries are merged into it if it is a literal."""
    spread = "**{function}"
    if spread not in template or not isinstance(function, cst.Dict) or not function.elements:
        return expression(template, function=function)
    head = expression(template.replace(f", {spread}", ""))
    assert isinstance(head, cst.Dict)  # noqa: S101 - all templates are dictionaries
    fields = [one.with_changes(comma=syntax.space_comma()) for one in head.elements]
    return function.with_changes(elements=[*fields, *function.elements])


def _condition(value: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """Return when an optional value is given, and what it is then."""
    match value:
        case cst.IfExp(test=test, body=body, orelse=orelse):
            if syntax.code(orelse) in _NOT_GIVEN:
                return test, body
            return expression("not {test}", test=test), orelse
        case cst.BooleanOperation(left=left, operator=cst.Or()):
            return left, left
        case _:
            return value, value
