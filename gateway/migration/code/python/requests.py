"""The fields `functions` and `function_call` of requests."""

from collections.abc import Callable, Sequence

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.report import Report
from gateway.migration.code.python.source import Source
from gateway.migration.code.python.syntax import expression

FUNCTIONS = "request-functions"
FUNCTION_CALL = "request-function-call"

_FUNCTIONS_MESSAGE = "sends functions"
_CHOICE_MESSAGE = "sends function_call"
_CREATE = (".create", ".acreate", ".parse", ".stream", "completion")
_TOOL = '{"type": "function", "function": {function}}'
_TOOLS = '[{"type": "function", "function": function} for function in {functions}]'
_MODES = ("auto", "none")


class RequestMigration:
    """Rewrites what a program sends."""

    def __init__(self, source: Source, report: Report) -> None:
        self._source = source
        self._report = report

    def migrate(self) -> None:
        """Rewrite the arguments of requests, and the dictionaries that are passed as `**`."""
        for call in self._source.of_type(cst.Call):
            if is_request(call):
                self._migrate_call(call)
        for node in self._source.of_type(cst.Dict):
            if self._is_request(node):
                self._migrate_dict(node)
        for assign in self._source.of_type(cst.Assign):
            self._migrate_item(assign)

    # Arguments

    def _migrate_call(self, call: cst.Call) -> None:
        functions = syntax.keyword(call, "functions")
        if functions is not None:
            self._report.find(functions, FUNCTIONS, _FUNCTIONS_MESSAGE)
            may_be_none = self._may_be_none(functions.value)
            self._report.edits.replace(
                call, lambda node: _with_tools(node, may_be_none=may_be_none)
            )
        choice = syntax.keyword(call, "function_call")
        if choice is not None:
            self._report.rewrite(choice, FUNCTION_CALL, _CHOICE_MESSAGE, _rename_choice)

    def _may_be_none(self, functions: cst.BaseExpression) -> bool:
        """Whether an expression is a parameter whose default is None."""
        scope = self._source.scope(functions)
        if not isinstance(functions, cst.Name) or not isinstance(scope, cst.FunctionDef):
            return False
        parameters = (*scope.params.params, *scope.params.kwonly_params)
        return any(
            one.name.value == functions.value
            and one.default is not None
            and syntax.code(one.default) == "None"
            for one in parameters
        )

    # Dictionaries

    def _is_request(self, node: cst.Dict) -> bool:
        """Whether a dictionary has the fields of a request."""
        names = {name for name, _ in syntax.dict_items(node)}
        has_legacy = bool(names & {"functions", "function_call"}) and "role" not in names
        return has_legacy and bool(names & {"model", "messages"} or self._is_passed(node))

    def _is_passed(self, node: cst.CSTNode) -> bool:
        """Whether a dictionary is passed to a request as `**`, also by a variable."""
        parent = self._source.parent(node)
        match parent:
            case cst.Arg(star="**"):
                call = self._source.parent(parent)
                return isinstance(call, cst.Call) and is_request(call)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
                return self._is_request_variable(node, name)
            case _:
                return False

    def _is_request_variable(self, node: cst.CSTNode, name: str) -> bool:
        scope = self._source.scope(node)
        return any(
            argument.star == "**" and syntax.code(argument.value) == name
            for call in self._source.within(scope, cst.Call)
            if is_request(call)
            for argument in call.args
        )

    def _migrate_dict(self, node: cst.Dict) -> None:
        for name, element in syntax.dict_items(node):
            if name == "functions":
                self._report.find(element, FUNCTIONS, _FUNCTIONS_MESSAGE)
                self._report.edits.replace(node, _with_tool_elements)
            elif name == "function_call":
                self._report.rewrite(
                    element, FUNCTION_CALL, _CHOICE_MESSAGE, _rename_choice_element
                )

    # Assignments: `arguments["functions"] = ...`

    def _migrate_item(self, assign: cst.Assign) -> None:
        if len(assign.targets) != 1 or not isinstance(assign.targets[0].target, cst.Subscript):
            return
        target = assign.targets[0].target
        name = syntax.key(target)
        variable = syntax.code(target.value)
        if name not in ("functions", "function_call") or not self._is_request_variable(
            assign, variable
        ):
            return
        statement = self._source.statement(assign)
        if name == "functions":
            self._report.rewrite(assign, FUNCTIONS, _FUNCTIONS_MESSAGE, _assign_tools)
            code = f'{variable}["parallel_tool_calls"] = False\n'
            self._report.edits.insert_before(statement, code)
        else:
            self._report.rewrite(assign, FUNCTION_CALL, _CHOICE_MESSAGE, _assign_choice)


def is_request(call: cst.Call) -> bool:
    """Whether a call sends a request, by the name of its function."""
    name = syntax.code(call.func)
    is_create = name.endswith(_CREATE)
    return is_create and ("hat" in name or "ompletion" in name or "llm" in name)


# Values


def tools_of(functions: cst.BaseExpression) -> cst.BaseExpression:
    """Return the tools for an expression with functions."""
    if isinstance(functions, cst.List):
        elements = [_tool_element(element) for element in functions.elements]
        return functions.with_changes(elements=elements)
    return expression(_TOOLS, functions=functions)


def _tool_element(element: cst.BaseElement) -> cst.BaseElement:
    if isinstance(element, cst.StarredElement):
        return element.with_changes(value=tools_of(element.value))
    return element.with_changes(value=expression(_TOOL, function=element.value))


def choice_of(choice: cst.BaseExpression) -> cst.BaseExpression:
    """Return the tool choice for an expression with a function call."""
    if syntax.string(choice) is not None:
        return choice
    if isinstance(choice, cst.Dict):
        return expression(_TOOL, function=choice)
    if isinstance(choice, cst.IfExp):
        return choice.with_changes(body=choice_of(choice.body), orelse=choice_of(choice.orelse))
    template = "{choice} if isinstance({choice}, str) else " + _TOOL.replace(
        "{function}", "{choice}"
    )
    return expression(template, choice=choice)


# Edits


def _with_tools(node: cst.CSTNode, *, may_be_none: bool) -> cst.CSTNode:
    assert isinstance(node, cst.Call)  # noqa: S101 - an edit of a call
    arguments: list[cst.Arg] = []
    for argument in node.args:
        if argument.keyword is None or argument.keyword.value != "functions":
            arguments.append(argument)
        elif may_be_none:
            template = (
                '{"tools": ' + _TOOLS + ', "parallel_tool_calls": False} if {functions} else {}'
            )
            fields = expression(template, functions=argument.value)
            arguments.append(_starred(argument, fields))
        else:
            tools = argument.with_changes(keyword=cst.Name("tools"), value=tools_of(argument.value))
            arguments += [tools.with_changes(comma=_comma(argument)), _single_call(argument)]
    return node.with_changes(args=arguments)


def _starred(argument: cst.Arg, fields: cst.BaseExpression) -> cst.Arg:
    wrapped = fields.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.Arg(wrapped, star="**", comma=argument.comma)


def _comma(argument: cst.Arg) -> cst.Comma:
    """Return the comma behind an argument, or the usual one."""
    if isinstance(argument.comma, cst.Comma):
        return argument.comma
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _single_call(argument: cst.Arg) -> cst.Arg:
    """Return the argument that requests one call at a time, as legacy functions did."""
    return cst.Arg(
        cst.Name("False"),
        keyword=cst.Name("parallel_tool_calls"),
        equal=argument.equal,
        comma=argument.comma,
        whitespace_after_arg=argument.whitespace_after_arg,
    )


def _rename_choice(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Arg)  # noqa: S101 - an edit of an argument
    return node.with_changes(keyword=cst.Name("tool_choice"), value=choice_of(node.value))


def _with_tool_elements(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Dict)  # noqa: S101 - an edit of a dictionary
    elements: list[cst.BaseDictElement] = []
    for element in node.elements:
        if isinstance(element, cst.DictElement) and syntax.string(element.key) == "functions":
            elements += _tool_elements(element)
        else:
            elements.append(element)
    return node.with_changes(elements=elements)


def _tool_elements(element: cst.DictElement) -> Sequence[cst.DictElement]:
    comma = element.comma
    if not isinstance(comma, cst.Comma):
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    tools = element.with_changes(
        key=syntax.with_text(element.key, "tools"), value=tools_of(element.value), comma=comma
    )
    single = element.with_changes(
        key=syntax.with_text(element.key, "parallel_tool_calls"), value=cst.Name("False")
    )
    return [tools, single]


def _rename_choice_element(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.DictElement)  # noqa: S101 - an edit of an element
    return node.with_changes(
        key=syntax.with_text(node.key, "tool_choice"), value=choice_of(node.value)
    )


def _assign_tools(node: cst.CSTNode) -> cst.CSTNode:
    return _assign(node, "tools", tools_of)


def _assign_choice(node: cst.CSTNode) -> cst.CSTNode:
    return _assign(node, "tool_choice", choice_of)


def _assign(
    node: cst.CSTNode, name: str, convert: Callable[[cst.BaseExpression], cst.BaseExpression]
) -> cst.CSTNode:
    assert isinstance(node, cst.Assign)  # noqa: S101 - an edit of an assignment
    [target] = node.targets
    assert isinstance(target.target, cst.Subscript)  # noqa: S101 - only items are assigned so
    [element] = target.target.slice
    assert isinstance(element.slice, cst.Index)  # noqa: S101 - a key is no slice
    index = element.slice.with_changes(value=syntax.with_text(element.slice.value, name))
    changed = target.target.with_changes(slice=[element.with_changes(slice=index)])
    return node.with_changes(
        targets=[target.with_changes(target=changed)], value=convert(node.value)
    )
