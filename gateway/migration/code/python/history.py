"""Messages of the history: results of functions, and messages with calls that are sent back."""

from collections.abc import Iterator

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.call_ids import CallId, CallIds
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.entries import Entries, Entry
from gateway.migration.code.python.syntax import expression
from gateway.migration.code.python.values import CALL, FIELD, Value

RESULT = "function-message"
ASSISTANT = "assistant-function-call"

_RESULT_MESSAGE = 'sends a message with the role "function"'
_ROLE_MESSAGE = 'uses the role "function"'
_CALL_MESSAGE = "sends a message of the assistant with function_call"
_NO_ID = "the id of the call is not known here; pass it, and send it as {field}"
_TEXT = "a message is written as text; change its role to tool, and add the id of the call"
_ROLE_KEYS = frozenset(("system", "user", "assistant"))


class HistoryMigration:
    """Rewrites the messages that a program adds to its history."""

    def __init__(self, context: Context, ids: CallIds) -> None:
        self._context = context
        self._program = context.program
        self._report = context.report
        self._target = context.target
        self._ids = ids
        # The id in a conversation that is written as literals, for the result of its last call.
        self._literal_id: str | None = None
        self._literals = 0

    def migrate(self) -> None:
        """Rewrite all messages of a legacy conversation."""
        for node in sorted(self._messages(), key=self._program.order):
            entries = Entries.of(node)
            role = syntax.string(entries.value("role"))
            if role == "function":
                self._migrate_result(node, entries)
            elif entries.value(FIELD) is not None and (
                role == "assistant" or (role is None and self._is_message(entries))
            ):
                self._migrate_call(node, entries)
        for assign in self._program.of_type(cst.Assign):
            self._migrate_item(assign)
        for comparison in self._program.of_type(cst.Comparison):
            self._migrate_comparison(comparison)
        for match in self._program.of_type(cst.Match):
            for case in match.cases:
                self._migrate_pattern(case.pattern, match.subject)
        for node in self._program.of_type(cst.Dict):
            self._migrate_table(node)
        for text in self._program.of_type(cst.FormattedString):
            if '"role": "function"' in syntax.code(text).replace("'", '"'):
                self._report.leave(text, RESULT, _RESULT_MESSAGE, _TEXT)

    def _messages(self) -> Iterator[cst.Dict | cst.Call]:
        yield from self._program.of_type(cst.Dict)
        for call in self._program.of_type(cst.Call):
            if syntax.code(call.func) == "dict" or self._is_typed(call):
                yield call

    def _is_typed(self, call: cst.Call) -> bool:
        """Whether a call makes a message with a type of the SDK, which is a dictionary."""
        if not isinstance(call.func, cst.Name):
            return False
        _, name = self._context.references.imported_name(call.func)
        return (name or "").startswith("ChatCompletion") and (name or "").endswith("MessageParam")

    def _is_message(self, entries: Entries) -> bool:
        """Whether a message whose role is no literal has a call."""
        return entries.value("role") is not None and entries.value("content") is not None

    # Results

    def _migrate_result(self, node: cst.Dict | cst.Call, entries: Entries) -> None:
        if entries.value("content") is None and entries.value("name") is None:
            return
        call_id = self._id(node, RESULT)
        if call_id is None:
            reason = _NO_ID.format(field="tool_call_id" if self._is_chat else "call_id")
            self._report.leave(node, RESULT, _RESULT_MESSAGE, reason)
            return

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            return self._as_result(Entries.of(changed), call_id())

        self._report.rewrite(node, RESULT, _RESULT_MESSAGE, edit)

    @property
    def _is_chat(self) -> bool:
        return self._target.name == "chat"

    def _id(self, node: cst.CSTNode, rule: str) -> CallId | None:
        literal = self._literal_id
        self._literal_id = None
        found = self._ids.find(node, rule)
        if found is None and literal is not None:
            text = cst.SimpleString(f'"{literal}"')
            return lambda: text
        return found

    def _as_result(self, entries: Entries, call_id: cst.BaseExpression) -> cst.CSTNode:
        """Return the message with the result of a tool, which has no name."""
        id_name = "tool_call_id" if self._is_chat else "call_id"
        changed: list[Entry] = []
        for entry in entries.all:
            match entry.name:
                case "role" if self._is_chat:
                    changed.append(entry.with_text("tool"))
                case "role":
                    changed.append(entry.renamed("type").with_text("function_call_output"))
                case "name":
                    changed.append(entry.renamed(id_name).with_value(call_id))
                case "content" if not self._is_chat:
                    changed.append(entry.renamed("output"))
                case _:
                    changed.append(entry)
        if all(entry.name != id_name for entry in changed):
            role = next(place for place, one in enumerate(entries.all) if one.name == "role")
            changed.insert(role + 1, changed[role].renamed(id_name).with_value(call_id))
        return entries.with_all(changed)

    # Calls

    def _migrate_call(self, node: cst.Dict | cst.Call, entries: Entries) -> None:
        value = entries.value(FIELD)
        assert value is not None  # noqa: S101 - only such messages are migrated here
        if syntax.code(value) == "None":
            self._migrate_empty(node)
            return
        if not self._is_chat and not self._is_without_text(entries):
            reason = "the message has a text and a call, which are two items; add both"
            self._report.leave(node, ASSISTANT, _CALL_MESSAGE, reason)
            return
        call = self._call_of(node, value)
        if call is None:
            reason = _NO_ID.format(field="the id of the tool call")
            self._report.leave(node, ASSISTANT, _CALL_MESSAGE, reason)
            return

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            return self._with_call(Entries.of(changed), call)

        self._report.rewrite(node, ASSISTANT, _CALL_MESSAGE, edit)

    def _migrate_empty(self, node: cst.Dict | cst.Call) -> None:
        """Remove a call that is None."""

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            entries = Entries.of(changed)
            return entries.with_all([one for one in entries.all if one.name != FIELD])

        self._report.rewrite(node, ASSISTANT, _CALL_MESSAGE, edit)

    def _is_without_text(self, entries: Entries) -> bool:
        content = entries.value("content")
        if content is None or syntax.code(content) in ("None", '""', "''"):
            return True
        return syntax.names(content)[:1] == ["content"]

    def _call_of(self, node: cst.CSTNode, value: cst.BaseExpression) -> "_Call | None":
        """Return how the call in a message is written, or None if its id is not known."""
        kept = self._context.values.of(value)
        if kept is not None and kept.kind == CALL:
            return _Call(self._context, value, kept, None)
        if self._context.streams.is_accumulator(value):
            return _Call(self._context, value, None, lambda: cst.SimpleString('""'))
        call_id = self._ids.find(node, ASSISTANT)
        if call_id is None and isinstance(value, cst.Dict) and self._is_literal(value):
            self._literals += 1
            self._literal_id = f"call_{self._literals}"
            text = cst.SimpleString(f'"{self._literal_id}"')
            return _Call(self._context, value, None, lambda: text)
        return None if call_id is None else _Call(self._context, value, None, call_id)

    def _is_literal(self, value: cst.Dict) -> bool:
        return syntax.string(syntax.dict_value(value, "name")) is not None

    def _with_call(self, entries: Entries, call: "_Call") -> cst.CSTNode:
        if self._is_chat:
            changed = [
                one.renamed("tool_calls").with_value(call.tool_calls(one.value))
                if one.name == FIELD
                else one
                for one in entries.all
            ]
            return entries.with_all(changed)
        value = entries.value(FIELD)
        assert value is not None  # noqa: S101 - only such messages are migrated here
        return call.item(value)

    # `message["function_call"] = ...`, `message["role"] = "function"`

    def _migrate_item(self, assign: cst.Assign) -> None:
        [target, *others] = assign.targets
        if others or not isinstance(target.target, cst.Subscript):
            return
        name = syntax.key(target.target)
        if name == "role" and syntax.string(assign.value) == "function":
            reason = "the role of a message is set; set it to tool, and add the id of the call"
            self._report.leave(assign, RESULT, _RESULT_MESSAGE, reason)
        elif name == FIELD and not self._context.request_dicts.is_request_dict(target.target.value):
            self._migrate_call_item(assign)

    def _migrate_call_item(self, assign: cst.Assign) -> None:
        call = self._call_of(assign, assign.value) if self._is_chat else None
        if call is None:
            reason = _NO_ID.format(field="the id of the tool call")
            self._report.leave(assign, ASSISTANT, _CALL_MESSAGE, reason)
            return

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Assign)  # noqa: S101 - an edit of an assignment
            target = syntax.with_key(changed.targets[0].target, "tool_calls")
            return changed.with_changes(
                targets=[changed.targets[0].with_changes(target=target)],
                value=call.tool_calls(changed.value),
            )

        self._report.rewrite(assign, ASSISTANT, _CALL_MESSAGE, edit)

    # Roles of messages in the history

    def _migrate_comparison(self, comparison: cst.Comparison) -> None:
        if len(comparison.comparisons) != 1:
            return
        [target] = comparison.comparisons
        for side, other in (
            (comparison.left, target.comparator),
            (target.comparator, comparison.left),
        ):
            if not _is_role(other):
                continue
            if syntax.string(side) == "function":
                self._migrate_role(side)
            elif isinstance(side, cst.Tuple | cst.List | cst.Set):
                for element in side.elements:
                    if syntax.string(element.value) == "function":
                        self._migrate_role(element.value)

    def _migrate_pattern(self, pattern: cst.MatchPattern, subject: cst.BaseExpression) -> None:
        match pattern:
            case cst.MatchValue(value=value) if syntax.string(value) == "function":
                if _is_role(subject):
                    self._migrate_role(value)
            case cst.MatchOr(patterns=patterns):
                for one in patterns:
                    self._migrate_pattern(one.pattern, subject)
            case cst.MatchMapping(elements=items):
                for item in items:
                    inner = item.pattern
                    if syntax.pattern_string(item.key) == "role" and (
                        isinstance(inner, cst.MatchValue)
                        and syntax.string(inner.value) == "function"
                    ):
                        self._migrate_role(inner.value)
            case _:
                pass

    def _migrate_role(self, node: cst.BaseExpression) -> None:
        if not self._is_chat:
            reason = "results have no role in the Responses API; check their type"
            self._report.leave(node, RESULT, _ROLE_MESSAGE, reason)
            return
        self._report.rewrite(node, RESULT, _ROLE_MESSAGE, lambda one: syntax.with_text(one, "tool"))

    def _migrate_table(self, node: cst.Dict) -> None:
        """Rewrite a dictionary with a value for each role."""
        items = dict(syntax.dict_items(node))
        if len(items.keys() & _ROLE_KEYS) > 1 and "function" in items and "tool" not in items:
            self._migrate_role(items["function"].key)


class _Call:
    """A call in a message, as it will be written."""

    def __init__(
        self,
        context: Context,
        original: cst.BaseExpression,
        value: Value | None,
        call_id: CallId | None,
    ) -> None:
        self._context = context
        self._original = original
        self._value = value
        self._id = call_id

    def _call(self, changed: cst.BaseExpression) -> cst.BaseExpression:
        """Return the expression of the whole call."""
        variable = self._context.loops.variable(self._original)
        if variable is not None:
            return cst.Name(variable)
        is_read = self._context.is_read(self._original)
        return self._context.target.first_call(changed) if is_read else changed

    def tool_calls(self, changed: cst.BaseExpression) -> cst.BaseExpression:
        """Return the list with the call."""
        if self._value is not None:
            return expression("[{call}]", call=self._call(changed))
        assert self._id is not None  # noqa: S101 - a call without a value has an id
        return expression(
            '[{"id": {id}, "type": "function", "function": {function}}]',
            id=self._id(),
            function=changed,
        )

    def item(self, changed: cst.BaseExpression) -> cst.BaseExpression:
        """Return the item of the Responses API."""
        if self._value is not None and self._value.is_dict and isinstance(changed, cst.Name):
            # A dumped call has other fields too, which are not wanted.
            template = (
                '{"type": "function_call", "call_id": {call}["call_id"], "name": {call}["name"], '
                '"arguments": {call}["arguments"]}'
            )
            return expression(template, call=changed)
        if self._value is not None:
            return self._call(changed)
        assert self._id is not None  # noqa: S101 - a call without a value has an id
        match self._original, changed:
            case cst.Call(func=cst.Attribute(value=call)), cst.Call(func=cst.Attribute(value=own)):
                if self._context.values.kind(call) == CALL:
                    # The other fields of a call are not wanted.
                    template = (
                        '{"type": "function_call", "call_id": {id}, "name": {call}.name, '
                        '"arguments": {call}.arguments}'
                    )
                    return expression(template, id=self._id(), call=own)
            case _:
                pass
        head = expression(
            '{"type": "function_call", "call_id": {id}, **{function}}',
            id=self._id(),
            function=changed,
        )
        if isinstance(changed, cst.Dict) and isinstance(head, cst.Dict):
            return changed.with_changes(elements=[*head.elements[:2], *changed.elements])
        return head


def _is_role(node: cst.BaseExpression) -> bool:
    """Whether an expression is the role of a message."""
    if isinstance(node, cst.Name):
        return node.value == "role" or node.value.endswith("_role")
    return syntax.names(node)[:1] == ["role"] or syntax.is_getattr_of(node, "role")
