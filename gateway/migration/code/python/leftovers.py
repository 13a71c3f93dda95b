"""Legacy code in forms that are found, but not rewritten."""

from typing import Final

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.history import RESULT
from gateway.migration.code.python.replies import READ
from gateway.migration.code.python.requests import FUNCTIONS
from gateway.migration.code.python.values import FIELD

_NAMED = "names function_call"
_NAMED_REASON = "the call is read by a name that is computed; read the calls in tool_calls"
_ROLE_MESSAGE = 'uses the role "function"'
_ROLE_REASON = "the id of the call is needed where a message has this role"
_DATA_REASON = "the messages are not made here; convert their data with dragoman migrate data"
_NAME_REASON = "messages of tools have no name; find it by the id of the call"
_TOOLS_REASON = "the program has both functions and tools; decide which of them it keeps"
_OUTSIDE_REASON = "the call is used by callers of this module, which are not known"
# Functions whose first argument, or that of a method, is the name of a field.
_READERS: Final = frozenset(("get", "getattr", "hasattr", "pop", "setdefault", "setattr"))


class Leftovers:
    """Finds legacy names that no other rule has explained."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._program = context.program
        self._report = context.report

    def find(self) -> None:
        """Leave what was not rewritten for a person; run after all other rules."""
        is_legacy = "functions" in self._report.families
        for node in self._program.of_type(cst.SimpleString) if is_legacy else ():
            text = syntax.string(node)
            if text == FIELD and not self._is_explained(node):
                self._report.leave(node, READ, _NAMED, _NAMED_REASON)
            elif text == "function" and self._is_role(node):
                self._report.leave(node, RESULT, _ROLE_MESSAGE, _ROLE_REASON)
        self._find_tools()
        self._find_data()
        self._find_names()
        self._find_library()

    def _is_explained(self, node: cst.SimpleString) -> bool:
        parent = self._program.parent(node)
        match parent:
            case cst.Index() | cst.DictElement() | cst.MatchValue() | cst.Expr():
                return True
            case cst.Comparison() | cst.ComparisonTarget():
                return True
            case cst.Arg():
                call = self._program.parent(parent)
                name = syntax.names(call.func)[:1] if isinstance(call, cst.Call) else []
                return bool(set(name) & _READERS)
            case cst.Element():
                return self._report.has_change(node)
            case _:
                return False

    def _is_role(self, node: cst.SimpleString) -> bool:
        """Whether a string is the role of a message that is made in a way that is not followed."""
        if self._report.has_change(node):
            return False
        parent = self._program.parent(node)
        match parent:
            case cst.Arg(keyword=cst.Name(value="role")):
                call = self._program.parent(parent)
                return call is not None and not self._report.has_change(call)
            case cst.Arg(keyword=None):
                call = self._program.parent(parent)
                if not isinstance(call, cst.Call) or self._report.has_change(call):
                    return False
                names = [
                    name for name, one in self._context.references.arguments(call) if one is parent
                ]
                return names == ["role"]
            case cst.Assign(targets=[cst.AssignTarget(target=target)]):
                return syntax.code(target).lower() in ("function", "role", "function_role")
            case _:
                return False

    def _find_tools(self) -> None:
        """Leave requests of a program that sends tools too."""
        sent = [one for one in self._report.all_findings() if one.rule == FUNCTIONS]
        reads = [
            node for node in self._program.of_type(cst.Attribute) if node.attr.value == "tool_calls"
        ]
        reads_items = [
            node
            for node in self._program.of_type(cst.Subscript)
            if syntax.key(node) == "tool_calls"
        ]
        if sent and (reads or reads_items):
            node = [*reads, *reads_items][0]
            self._report.leave(node, READ, "reads tool_calls of a reply", _TOOLS_REASON)

    def _find_data(self) -> None:
        """Leave comparisons with the role if no message of this program has it."""
        found = [one for one in self._report.all_findings() if one.rule == RESULT]
        if found and all(one.message == _ROLE_MESSAGE and one.reason is None for one in found):
            for comparison in self._program.of_type(cst.Comparison):
                strings = [comparison.left, *(one.comparator for one in comparison.comparisons)]
                if any(syntax.string(one) == "function" for one in strings):
                    self._report.leave(comparison, RESULT, _ROLE_MESSAGE, _DATA_REASON)

    def _find_names(self) -> None:
        """Leave reads of the name of a result, which messages of tools do not have."""
        for comparison in self._program.of_type(cst.Comparison):
            strings = [comparison.left, *(one.comparator for one in comparison.comparisons)]
            roles = [one for one in strings if syntax.names(one)[:1] == ["role"]]
            if not any(syntax.string(one) == "function" for one in strings) or not roles:
                continue
            root, function = syntax.root(roles[0]), self._program.scope(comparison)
            for node in self._program.of_type(cst.Subscript):
                is_same = root is not None and syntax.code(node.value) == root.value
                is_inside = self._program.scope(node) is function
                if is_same and is_inside and syntax.key(node) == "name":
                    self._report.leave(node, RESULT, _ROLE_MESSAGE, _NAME_REASON)

    def _find_library(self) -> None:
        """Leave reads of calls in a module whose callers send the functions."""
        callers = self._context.references
        forwarders = self._context.values.forwarders
        is_sent = any(
            one.rule in ("request-functions", "request-function-call")
            for one in self._report.all_findings()
        )
        if is_sent or not any(not callers.callers(function) for function in forwarders):
            return
        for node in self._program.expressions():
            value = self._context.values.of(node)
            if value is not None and value.kind == "call" and self._context.is_read(node):
                self._report.leave(node, READ, "reads function_call of a reply", _OUTSIDE_REASON)
