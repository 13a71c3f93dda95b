"""What the parts of a migration share."""

import re

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.loops import Loops
from gateway.migration.code.python.program import Program
from gateway.migration.code.python.references import References
from gateway.migration.code.python.report import Report
from gateway.migration.code.python.request_dicts import RequestDicts
from gateway.migration.code.python.streams import Streams
from gateway.migration.code.python.target import Target
from gateway.migration.code.python.uses import Uses, message_of
from gateway.migration.code.python.values import Value, Values


class Context:
    """A program, what is known of it, and the report of its migration."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program = program
        self.target = target
        self.references = References(program)
        self.values = Values(program, self.references)
        self.uses = Uses(program, self.references, self.values)
        self.request_dicts = RequestDicts(program, self.references, self.values)
        self.report = Report(program)
        self.loops = Loops(program, self.values, self.uses, self.request_dicts, self.report)
        self.streams = Streams(program, self.values, self.uses, target, self.report)

    def is_dict(self, value: Value, node: cst.CSTNode) -> bool:
        """Whether the fields of an expression are items in the rewritten program."""
        if value.is_old and not value.is_dict:
            if "sdk" in self.report.applied:
                return False
            parent = self.program.parent(node)
            return not isinstance(parent, cst.Attribute)
        return value.is_dict

    def is_read(self, node: cst.CSTNode) -> bool:
        """Whether an expression reads the call of a message."""
        message = message_of(node)
        if message is None or self.is_kept_attribute(node):
            return False
        owner = self.values.of(message)
        return owner is None or owner.kind != "record"

    def is_kept_attribute(self, node: cst.CSTNode) -> bool:
        """Whether an expression is an attribute of the program's own objects that keeps a call."""
        if not isinstance(node, cst.Attribute):
            return False
        return self.is_own(node.value) and self.values.has_attribute(node.attr.value)

    def is_reason(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is the `finish_reason` of a reply."""
        names = syntax.names(node)[:1]
        if names in (["finish_reason"], ["stop_reason"]):
            return True
        if isinstance(node, cst.Call) and syntax.is_getattr_of(node, "finish_reason"):
            return True
        if isinstance(node, cst.Name):
            return self._is_reason_variable(node)
        return False

    def _is_reason_variable(self, node: cst.Name) -> bool:
        uses = self.program.uses(self.program.binding(node), node.value)
        assigned = (
            self.program.parent(parent) if isinstance(parent, cst.AssignTarget) else None
            for parent in map(self.program.parent, uses)
        )
        return (
            any(
                isinstance(one, cst.Assign)
                and not isinstance(one.value, cst.Name)
                and self.is_reason(one.value)
                for one in assigned
            )
            or re.search("finish|reason", node.value) is not None
        )

    def is_message(self, node: cst.BaseExpression) -> bool:
        """Whether an expression may be a message."""
        if isinstance(node, cst.Tuple | cst.List | cst.Set | cst.SimpleString):
            return False
        value = self.values.of(node)
        if value is not None:
            return value.kind in ("message", "choice", "reply")
        return not self.request_dicts.is_request_dict(node) and not self.is_reason(node)

    def is_own(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is an object of the program itself."""
        return isinstance(node, cst.Name) and node.value in ("self", "cls")
