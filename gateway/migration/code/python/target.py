"""The two forms that legacy code can be rewritten to, as expressions."""

from typing import Final, Literal

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.syntax import expression
from gateway.migration.code.python.uses import message_of

TargetName = Literal["chat", "responses"]


class Chat:
    """Chat Completions with tools."""

    name: TargetName = "chat"
    # Whether the name and the arguments of a call are in a field of it.
    has_function_field = True
    id_field = "id"
    tool = '{"type": "function", "function": {function}}'
    choice = '{"type": "function", "function": {function}}'

    def has_calls(self, read: cst.BaseExpression) -> cst.BaseExpression:
        """Return whether a message has calls, for an expression that reads its call."""
        return _replaced(
            read,
            "{message}.tool_calls",
            '{message}.get("tool_calls")',
            'getattr({message}, "tool_calls", None)',
        )

    def first_call(self, read: cst.BaseExpression) -> cst.BaseExpression:
        """Return the first call of a message that has one."""
        return _replaced(
            read,
            "{message}.tool_calls[0]",
            '{message}["tool_calls"][0]',
            "{message}.tool_calls[0]",
        )

    def any_call(self, read: cst.BaseExpression) -> cst.BaseExpression:
        """Return the first call of a message, or None."""
        message = message_of(read)
        if message is not None and _is_plain(message):
            return _replaced(
                read,
                "({message}.tool_calls[0] if {message}.tool_calls else None)",
                '({message}["tool_calls"][0] if {message}.get("tool_calls") else None)',
                '({message}.tool_calls[0] if getattr({message}, "tool_calls", None) else None)',
            )
        return _replaced(
            read,
            "({message}.tool_calls or [None])[0]",
            '({message}.get("tool_calls") or [None])[0]',
            '(getattr({message}, "tool_calls", None) or [None])[0]',
        )

    def calls(self, read: cst.BaseExpression) -> cst.BaseExpression:
        """Return all calls of a message that has some."""
        return _replaced(
            read, "{message}.tool_calls", '{message}["tool_calls"]', "{message}.tool_calls"
        )


class Responses:
    """The Responses API."""

    name: TargetName = "responses"
    has_function_field = False
    id_field = "call_id"
    tool = '{"type": "function", **{function}, "strict": False}'
    choice = '{"type": "function", **{function}}'

    def has_calls(self, read: cst.BaseExpression) -> cst.BaseExpression:
        """Return whether a response has calls, for an expression that reads its call."""
        message = message_of(read)
        if message is not None and ":=" in syntax.code(message):
            return self._filtered(read, "any({items})")
        return _replaced(
            read,
            'any(item.type == "function_call" for item in {message}.output)',
            'any(item["type"] == "function_call" for item in {message}["output"])',
            'any(item.type == "function_call" for item in {message}.output)',
        )

    def first_call(self, read: cst.BaseExpression) -> cst.BaseExpression:
        """Return the first call of a response that has one."""
        return self._next(read, "next({items})")

    def any_call(self, read: cst.BaseExpression) -> cst.BaseExpression:
        """Return the first call of a response, or None."""
        return self._next(read, "next(({items}), None)")

    def calls(self, read: cst.BaseExpression) -> cst.BaseExpression:
        """Return all calls of a response."""
        return self._next(read, "[{items}]")

    def _next(self, read: cst.BaseExpression, template: str) -> cst.BaseExpression:
        message = message_of(read)
        if message is not None and ":=" in syntax.code(message):
            # An assignment cannot be in the iterable of a comprehension.
            return self._filtered(read, template)
        objects = 'item for item in {message}.output if item.type == "function_call"'
        dicts = 'item for item in {message}["output"] if item["type"] == "function_call"'
        return _replaced(
            read,
            template.replace("{items}", objects),
            template.replace("{items}", dicts),
            template.replace("{items}", objects),
        )

    def _filtered(self, read: cst.BaseExpression, template: str) -> cst.BaseExpression:
        template = template.replace("next(({items})", "next({items}")
        objects = 'filter(lambda item: item.type == "function_call", {message}.output)'
        dicts = 'filter(lambda item: item["type"] == "function_call", {message}["output"])'
        return _replaced(
            read,
            template.replace("{items}", objects),
            template.replace("{items}", dicts),
            template.replace("{items}", objects),
        )


Target = Chat | Responses
TARGETS: Final[dict[str, Target]] = {"chat": Chat(), "responses": Responses()}


def _is_plain(message: cst.BaseExpression) -> bool:
    """Whether an expression can be evaluated twice."""
    match message:
        case cst.Name():
            return True
        case cst.Attribute(value=value) | cst.Subscript(value=value):
            return _is_plain(value)
        case _:
            return False


def _replaced(
    read: cst.BaseExpression, for_object: str, for_dict: str, for_getattr: str
) -> cst.BaseExpression:
    """Return an expression with the message of a read, in the form of the read."""
    message = message_of(read)
    assert message is not None  # noqa: S101 - callers pass only reads
    match read:
        case cst.Attribute():
            template = for_object
        case cst.Call(func=cst.Name()):
            template = for_getattr
        case _:
            template = for_dict
    return syntax.with_parentheses_of(read, expression(template, message=message))
