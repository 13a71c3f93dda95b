"""Short functions that build and recognize expressions."""

from collections.abc import Iterator
from typing import Any

import libcst as cst
from libcst.helpers import parse_template_expression

_PRINTER = cst.Module([])


def expression(template: str, **parts: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression of a template, whose `{name}` are replaced with expressions."""
    wrapped: dict[str, Any] = {name: operand(part) for name, part in parts.items()}
    return parse_template_expression(template, **wrapped)


def operand(part: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression that can be an operand of any operator."""
    is_simple = isinstance(
        part,
        cst.Name
        | cst.Attribute
        | cst.Subscript
        | cst.Call
        | cst.SimpleString
        | cst.Dict
        | cst.List,
    )
    if is_simple or part.lpar:
        return part
    return part.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def code(node: cst.CSTNode) -> str:
    """Return the source of a node."""
    return _PRINTER.code_for_node(node)


def string(node: cst.BaseExpression | None) -> str | None:
    """Return the value of a string literal; None for any other expression."""
    if isinstance(node, cst.SimpleString) and isinstance(node.evaluated_value, str):
        return node.evaluated_value
    return None


def with_text(node: cst.CSTNode, text: str) -> cst.CSTNode:
    """Return a string literal with another text and the same quotes."""
    assert isinstance(node, cst.SimpleString)  # noqa: S101 - callers pass only string literals
    return node.with_changes(value=f"{node.prefix}{node.quote}{text}{node.quote}")


def key(node: cst.BaseExpression) -> str | None:
    """Return the string by which an expression subscripts another one."""
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        return string(index.value) if isinstance(index, cst.Index) else None
    return None


def method_argument(node: cst.BaseExpression, method: str) -> str | None:
    """Return the first argument of a call of a method, if it is a string literal."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
        return string(node.args[0].value) if node.func.attr.value == method else None
    return None


def keyword(call: cst.Call, name: str) -> cst.Arg | None:
    """Return the keyword argument of a call with this name."""
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value == name:
            return argument
    return None


def dict_items(node: cst.Dict) -> Iterator[tuple[str, cst.DictElement]]:
    """Yield the elements of a dictionary whose keys are string literals."""
    for element in node.elements:
        if isinstance(element, cst.DictElement):
            name = string(element.key)
            if name is not None:
                yield name, element


def dict_value(node: cst.Dict, name: str) -> cst.BaseExpression | None:
    """Return the value of a string key in a dictionary."""
    return next((element.value for found, element in dict_items(node) if found == name), None)


def root_name(node: cst.BaseExpression) -> str | None:
    """Return the variable at the beginning of an expression."""
    while True:
        match node:
            case cst.Name():
                return node.value
            case cst.Attribute(value=value) | cst.Subscript(value=value) | cst.Call(func=value):
                node = value
            case cst.Await(expression=value):
                node = value
            case _:
                return None


def names(node: cst.BaseExpression) -> list[str]:
    """Return the variable, the attributes and the string keys that lead to an expression."""
    found: list[str] = []
    while True:
        match node:
            case cst.Name(value=value):
                return [*found, value]
            case cst.Attribute(value=value, attr=cst.Name(value=name)):
                found.append(name)
                node = value
            case cst.Subscript(value=value):
                text = key(node)
                found += [] if text is None else [text]
                node = value
            case cst.Call(func=value):
                argument = method_argument(node, "get")
                found += [] if argument is None else [argument]
                node = value
            case cst.Await(expression=value):
                node = value
            case _:
                return found


def with_parentheses_of(
    original: cst.BaseExpression, changed: cst.BaseExpression
) -> cst.BaseExpression:
    """Return an expression in the parentheses of another one, which may span lines."""
    if not original.lpar:
        return changed
    return changed.with_changes(
        lpar=[*original.lpar, *changed.lpar], rpar=[*changed.rpar, *original.rpar]
    )


def as_expression(node: cst.CSTNode) -> cst.BaseExpression:
    """Return a node that is an expression."""
    assert isinstance(node, cst.BaseExpression)  # noqa: S101 - callers pass only expressions
    return node


def is_getattr_of(node: cst.CSTNode, name: str) -> bool:
    """Whether an expression is `getattr(value, name, ...)`."""
    match node:
        case cst.Call(func=cst.Name(value="getattr"), args=[_, second, *_]):
            return string(second.value) == name
        case _:
            return False


def root(node: cst.BaseExpression) -> cst.Name | None:
    """Return the variable at the beginning of an expression."""
    while True:
        match node:
            case cst.Name():
                return node
            case cst.Attribute(value=value) | cst.Subscript(value=value) | cst.Call(func=value):
                node = value
            case cst.Await(expression=value):
                node = value
            case _:
                return None


def with_argument(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """Return a call with a further keyword argument, in the layout of the others."""
    added = cst.Arg(value, keyword=cst.Name(name), equal=plain_equal())
    if not call.args:
        return call.with_changes(args=[added])
    *others, last = call.args
    layout = others[-1].comma if others else cst.MaybeSentinel.DEFAULT
    if not isinstance(layout, cst.Comma):
        layout = last.comma if isinstance(last.comma, cst.Comma) else space_comma()
    moved = last.with_changes(comma=layout, whitespace_after_arg=cst.SimpleWhitespace(""))
    final = added.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    if last.star == "**":
        # A keyword argument stays before `**`.
        first = added.with_changes(comma=layout)
        return call.with_changes(args=[*others, first, last])
    return call.with_changes(args=[*others, moved, final])


def space_comma() -> cst.Comma:
    """Return a comma with a space behind it."""
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def plain_equal() -> cst.AssignEqual:
    """Return the equals sign of a keyword argument."""
    return cst.AssignEqual(
        whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
    )


def with_key(node: cst.CSTNode, name: str) -> cst.Subscript:
    """Return a subscript with another string, in the same quotes."""
    assert isinstance(node, cst.Subscript)  # noqa: S101 - callers pass only subscripts
    [element] = node.slice
    assert isinstance(element.slice, cst.Index)  # noqa: S101 - a key is no slice
    index = element.slice.with_changes(value=with_text(element.slice.value, name))
    return node.with_changes(slice=[element.with_changes(slice=index)])


def pattern_string(node: cst.CSTNode) -> str | None:
    """Return the value of a string literal in a pattern."""
    return string(node.value) if isinstance(node, cst.MatchValue) else None


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression without its outer parentheses."""
    return node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1]) if node.lpar else node


def bare_test(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a conditional expression without its parentheses, and others as they are."""
    return bare(node) if isinstance(node, cst.IfExp) else node
