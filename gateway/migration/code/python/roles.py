"""Helpers of a program that make messages of any role, and the calls with the role "function"."""

from collections.abc import Callable
from typing import Final

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.call_ids import PARAMETER, CallId, CallIds
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.entries import Entries, Entry
from gateway.migration.code.python.history import ASSISTANT, RESULT
from gateway.migration.code.python.syntax import expression
from gateway.migration.code.python.values import CALL, FIELD

_RESULT_MESSAGE: Final = 'sends a message with the role "function"'
_CALL_MESSAGE: Final = "sends a message of the assistant with function_call"


class RoleMigration:
    """Rewrites calls of helpers that have the role as a parameter."""

    def __init__(self, context: Context, ids: CallIds) -> None:
        self._context = context
        self._program = context.program
        self._references = context.references
        self._report = context.report
        self._ids = ids

    def migrate(self) -> None:
        """Rewrite all calls whose helper can also send an id."""
        if self._context.target.name != "chat":
            return
        for call in self._program.of_type(cst.Call):
            helper = self._references.callee(call)
            if not isinstance(helper, cst.FunctionDef):
                continue
            found = self._message_of(helper)
            if found is None:
                continue
            parameter, message = found
            arguments = dict(self._references.arguments(call))
            role = arguments.get(parameter)
            takes_fields = self._takes_fields(helper, message)
            if role is not None and syntax.string(role.value) == "function":
                self._migrate_result(call, role, takes_fields=takes_fields)
            elif FIELD in arguments and takes_fields:
                self._migrate_call(call, arguments[FIELD])

    def _message_of(self, helper: cst.FunctionDef) -> tuple[str, cst.Dict] | None:
        """Return the parameter with the role, and the message that has it."""
        for node in self._program.descendants(helper.body):
            role = syntax.dict_value(node, "role") if isinstance(node, cst.Dict) else None
            if isinstance(node, cst.Dict) and isinstance(role, cst.Name):
                return role.value, node
        return None

    def _takes_fields(self, helper: cst.FunctionDef, message: cst.Dict) -> bool:
        """Whether all keyword arguments of a helper become fields of its message."""
        star = helper.params.star_kwarg
        spread = [one for one in message.elements if isinstance(one, cst.StarredDictElement)]
        return star is not None and any(syntax.code(one.value) == star.name.value for one in spread)

    def _migrate_result(self, call: cst.Call, role: cst.Arg, *, takes_fields: bool) -> None:
        name = Entries.of(call).value("name")
        call_id = self._ids.find(call, RESULT) if takes_fields and name is not None else None
        if call_id is None:
            reason = "the helper needs the id of the call; give it tool_call_id"
            self._report.leave(call, RESULT, _RESULT_MESSAGE, reason)
            return
        self._report.rewrite(
            role.value, RESULT, _RESULT_MESSAGE, lambda one: syntax.with_text(one, "tool")
        )
        self._report.edits(RESULT).replace(call, _with_id(call_id))

    def _migrate_call(self, call: cst.Call, argument: cst.Arg) -> None:
        if self._context.values.kind(argument.value) != CALL:
            reason = "the helper needs the id of the call; give it tool_calls"
            self._report.leave(call, ASSISTANT, _CALL_MESSAGE, reason)
            return
        is_read = self._context.is_read(argument.value)

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Arg)  # noqa: S101 - an edit of an argument
            one = self._context.target.first_call(changed.value) if is_read else changed.value
            value = self._context.values.of(argument.value)
            is_old = value is not None and value.is_old and not value.is_dict
            if is_old and "sdk" in self._report.applied:
                one = expression("{call}.to_dict()", call=one)
            calls = expression("[{call}]", call=one)
            return Entry(changed).renamed("tool_calls").with_value(calls).node

        self._report.rewrite(argument, ASSISTANT, _CALL_MESSAGE, edit)


def _with_id(call_id: CallId) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """Return a call with the id in place of the name."""

    def edit(changed: cst.CSTNode) -> cst.CSTNode:
        own = Entries.of(changed)
        return own.with_all(
            [
                one.renamed(PARAMETER).with_value(call_id()) if one.name == "name" else one
                for one in own.all
            ]
        )

    return edit
