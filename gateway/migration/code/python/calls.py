"""The calls of a reply: where a program reads `function_call`, and the variables that keep it.

A legacy reply has at most one call, so the program handles the first one. Its variables keep the
whole tool call, whose id the result needs, and not only the function in it.
"""

from collections.abc import Iterator
from typing import Literal

import libcst as cst
from msgspec import Struct

from gateway.migration.code.python import syntax
from gateway.migration.code.python.source import Scope, Source

FIELD = "function_call"

# How the message is read: `message.function_call`, `message["function_call"]`,
# `message.get("function_call")` or `getattr(message, "function_call", None)`.
Style = Literal["attribute", "subscript", "get", "getattr"]
_IN_DICT: tuple[Style, ...] = ("subscript", "get")
# What a program may read of a call.
_MEMBERS = ("name", "arguments")


class Read(Struct, frozen=True, eq=False):
    """An expression that reads the call of a message."""

    node: cst.BaseExpression
    message: cst.BaseExpression
    style: Style

    @property
    def is_dict(self) -> bool:
        """Whether the message is a dictionary and no object of the SDK."""
        return self.style in _IN_DICT

    @property
    def is_delta(self) -> bool:
        """Whether the message is a part of a streamed one."""
        name = syntax.code(self.message)
        return name.endswith(("delta", '["delta"]', "['delta']", '.get("delta")', ".get('delta')"))


class CallVariable(Struct, frozen=True, eq=False):
    """A variable or a parameter that has the call of a message."""

    scope: Scope
    name: str
    is_dict: bool


def find_reads(source: Source) -> Iterator[Read]:
    """Yield all expressions that read the call of a message."""
    for node in source.nodes:
        if isinstance(node, cst.Attribute) and node.attr.value == FIELD:
            yield Read(node, node.value, "attribute")
        elif isinstance(node, cst.Subscript) and syntax.key(node) == FIELD:
            if not _is_target(source, node):
                yield Read(node, node.value, "subscript")
        elif isinstance(node, cst.Call):
            if syntax.method_argument(node, "get") == FIELD and isinstance(
                node.func, cst.Attribute
            ):
                yield Read(node, node.func.value, "get")
            elif _is_getattr(node):
                yield Read(node, node.args[0].value, "getattr")


def _is_target(source: Source, node: cst.Subscript) -> bool:
    """Whether an expression is assigned to, or deleted."""
    return isinstance(source.parent(node), cst.AssignTarget | cst.Del)


def _is_getattr(node: cst.Call) -> bool:
    is_getattr = isinstance(node.func, cst.Name) and node.func.value == "getattr"
    return is_getattr and len(node.args) > 1 and syntax.string(node.args[1].value) == FIELD


# Places


def is_condition(source: Source, node: cst.CSTNode) -> bool:
    """Whether only the truth of an expression counts."""
    parent = source.parent(node)
    match parent:
        case (
            cst.If(test=test) | cst.While(test=test) | cst.IfExp(test=test) | cst.Assert(test=test)
        ):
            return test is node
        case cst.UnaryOperation(operator=cst.Not()):
            return True
        case cst.BooleanOperation():
            return is_condition(source, parent)
        case cst.Call(func=cst.Name(value="bool")) | cst.CompIf():
            return True
        case cst.Arg():
            outer = source.parent(parent)
            return isinstance(outer, cst.Call) and syntax.code(outer.func) == "bool"
        case _:
            return False


def none_comparison(source: Source, node: cst.CSTNode) -> cst.Comparison | None:
    """Return the comparison of an expression with None around it."""
    parent = source.parent(node)
    if not isinstance(parent, cst.Comparison) or parent.left is not node:
        return None
    [target] = parent.comparisons if len(parent.comparisons) == 1 else (None,)
    if target is None or not isinstance(target.comparator, cst.Name):
        return None
    return parent if target.comparator.value == "None" else None


def member(source: Source, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression that reads the name or the arguments of a call."""
    parent = source.parent(node)
    match parent:
        case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
            if name in _MEMBERS:
                return parent
            if name == "get":
                call = source.parent(parent)
                is_member = (
                    isinstance(call, cst.Call) and syntax.method_argument(call, "get") in _MEMBERS
                )
                return call if is_member and isinstance(call, cst.Call) else None
        case cst.Subscript(value=value) if value is node and syntax.key(parent) in _MEMBERS:
            return parent
        case _:
            pass
    return None


def is_guarded(source: Source, read: Read) -> bool:
    """Whether a read stands where the message is known to have a call."""
    message = syntax.code(read.message)
    inner: cst.CSTNode = read.node
    for outer in source.ancestors(read.node):
        if (
            isinstance(outer, cst.If | cst.IfExp)
            and inner is outer.body
            and _tests(outer.test, message)
        ):
            return True
        match outer:
            case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
                if inner is right and _tests(left, message):
                    return True
            case _:
                pass
        inner = outer
    return False


def _tests(test: cst.BaseExpression, message: str) -> bool:  # noqa: PLR0911 - one for each form
    """Whether a condition is true only if a message has a call."""
    match test:
        case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
            return _tests(left, message) or _tests(right, message)
        case cst.Comparison(left=left, comparisons=[target]):
            if isinstance(target.operator, cst.In):
                return syntax.string(left) == FIELD and syntax.code(target.comparator) == message
            if isinstance(target.operator, cst.IsNot | cst.NotEqual):
                return _tests(left, message)
            if isinstance(target.operator, cst.Equal):
                return syntax.string(target.comparator) == FIELD
            return False
        case cst.Attribute(value=value, attr=cst.Name(value="function_call")):
            return syntax.code(value) == message
        case cst.Subscript(value=value):
            return syntax.key(test) == FIELD and syntax.code(value) == message
        case cst.Call(func=cst.Attribute(value=value)):
            return syntax.method_argument(test, "get") == FIELD and syntax.code(value) == message
        case cst.Call(args=[first, *_]) if _is_getattr(test):
            return syntax.code(first.value) == message
        case _:
            return False
