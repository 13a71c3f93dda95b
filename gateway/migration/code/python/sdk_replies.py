"""Replies of version 0.28 of the OpenAI SDK, whose fields are read as items of a dictionary."""

from collections.abc import Callable
from typing import Final

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.syntax import as_expression, expression
from gateway.migration.code.python.values import Value

REPLY: Final = "openai-reply"

_MESSAGE = "reads a reply as a dictionary"
# Parts of a reply that are objects, and not text or numbers.
_OBJECTS = frozenset(("reply", "choice", "message", "call"))
_ADDED = frozenset(("append", "insert", "appendleft"))
_DICT_METHODS = frozenset(("items", "keys", "values", "copy", "pop", "update", "setdefault"))
_TYPE = "replies are no longer of this type"


class OldReplyMigration:
    """Rewrites the access to replies as dictionaries, which are objects since version 1."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._program = context.program
        self._report = context.report
        self._values = context.values

    def migrate(self) -> None:
        """Rewrite all expressions that read old replies."""
        for subscript in self._program.of_type(cst.Subscript):
            if syntax.key(subscript) is not None and self._is_object(subscript.value, fields=True):
                self._report.rewrite(subscript, REPLY, _MESSAGE, _as_attribute)
        for call in self._program.of_type(cst.Call):
            self._migrate_call(call)
        for comparison in self._program.of_type(cst.Comparison):
            self._migrate_membership(comparison)
        for node in self._program.expressions():
            # In the Responses API, it is the output of a response that is stored.
            is_output = self._context.target.name != "chat" and self._values.kind(node) != "call"
            if self._is_object(node) and self._is_stored(node) and not is_output:
                self._convert(node)

    def _is_object(self, node: cst.CSTNode, *, fields: bool = False) -> bool:
        """Whether an expression is an old object of the SDK."""
        value = self._values.of(node)
        if value is None or not value.is_old or value.is_dict:
            return False
        return value.kind in _OBJECTS or (fields and value.kind == "field")

    # Methods

    def _migrate_call(self, call: cst.Call) -> None:
        match call.func:
            case cst.Attribute(value=owner, attr=cst.Name(value=method)):
                if self._is_object(owner, fields=method == "get"):
                    self._migrate_method(call, owner, method)
            case cst.Name(value="isinstance") if "OpenAIObject" in syntax.code(call):
                self._report.leave(call, REPLY, _MESSAGE, _TYPE)
            case _:
                pass

    def _migrate_method(self, call: cst.Call, owner: cst.BaseExpression, method: str) -> None:
        if method == "get" and call.args and syntax.string(call.args[0].value) is not None:
            self._report.rewrite(call, REPLY, _MESSAGE, _as_default)
        elif method == "to_dict_recursive":
            self._report.rewrite(
                call.func, REPLY, _MESSAGE, lambda node: node.with_changes(attr=cst.Name("to_dict"))
            )
        elif method in _DICT_METHODS:
            if method in ("pop", "update", "setdefault"):
                reason = "a reply is changed here, which is no longer a dictionary"
                self._report.leave(call, REPLY, _MESSAGE, reason)
            else:
                self._convert(owner)

    # `"function_call" in message`

    def _migrate_membership(self, comparison: cst.Comparison) -> None:
        match comparison:
            case cst.Comparison(
                left=left,
                comparisons=[cst.ComparisonTarget(operator=cst.In() | cst.NotIn(), comparator=one)],
            ) if self._is_object(one):
                name = syntax.string(left)
            case _:
                return
        if name is None:
            return

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Comparison)  # noqa: S101 - an edit of a comparison
            [target] = changed.comparisons
            is_in = isinstance(target.operator, cst.In)
            template = "{owner}.NAME is not None" if is_in else "{owner}.NAME is None"
            found = expression(template.replace("NAME", name), owner=target.comparator)
            return syntax.with_parentheses_of(changed, found)

        self._report.rewrite(comparison, REPLY, _MESSAGE, edit)

    # Objects that are kept as dictionaries

    def _is_stored(self, node: cst.CSTNode) -> bool:
        """Whether an object is put into a list or a dictionary, or converted to JSON."""
        if self._program.is_target(node):
            return False
        parent = self._program.parent(node)
        match parent:
            case cst.Element():
                return not isinstance(self._program.parent(parent), cst.Tuple)
            case cst.StarredDictElement():
                return True
            case cst.DictElement(value=value):
                # The call in a message of the history is migrated there.
                return value is node and self._values.kind(node) != "call"
            case cst.Arg(star="**"):
                return True
            case cst.Arg(keyword=None):
                call = self._program.parent(parent)
                return isinstance(call, cst.Call) and self._is_storing(call)
            case _:
                return False

    def _is_storing(self, call: cst.Call) -> bool:
        match call.func:
            case cst.Attribute(value=owner, attr=cst.Name(value=name)):
                if name in _ADDED:
                    return self._values.of(owner) is None
                return name in ("dumps", "dump") and syntax.code(owner) in ("json", "orjson")
            case cst.Name(value="dict"):
                return True
            case _:
                return False

    def _convert(self, node: cst.BaseExpression) -> None:
        value = self._values.of(node)
        assert value is not None  # noqa: S101 - only known objects are converted
        parent = self._program.parent(node)
        outer = self._program.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(outer, cst.Call) and syntax.code(outer.func) == "dict":
            self._report.rewrite(outer, REPLY, _MESSAGE, _as_converted)
            return
        self._report.rewrite(node, REPLY, _MESSAGE, self._as_dict(value))

    def _as_dict(self, _: Value) -> Callable[[cst.CSTNode], cst.CSTNode]:
        return lambda node: expression("{reply}.to_dict()", reply=as_expression(node))


def _as_converted(node: cst.CSTNode) -> cst.CSTNode:
    """Return the conversion of the argument of `dict(reply)`."""
    assert isinstance(node, cst.Call)  # noqa: S101 - an edit of a call
    converted = expression("{reply}.to_dict()", reply=node.args[0].value)
    return syntax.with_parentheses_of(node, converted)


def _as_attribute(node: cst.CSTNode) -> cst.CSTNode:
    """Return an attribute for an item."""
    if not isinstance(node, cst.Subscript):
        return node
    name = syntax.key(node)
    assert name is not None  # noqa: S101 - only items with a name are read so
    if not name.isidentifier():
        return node
    return cst.Attribute(syntax.operand(node.value), cst.Name(name), lpar=node.lpar, rpar=node.rpar)


def _as_default(node: cst.CSTNode) -> cst.CSTNode:
    """Return an attribute for `get`, with its default."""
    assert isinstance(node, cst.Call)  # noqa: S101 - an edit of a call
    assert isinstance(node.func, cst.Attribute)  # noqa: S101 - only methods are edited so
    name = syntax.string(node.args[0].value)
    assert name is not None  # noqa: S101 - only items with a name are read so
    attribute = cst.Attribute(syntax.operand(node.func.value), cst.Name(name))
    if len(node.args) == 1 or syntax.code(node.args[1].value) == "None":
        return attribute.with_changes(lpar=node.lpar, rpar=node.rpar)
    return expression("({read} or {default})", read=attribute, default=node.args[1].value)
