"""Requests and replies of Chat Completions as those of the Responses API.

A reply, its choice and its message all become the response, whose output has the calls and the
text. Where a reply is used in another way, a person must decide.
"""

from collections.abc import Callable
from typing import Final

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.entries import Entries, Entry
from gateway.migration.code.python.syntax import as_expression, expression
from gateway.migration.code.python.uses import message_of
from gateway.migration.code.python.values import FIELD, Value

REQUEST: Final = "responses-request"
REPLY: Final = "responses-reply"

_REQUEST_MESSAGE = "sends a request of Chat Completions"
_REPLY_MESSAGE = "reads a reply of Chat Completions"
_UNKNOWN_USE = "the reply is used in a way that cannot be followed; use the response here"
_UNKNOWN_MESSAGE = "it is not known where this message comes from; read the response"
_STREAM = "the events of a streamed response have another form; read them by their type"
_PARTS: Final = frozenset(("choices", "choice", "message"))
_REPLIES: Final = frozenset(("reply", "choice", "message"))
_RENAMED: Final = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
}
_GONE: Final = frozenset(
    ("n", "stop", "seed", "logit_bias", "presence_penalty", "frequency_penalty", "logprobs",
     "response_format", "stream_options", "top_logprobs")
)  # fmt: skip
_USAGE: Final = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_SAME: Final = frozenset(("id", "model", "usage", "choices", "message", "delta", FIELD))
_DUMPS: Final = frozenset(("model_dump", "to_dict", "to_dict_recursive", "dict", "copy"))
_HARMLESS: Final = frozenset(("print", "len", "bool", "isinstance", "getattr", "hasattr"))
_TEXT_OF_DICT = (
    '"".join(part["text"] for item in {reply}["output"] if item["type"] == "message" '
    'for part in item["content"])'
)


class ResponsesMigration:
    """Rewrites what differs between the two APIs apart from functions."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._program = context.program
        self._values = context.values
        self._report = context.report

    def migrate(self) -> None:
        """Rewrite all requests and replies."""
        for call in self._program.of_type(cst.Call):
            if self._context.request_dicts.is_request_call(call):
                self._migrate_request(call)
            elif syntax.code(call.func) == "dict":
                self._migrate_dict(call)
        for node in self._program.of_type(cst.Dict):
            self._migrate_dict(node)
        for expression_node in self._program.expressions():
            self._migrate_expression(expression_node)
        for subscript in self._program.of_type(cst.Subscript):
            self._migrate_item(subscript)
        for comparison in self._program.of_type(cst.Comparison):
            self._migrate_comparison(comparison)
        for match in self._program.of_type(cst.Match):
            self._migrate_subject(match)

    # Requests

    def _migrate_request(self, call: cst.Call) -> None:
        value = self._values.of(call.func)
        if value is not None and value.kind == "sender":
            self._migrate_sender(call)
        self._rename(call, _REQUEST_MESSAGE)

    def _migrate_sender(self, call: cst.Call) -> None:
        function = call.func
        if not isinstance(function, cst.Attribute):
            return
        if function.attr.value not in ("create", "acreate"):
            reason = f"{function.attr.value} has another form in the Responses API"
            self._report.leave(call, REQUEST, _REQUEST_MESSAGE, reason)
        elif "with_raw_response" in syntax.names(function):
            reason = "the raw response of the Responses API has to be parsed here"
            self._report.leave(call, REQUEST, _REQUEST_MESSAGE, reason)
        elif self._is_streamed(call):
            self._report.leave(call, REQUEST, _REQUEST_MESSAGE, _STREAM)

    def _is_streamed(self, call: cst.Call) -> bool:
        value = Entries.of(call).value("stream")
        return value is not None and syntax.code(value) != "False"

    def _migrate_dict(self, node: cst.Dict | cst.Call) -> None:
        dicts = self._context.request_dicts
        names = Entries.of(node).names
        if "role" in names or not names & {*_RENAMED, *_GONE, "stream"}:
            return
        if dicts.is_sent(node):
            self._rename(node, _REQUEST_MESSAGE)

    def _rename(self, node: cst.Dict | cst.Call, message: str) -> None:
        entries = Entries.of(node)
        for entry in entries:
            if entry.name in _GONE:
                reason = f"the Responses API has no {entry.name}, or in another form"
                self._report.leave(entry.node, REQUEST, message, reason)
            elif entry.name == "stream" and isinstance(node, cst.Dict):
                self._report.leave(entry.node, REQUEST, message, _STREAM)
        if not entries.names & _RENAMED.keys():
            return

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            own = Entries.of(changed)
            return own.with_all([self._renamed(one) for one in own.all])

        self._report.find(node, REQUEST, message)
        self._report.edits(REQUEST).replace(node, edit)

    def _migrate_item(self, node: cst.Subscript) -> None:
        """Rename an item of a request, such as `request["messages"]`."""
        new_name = _RENAMED.get(syntax.key(node) or "")
        if new_name is not None and self._context.request_dicts.is_request_dict(node.value):
            self._report.rewrite(
                node, REQUEST, _REQUEST_MESSAGE, lambda one: syntax.with_key(one, new_name)
            )

    def _renamed(self, entry: Entry) -> Entry:
        new_name = _RENAMED.get(entry.name or "")
        return entry if new_name is None else entry.renamed(new_name)

    # Replies

    def _migrate_expression(self, node: cst.BaseExpression) -> None:
        value = self._values.of(node)
        if isinstance(node, cst.Name) and self._program.is_label(node):
            return
        if value is not None and value.kind == "sender" and isinstance(node, cst.Attribute):
            self._report.rewrite(node, REQUEST, _REQUEST_MESSAGE, _as_responses)
            return
        self._migrate_field(node)
        if value is not None and value.kind in _PARTS and self._owner(node) is not None:
            self._migrate_part(node, value)
        if value is not None and value.kind in _REPLIES and not self._program.is_target(node):
            self._migrate_use(node, value)

    def _owner(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return the expression whose field, item or element an expression is."""
        match node:
            case cst.Attribute(value=owner) | cst.Subscript(value=owner):
                return owner
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value="get"))):
                return owner
            case cst.Call(func=cst.Name(value="getattr"), args=[owner, _, *_]):
                return owner.value
            case _:
                return None

    def _field(self, node: cst.BaseExpression) -> str | None:
        match node:
            case cst.Attribute(attr=cst.Name(value=name)):
                return name
            case cst.Subscript():
                return syntax.key(node)
            case cst.Call(func=cst.Name(value="getattr"), args=[_, name, *_]):
                return syntax.string(name.value)
            case cst.Call():
                return syntax.method_argument(node, "get")
            case _:
                return None

    def _migrate_part(self, node: cst.BaseExpression, value: Value) -> None:
        """Replace a choice or a message by the response."""
        owner = self._owner(node)
        assert owner is not None  # noqa: S101 - callers check this
        if self._field(node) not in ("choices", "message", "delta", None):
            return
        if value.kind == "choices" and not self._is_indexed(node):
            self._report.rewrite(node, REPLY, _REPLY_MESSAGE, _as_list)
            return
        if value.kind == "choice" and isinstance(node, cst.Subscript):
            if isinstance(node.value, cst.Name) and self._values.kind(node.value) == "choices":
                # The variable is a list.
                return
            if syntax.code(node.slice[0].slice) != "0":
                reason = "the Responses API has one choice only"
                self._report.leave(node, REPLY, _REPLY_MESSAGE, reason)
                return
        if value.kind == "choice" and self._field(node) is not None:
            return
        self._report.rewrite(node, REPLY, _REPLY_MESSAGE, _inner)

    def _is_indexed(self, node: cst.BaseExpression) -> bool:
        parent = self._program.parent(node)
        return isinstance(parent, cst.Subscript) and parent.value is node

    def _migrate_field(self, node: cst.BaseExpression) -> None:
        """Rewrite the fields of replies, choices and messages."""
        owner, name = self._owner(node), self._field(node)
        if owner is None or name is None:
            return
        value = self._values.of(owner)
        if name == "role" and (value is None or value.kind not in _REPLIES):
            self._migrate_role(node)
            return
        if name in _USAGE and "usage" in syntax.names(owner)[:1]:
            self._report.rewrite(node, REPLY, _REPLY_MESSAGE, _renamed_field(_USAGE[name]))
            return
        is_message = value is not None and value.kind == "message"
        if value is None or value.kind not in _REPLIES or (name == FIELD and not is_message):
            if message_of(node) is not None and self._context.is_read(node):
                self._leave_unknown(node, owner)
            return
        match name:
            case "content":
                self._report.rewrite(node, REPLY, _REPLY_MESSAGE, self._text(value, owner))
            case "role":
                text = cst.SimpleString('"assistant"')
                self._report.rewrite(node, REPLY, _REPLY_MESSAGE, lambda _: text)
            case "created":
                self._report.rewrite(node, REPLY, _REPLY_MESSAGE, _renamed_field("created_at"))
            case _ if name in _SAME or name in _DUMPS or name == "finish_reason":
                pass
            case _ if isinstance(self._program.parent(node), cst.Call):
                pass
            case _:
                reason = f"a response has no field {name} of this form"
                self._report.leave(node, REPLY, _REPLY_MESSAGE, reason)

    def _leave_unknown(self, node: cst.BaseExpression, owner: cst.BaseExpression) -> None:
        if not self._context.request_dicts.is_request_dict(owner):
            self._report.leave(node, REPLY, _REPLY_MESSAGE, _UNKNOWN_MESSAGE)

    def _migrate_role(self, node: cst.BaseExpression) -> None:
        """Leave reads of roles in the history, which calls and their results do not have."""
        if self._program.is_target(node) or isinstance(
            self._program.parent(node), cst.AssignTarget
        ):
            return
        reason = "calls and their results have no role in the Responses API; check their type"
        self._report.leave(node, REPLY, _REPLY_MESSAGE, reason)

    def _text(
        self, value: Value, owner: cst.BaseExpression
    ) -> Callable[[cst.CSTNode], cst.CSTNode]:
        def edit(node: cst.CSTNode) -> cst.CSTNode:
            inner = _owner_of(node)
            if inner is None:
                return node
            if self._context.is_dict(value, owner):
                return expression(_TEXT_OF_DICT, reply=inner)
            return syntax.with_parentheses_of(
                as_expression(node), expression("{reply}.output_text", reply=inner)
            )

        return edit

    # Whole replies

    def _migrate_use(self, node: cst.BaseExpression, value: Value) -> None:
        """Rewrite the addition of a message to the history; leave what cannot be followed."""
        parent = self._program.parent(node)
        match parent:
            case cst.Element() if not isinstance(self._program.parent(parent), cst.Tuple):
                self._report.find(node, REPLY, _REPLY_MESSAGE)
                self._report.edits(REPLY).replace(parent, self._as_items(value))
            case cst.Arg(star="", keyword=None):
                call = self._program.parent(parent)
                assert isinstance(call, cst.Call)  # noqa: S101 - an argument is in a call
                self._migrate_argument(node, value, call)
            case cst.DictElement() | cst.StarredDictElement():
                self._report.leave(node, REPLY, _REPLY_MESSAGE, _UNKNOWN_USE)
            case cst.Return() | cst.Yield() if self._context.uses.of(node) == "other":
                self._report.leave(node, REPLY, _REPLY_MESSAGE, _UNKNOWN_USE)
            case _:
                pass

    def _migrate_argument(self, node: cst.BaseExpression, value: Value, call: cst.Call) -> None:
        match call.func:
            case cst.Attribute(value=owner, attr=cst.Name(value="append")) if (
                self._values.of(owner) is None
            ):
                self._report.find(node, REPLY, _REPLY_MESSAGE)
                self._report.edits(REPLY).replace(call, self._as_extension(value))
            case _:
                if self._context.references.callee(call) is None and not self._is_harmless(call):
                    self._report.leave(node, REPLY, _REPLY_MESSAGE, _UNKNOWN_USE)

    def _is_harmless(self, call: cst.Call) -> bool:
        name = syntax.code(call.func)
        method = name.rsplit(".", 1)[-1]
        is_log = method in ("debug", "info", "warning", "error", "exception")
        return name in _HARMLESS or is_log or self._values.of(call) is not None

    def _output(self, reply: cst.BaseExpression, value: Value) -> cst.BaseExpression:
        is_dumped = (
            isinstance(reply, cst.Call)
            and isinstance(reply.func, cst.Attribute)
            and (reply.func.attr.value in _DUMPS)
        )
        if value.is_old and not value.is_dict and not is_dumped:
            # The other messages of the history are dictionaries.
            return expression('{reply}.to_dict()["output"]', reply=reply)
        is_dict = is_dumped or value.is_dict
        return expression('{reply}["output"]' if is_dict else "{reply}.output", reply=reply)

    def _as_items(self, value: Value) -> Callable[[cst.CSTNode], cst.CSTNode]:
        def edit(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.Element)  # noqa: S101 - an edit of an element
            return cst.StarredElement(self._output(node.value, value), comma=node.comma)

        return edit

    def _as_extension(self, value: Value) -> Callable[[cst.CSTNode], cst.CSTNode]:
        def edit(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.Call)  # noqa: S101 - an edit of a call
            [argument] = node.args
            return node.with_changes(
                func=node.func.with_changes(attr=cst.Name("extend")),
                args=[argument.with_changes(value=self._output(argument.value, value))],
            )

        return edit

    # `finish_reason`

    def _migrate_comparison(self, comparison: cst.Comparison) -> None:
        for node in (comparison.left, *(one.comparator for one in comparison.comparisons)):
            if self._field(node) == "finish_reason":
                self._migrate_reason(comparison, node)

    def _migrate_subject(self, match: cst.Match) -> None:
        if self._field(match.subject) == "finish_reason":
            self._rewrite_reason(match.subject)

    def _migrate_reason(self, comparison: cst.Comparison, node: cst.BaseExpression) -> None:
        match comparison:
            case cst.Comparison(
                left=left,
                comparisons=[
                    cst.ComparisonTarget(
                        operator=cst.Equal() | cst.NotEqual() as operator, comparator=other
                    )
                ],
            ) if left is node and syntax.string(other) in (FIELD, "stop"):
                is_stop = syntax.string(other) == "stop"
                negated = isinstance(operator, cst.NotEqual) != is_stop
                self._report.find(comparison, REPLY, _REPLY_MESSAGE)
                self._report.edits(REPLY).replace(comparison, self._as_calls(negated=negated))
            case _:
                self._rewrite_reason(node)

    def _as_calls(self, *, negated: bool) -> Callable[[cst.CSTNode], cst.CSTNode]:
        def edit(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.Comparison)  # noqa: S101 - an edit of a comparison
            found = self._has_calls(node.left)
            return expression("not {found}", found=found) if negated else found

        return edit

    def _has_calls(self, reason: cst.BaseExpression) -> cst.BaseExpression:
        reply = _owner_of(reason)
        assert reply is not None  # noqa: S101 - it is a field of a reply
        is_dict = not isinstance(reason, cst.Attribute)
        template = '{reply}["function_call"]' if is_dict else "{reply}.function_call"
        return self._context.target.has_calls(expression(template, reply=reply))

    def _rewrite_reason(self, node: cst.BaseExpression) -> None:
        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            found = self._has_calls(as_expression(changed))
            return expression('("function_call" if {found} else "stop")', found=found)

        self._report.rewrite(node, REPLY, _REPLY_MESSAGE, edit)


def _as_responses(node: cst.CSTNode) -> cst.CSTNode:
    """Return `client.responses.create` for `client.chat.completions.create`."""
    match node:
        case cst.Attribute(
            value=cst.Attribute(
                value=cst.Attribute(value=client, attr=cst.Name(value="chat")),
                attr=cst.Name(value="completions"),
            ),
        ):
            client = _without_beta(client)
            return node.with_changes(value=cst.Attribute(client, cst.Name("responses")))
        case _:
            return node


def _without_beta(client: cst.BaseExpression) -> cst.BaseExpression:
    match client:
        case cst.Attribute(value=value, attr=cst.Name(value="beta")):
            return value
        case _:
            return client


def _owner_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression whose field is read."""
    match node:
        case cst.Attribute(value=owner) | cst.Subscript(value=owner):
            return owner
        case cst.Call(func=cst.Attribute(value=owner)):
            return owner
        case cst.Call(func=cst.Name(value="getattr"), args=[owner, *_]):
            return owner.value
        case cst.BooleanOperation(left=left):
            # A field with a default.
            return _owner_of(left)
        case _:
            return None


def _inner(node: cst.CSTNode) -> cst.CSTNode:
    inner = _owner_of(node)
    if inner is None or isinstance(node, cst.BooleanOperation):
        return inner or node
    return syntax.with_parentheses_of(as_expression(node), inner)


def _as_list(node: cst.CSTNode) -> cst.CSTNode:
    """Return a list with the response, which stands for the choices."""
    return expression("[{reply}]", reply=as_expression(_inner(node)))


def _renamed_field(name: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    def edit(node: cst.CSTNode) -> cst.CSTNode:
        match node:
            case cst.Attribute():
                return node.with_changes(attr=cst.Name(name))
            case cst.Subscript():
                return syntax.with_key(node, name)
            case _:
                return node

    return edit
