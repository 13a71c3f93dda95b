"""Chat Completions with tools or legacy functions: strict validation, and the model's replies."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from tests.gateway.migration.code.scripted_model import (
    Answer,
    Asked,
    IssuedCall,
    Model,
    Violation,
)
from tests.judges.reading import JsonObject

_COMMON = frozenset((
    "model", "messages", "temperature", "top_p", "n", "stop", "stream", "stream_options", "seed",
    "max_tokens", "max_completion_tokens", "user", "frequency_penalty", "presence_penalty",
))  # fmt: skip
_LEGACY = _COMMON | {"functions", "function_call"}
_TOOLS = _COMMON | {"tools", "tool_choice", "parallel_tool_calls"}
# Fields of a message of the assistant that the server itself sends.
_ASSISTANT = frozenset(("role", "content", "name", "refusal", "annotations", "audio"))
_PIECE = 7


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
    issued = [(one.name, one.arguments) for one in model.issued.values()]
    for value in items(body.get("messages"), "messages"):
        message = fields(
            value, _ASSISTANT | {"function_call", "tool_calls"}, "a message of the conversation"
        )
        if message.get("tool_calls") is not None:
            raise Violation("a legacy conversation has tool_calls")
        if (call := message.get("function_call")) is not None:
            call = fields(call, {"name", "arguments"}, "a function_call")
            if (call.get("name"), call.get("arguments")) not in issued:
                raise Violation(f"the model did not make the call {call}")
        elif message.get("role") == "function":
            fields(message, {"role", "name", "content"}, "a message of a function")
            if message.get("name") not in {name for name, _ in issued}:
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
        issued = model.issued.get(str(call.get("id")))
        if issued is None or call != chat_call(issued):
            raise Violation(f"the model did not make the call {call}")
        ids.append(issued.id)
    if not ids or ids != [one.id for one in model.answer_of_call[ids[0]].calls]:
        raise Violation(f"the calls of a reply are not repeated: {ids}")
    return ids


def _tool_choice(choice: object) -> str:
    if isinstance(choice, str):
        return choice
    function = fields(choice, {"type", "function"}, "tool_choice").get("function")
    return str(fields(function, {"name"}, "tool_choice")["name"])


# Replies


def chat_call(call: IssuedCall) -> JsonObject:
    """Return a call in a message."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def whole_reply(answer: Answer, model: str, *, is_legacy: bool) -> JsonObject:
    """Return a reply that is not streamed."""
    message: JsonObject = {"role": "assistant", "content": answer.text or None}
    if not is_legacy:
        message |= {"refusal": None, "annotations": []}
    if answer.calls and is_legacy:
        [call] = answer.calls
        message["function_call"] = {"name": call.name, "arguments": call.arguments}
    elif answer.calls:
        message["tool_calls"] = [chat_call(call) for call in answer.calls]
    reason = _finish_reason(answer, is_legacy=is_legacy)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    usage = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}
    return {**_head(answer, model, "chat.completion"), "choices": [choice], "usage": usage}


def _finish_reason(answer: Answer, *, is_legacy: bool) -> str:
    # As at OpenAI, a call that was forced ends with "stop".
    if not answer.calls or answer.is_forced:
        return "stop"
    return "function_call" if is_legacy else "tool_calls"


def _head(answer: Answer, model: str, kind: str) -> JsonObject:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": 1700000000, "model": model}


def stream(
    answer: Answer, model: str, *, is_legacy: bool, split_names: bool
) -> Iterator[JsonObject | str]:
    """Yield the chunks of a stream."""
    head = _head(answer, model, "chat.completion.chunk")
    deltas = _legacy_deltas if is_legacy else _tool_deltas
    for delta in deltas(answer, split_names=split_names):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = _finish_reason(answer, is_legacy=is_legacy)
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield "[DONE]"


def _legacy_deltas(answer: Answer, *, split_names: bool) -> Iterator[JsonObject]:
    if not answer.calls:
        yield from _text_deltas(answer)
    for call in answer.calls:
        first, *others = _name_pieces(call, split_names=split_names)
        function = {"name": first, "arguments": ""}
        yield {"role": "assistant", "content": None, "function_call": function}
        for piece in others:
            yield {"function_call": {"name": piece}}
        for piece in pieces(call.arguments):
            yield {"function_call": {"arguments": piece}}


def _tool_deltas(answer: Answer, *, split_names: bool) -> Iterator[JsonObject]:
    if not answer.calls:
        yield from _text_deltas(answer)
    else:
        yield {"role": "assistant", "content": None}
    for index, call in enumerate(answer.calls):
        first, *others = _name_pieces(call, split_names=split_names)
        function: Mapping[str, object] = {"name": first, "arguments": ""}
        head = {"index": index, "id": call.id, "type": "function", "function": function}
        yield {"tool_calls": [head]}
        for piece in others:
            yield {"tool_calls": [{"index": index, "function": {"name": piece}}]}
        for piece in pieces(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _text_deltas(answer: Answer) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": ""}
    for piece in pieces(answer.text):
        yield {"content": piece}


def _name_pieces(call: IssuedCall, *, split_names: bool) -> Sequence[str]:
    return pieces(call.name) if split_names else [call.name]


def pieces(text: str) -> list[str]:
    """Split a text."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def event(data: JsonObject | str) -> bytes:
    """Return an event of a stream."""
    written = data if isinstance(data, str) else json.dumps(data)
    return f"data: {written}\n\n".encode()
