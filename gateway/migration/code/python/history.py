"""Messages of the history: results of functions, and calls that are written by hand."""

from collections.abc import Sequence

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.calls import FIELD
from gateway.migration.code.python.replies import ReplyMigration, call_ids
from gateway.migration.code.python.report import Report
from gateway.migration.code.python.source import Source
from gateway.migration.code.python.syntax import expression

RESULT = "function-message"
ASSISTANT = "assistant-function-call"

_RESULT_MESSAGE = 'sends a message with the role "function"'
_CALL_MESSAGE = "sends a message of the assistant with function_call"
_NO_ID = "the id of the call is not known here; pass it and send it as tool_call_id"


class HistoryMigration:
    """Rewrites the messages that a program adds to its history."""

    def __init__(self, source: Source, report: Report, replies: ReplyMigration) -> None:
        self._source = source
        self._report = report
        self._replies = replies

    def migrate(self) -> None:
        """Rewrite all dictionaries that are messages of a legacy conversation."""
        for node in self._source.of_type(cst.Dict):
            role = syntax.string(syntax.dict_value(node, "role"))
            if role == "function":
                self._migrate_result(node)
            elif role == "assistant" and syntax.dict_value(node, FIELD) is not None:
                self._migrate_call(node)

    def _id(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return the expression for the id of the latest call before a node."""
        found = max(call_ids(self._source, self._replies, node), default=None)
        return None if found is None else cst.parse_expression(found[1])

    def _migrate_result(self, node: cst.Dict) -> None:
        call_id = self._id(node)
        if call_id is None:
            self._report.leave(node, RESULT, _RESULT_MESSAGE, _NO_ID)
            return
        self._report.rewrite(
            node, RESULT, _RESULT_MESSAGE, lambda changed: _as_tool_message(changed, call_id)
        )

    def _migrate_call(self, node: cst.Dict) -> None:
        call_id, value = self._id(node), syntax.dict_value(node, FIELD)
        if call_id is None or value is None:
            self._report.leave(node, ASSISTANT, _CALL_MESSAGE, _NO_ID)
            return
        is_read = any(read.node is value for read in self._replies.reads)
        is_variable = isinstance(value, cst.Name) and any(
            one.name == value.value and one.scope is self._source.scope(value)
            for one in self._replies.variables
        )
        if is_read:
            read = next(read for read in self._replies.reads if read.node is value)
            template = '{message}["tool_calls"]' if read.is_dict else "{message}.tool_calls"
            calls = expression(template, message=read.message)
        elif is_variable:
            calls = expression("[{call}]", call=value)
        elif isinstance(value, cst.Dict):
            calls = None
        else:
            self._report.leave(node, ASSISTANT, _CALL_MESSAGE, _NO_ID)
            return
        self._report.rewrite(
            node,
            ASSISTANT,
            _CALL_MESSAGE,
            lambda changed: _with_tool_calls(changed, call_id, calls),
        )


def _as_tool_message(node: cst.CSTNode, call_id: cst.BaseExpression) -> cst.CSTNode:
    """Return the message with the result of a tool, which has no name."""
    assert isinstance(node, cst.Dict)  # noqa: S101 - an edit of a dictionary
    elements: list[cst.BaseDictElement] = []
    for element in node.elements:
        match element:
            case cst.DictElement() if syntax.string(element.key) == "role":
                elements.append(element.with_changes(value=syntax.with_text(element.value, "tool")))
            case cst.DictElement() if syntax.string(element.key) == "name":
                key = syntax.with_text(element.key, "tool_call_id")
                elements.append(element.with_changes(key=key, value=call_id))
            case _:
                elements.append(element)
    if all(
        not isinstance(one, cst.DictElement) or syntax.string(one.key) != "tool_call_id"
        for one in elements
    ):
        elements = _with_id(elements, call_id)
    return node.with_changes(elements=elements)


def _with_id(
    elements: Sequence[cst.BaseDictElement], call_id: cst.BaseExpression
) -> list[cst.BaseDictElement]:
    first, *others = elements
    assert isinstance(first, cst.DictElement)  # noqa: S101 - the message has a role
    comma = first.comma
    if not isinstance(comma, cst.Comma):
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    added = first.with_changes(key=cst.SimpleString('"tool_call_id"'), value=call_id)
    return [first.with_changes(comma=comma), added, *others]


def _with_tool_calls(
    node: cst.CSTNode, call_id: cst.BaseExpression, calls: cst.BaseExpression | None
) -> cst.CSTNode:
    """Return a message with tool calls; without `calls`, of the function in the message."""
    assert isinstance(node, cst.Dict)  # noqa: S101 - an edit of a dictionary
    elements: list[cst.BaseDictElement] = []
    for element in node.elements:
        if isinstance(element, cst.DictElement) and syntax.string(element.key) == FIELD:
            value = calls or expression(
                '[{"id": {call_id}, "type": "function", "function": {function}}]',
                call_id=call_id,
                function=element.value,
            )
            key = syntax.with_text(element.key, "tool_calls")
            elements.append(element.with_changes(key=key, value=value))
        else:
            elements.append(element)
    return node.with_changes(elements=elements)
