"""Strict validation of requests with tools or legacy functions."""

from collections.abc import Sequence
from typing import cast

from tests.gateway.migration.code.scripted_model import Asked, Model, Violation
from tests.judges.reading import JsonObject

_COMMON = frozenset((
    "model", "messages", "temperature", "top_p", "n", "stop", "stream", "stream_options", "seed",
    "max_tokens", "max_completion_tokens", "user", "frequency_penalty", "presence_penalty",
))  # fmt: skip
_LEGACY = _COMMON | {"functions", "function_call"}
_TOOLS = _COMMON | {"tools", "tool_choice", "parallel_tool_calls"}
# Fields of a message of the assistant that the server itself sends.
_ASSISTANT = frozenset(("role", "content", "name", "refusal", "annotations", "audio"))


def fields(value: object, allowed: frozenset[str] | set[str], where: str) -> JsonObject:
    """Return an object that has only allowed fields."""
    if not isinstance(value, dict):
        raise Violation(f"{where} is not an object: {value!r}")
    found = cast("JsonObject", value)
    if unknown := sorted(found.keys() - allowed):
        raise Violation(f"{where} has {unknown}")
    return found


def items(value: object, where: str) -> list[object]:
    """Return an array."""
    if not isinstance(value, list):
        raise Violation(f"{where} is not an array: {value!r}")
    return cast("list[object]", value)


def text_of(content: object, where: str) -> str:
    """Return the text of a content, which is a string or parts with text."""
    if isinstance(content, str):
        return content
    parts = [fields(part, {"type", "text"}, where) for part in items(content, where)]
    return "".join(str(part["text"]) for part in parts)


def read_function(value: object, where: str, *extra: str) -> JsonObject:
    """Return the declaration of a function."""
    function = fields(value, {"name", "description", "parameters", *extra}, where)
    if not isinstance(function.get("name"), str):
        raise Violation(f"{where} has no name")
    parameters = function.get("parameters", {"type": "object"})
    if not isinstance(parameters, dict) or "type" not in parameters:
        raise Violation(f"{where} has parameters that are no schema: {parameters!r}")
    return {name: function[name] for name in function if name not in extra}


# Legacy functions


def read_legacy(body: JsonObject, model: Model) -> Asked:
    """Validate a request with legacy functions."""
    fields(body, _LEGACY, "the request")
    functions = [
        read_function(one, "a function") for one in items(body.get("functions", []), "functions")
    ]
    if body.get("functions") == [] or ("function_call" in body and not functions):
        raise Violation("the request has no functions")
    conversation = _Conversation()
    for value in items(body.get("messages"), "messages"):
        message = fields(
            value, _ASSISTANT | {"function_call", "tool_calls"}, "a message of the conversation"
        )
        if message.get("tool_calls") is not None:
            raise Violation("a legacy conversation has tool_calls")
        if (call := message.get("function_call")) is not None:
            call = fields(call, {"name", "arguments"}, "a function_call")
            if not model.has_made(call.get("name"), call.get("arguments")):
                raise Violation(f"the model did not make the call {call}")
        elif message.get("role") == "function":
            fields(message, {"role", "name", "content"}, "a message of a function")
            if not model.has_called(message.get("name")):
                raise Violation(f"the model did not call {message.get('name')}")
            conversation.outputs.append(_content(message))
        else:
            conversation.add(message)
    choice = _legacy_choice(body.get("function_call", "auto"))
    return conversation.asked({**body, "parallel_tool_calls": False}, functions, choice)


def _legacy_choice(choice: object) -> str:
    if isinstance(choice, str):
        return choice
    return str(fields(choice, {"name"}, "function_call")["name"])


class _Conversation:
    def __init__(self) -> None:
        self._system: list[str] = []
        self._user = ""
        self.outputs: list[str] = []

    def add(self, message: JsonObject) -> None:
        """Add a message without calls."""
        match message.get("role"):
            case "user":
                self._user, self.outputs = text_of(message.get("content"), "content"), []
            case "system" | "developer":
                self._system.append(text_of(message.get("content"), "content"))
            case "assistant":
                _content(message)
            case role:
                raise Violation(f"a message has the role {role!r}")

    def asked(self, body: JsonObject, functions: Sequence[JsonObject], choice: str) -> Asked:
        if not isinstance(body.get("model"), str):
            raise Violation("the request has no model")
        return Asked(
            tuple(self._system),
            self._user,
            tuple(self.outputs),
            tuple(functions),
            choice,
            body.get("parallel_tool_calls") is not False,
            body.get("stream") is True,
        )


def _content(message: JsonObject) -> str:
    content = message.get("content")
    if not isinstance(content, str):
        raise Violation(f"a message has no text: {message}")
    return content


# Tools


def read_tools(body: JsonObject, model: Model) -> Asked:
    """Validate a request with tools."""
    fields(body, _TOOLS, "the request")
    tools = [
        fields(one, {"type", "function"}, "a tool") for one in items(body.get("tools", []), "tools")
    ]
    if body.get("tools") == [] or (not tools and body.keys() & {"tool_choice"}):
        raise Violation("the request has no tools")
    if not tools and "parallel_tool_calls" in body:
        raise Violation("parallel_tool_calls is only allowed with tools")
    functions = [read_function(one.get("function"), "a tool", "strict") for one in tools]
    conversation = _Conversation()
    # The ids that need an output, in the messages directly after their calls.
    open_ids: list[str] = []
    for value in items(body.get("messages"), "messages"):
        message = fields(
            value,
            _ASSISTANT | {"function_call", "tool_calls", "tool_call_id"},
            "a message of the conversation",
        )
        if message.get("role") == "tool":
            fields(message, {"role", "tool_call_id", "content"}, "a message of a tool")
            if message.get("tool_call_id") not in open_ids:
                raise Violation(f"no call directly before has the id of {message}; {open_ids}")
            open_ids.remove(str(message["tool_call_id"]))
            conversation.outputs.append(_content(message))
            continue
        if open_ids:
            raise Violation(f"the calls {open_ids} have no output")
        if message.get("function_call") is not None:
            raise Violation("a message has function_call")
        if message.get("tool_calls") is not None:
            fields(message, _ASSISTANT | {"tool_calls", "function_call"}, "a message with calls")
            open_ids = _repeated(message, model)
        else:
            conversation.add(fields(message, _ASSISTANT | {"tool_calls", "function_call"}, "it"))
    if open_ids:
        raise Violation(f"the calls {open_ids} have no output")
    return conversation.asked(body, functions, _tool_choice(body.get("tool_choice", "auto")))


def _repeated(message: JsonObject, model: Model) -> list[str]:
    """Return the ids of the calls in a message, which must be those of one reply."""
    if message.get("role") != "assistant":
        raise Violation(f"a message of {message.get('role')} has calls")
    ids: list[str] = []
    for value in items(message["tool_calls"], "tool_calls"):
        call = fields(value, {"id", "type", "function"}, "a call")
        function = fields(call.get("function"), {"name", "arguments"}, "a call")
        issued = model.find_call(call.get("id"), function.get("name"), function.get("arguments"))
        if call.get("type") != "function":
            raise Violation(f"a call has the wrong type: {call}")
        ids.append(issued.id)
    if not ids or ids != [one.id for one in model.answer_of_call[ids[0]].calls]:
        raise Violation(f"the calls of a reply are not repeated: {ids}")
    return ids


def _tool_choice(choice: object) -> str:
    if isinstance(choice, str):
        return choice
    function = fields(choice, {"type", "function"}, "tool_choice").get("function")
    return str(fields(function, {"name"}, "tool_choice")["name"])
