"""Dictionaries and arguments that are sent as requests."""

from collections.abc import Iterator
from typing import Final

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.entries import Entries
from gateway.migration.code.python.program import Program, Scope
from gateway.migration.code.python.references import References
from gateway.migration.code.python.values import Values

FIELDS: Final = ("functions", "function_call")
# A variable of the program, or the name of an attribute.
Key = tuple[Scope, str] | str


class RequestDicts:
    """Finds what is sent as a request."""

    def __init__(self, program: Program, references: References, values: Values) -> None:
        self._program = program
        self._references = references
        self._values = values
        self._variables = set(self._find_variables())

    def is_request_call(self, call: cst.Call) -> bool:
        """Whether keyword arguments of a call are fields of a request."""
        values = self._values
        if values.kind(call.func) == "sender":
            return True
        if self._references.callee(call) in values.forwarders:
            return True
        return any(values.kind(argument.value) == "sender" for argument in call.args)

    def _find_variables(self) -> Iterator[Key]:
        """Yield the variables and attributes that are sent as requests."""
        for call in self._program.of_type(cst.Call):
            if self.is_request_call(call):
                for argument in call.args:
                    if argument.star == "**":
                        yield from self._keys(argument.value)
        assigns: list[cst.Assign | cst.AnnAssign]
        assigns = [*self._program.of_type(cst.Assign), *self._program.of_type(cst.AnnAssign)]
        for assign in assigns:
            if assign.value is not None and any(map(self._has_fields, _dicts(assign.value))):
                for target in _targets(assign):
                    yield from self._keys(target)

    def _keys(self, node: cst.BaseExpression) -> Iterator[Key]:
        match node:
            case cst.Name(value=name):
                yield self._program.binding(node), name
            case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
                yield name
            case _:
                pass

    def is_request_dict(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a dictionary that is sent as a request."""
        return any(key in self._variables for key in self._keys(node))

    def _has_fields(self, node: cst.Dict | cst.Call) -> bool:
        """Whether a dictionary has the fields of a request."""
        names = Entries.of(node).names
        return "messages" in names and bool(names & {"model", *FIELDS}) and "role" not in names

    def is_request(self, node: cst.Dict | cst.Call) -> bool:
        """Whether a dictionary is a request, or a part of one."""
        entries = Entries.of(node)
        if not entries.names & set(FIELDS) or "role" in entries.names:
            return False
        if self._has_fields(node) or (entries.names >= {"model", "functions"}):
            return True
        return self.is_sent(node)

    def is_sent(self, node: cst.BaseExpression) -> bool:
        """Whether a dictionary is passed to a request as `**`, or is a part of one that is."""
        if isinstance(node, cst.Dict | cst.Call) and self._has_fields(node):
            return True
        parent = self._program.parent(node)
        match parent:
            case cst.Arg(star="**"):
                call = self._program.parent(parent)
                return isinstance(call, cst.Call) and (
                    self.is_request_call(call) or self._is_dict_call_sent(call)
                )
            case cst.Arg():
                call = self._program.parent(parent)
                return isinstance(call, cst.Call) and self.is_update(call)
            case cst.Assign() | cst.AnnAssign():
                return any(self.is_request_dict(target) for target in _targets(parent))
            case cst.AugAssign(target=target):
                return self.is_request_dict(target)
            case cst.IfExp(test=test) if test is not node:
                return self.is_sent(parent)
            case cst.BooleanOperation() | cst.BinaryOperation():
                return self.is_sent(parent)
            case cst.StarredDictElement():
                outer = self._program.parent(parent)
                return isinstance(outer, cst.Dict) and (
                    self._has_fields(outer) or self.is_sent(outer)
                )
            case _:
                return False

    def _is_dict_call_sent(self, call: cst.Call) -> bool:
        return syntax.code(call.func) == "dict" and (self._has_fields(call) or self.is_sent(call))

    def is_update(self, call: cst.Call) -> bool:
        """Whether a call is `request.update(...)`."""
        match call.func:
            case cst.Attribute(value=value, attr=cst.Name(value="update")):
                return self.is_request_dict(value)
            case _:
                return False


def _dicts(value: cst.BaseExpression) -> Iterator[cst.Dict | cst.Call]:
    """Yield the dictionaries that an expression may be."""
    match value:
        case cst.Dict():
            yield value
        case cst.Call(func=cst.Name(value="dict")):
            yield value
        case cst.IfExp(body=one, orelse=other) | cst.BinaryOperation(left=one, right=other):
            yield from (*_dicts(one), *_dicts(other))
        case _:
            pass


def _targets(assign: cst.CSTNode) -> list[cst.BaseExpression]:
    match assign:
        case cst.Assign(targets=targets):
            return [one.target for one in targets]
        case cst.AnnAssign(target=target):
            return [target]
        case _:
            return []
