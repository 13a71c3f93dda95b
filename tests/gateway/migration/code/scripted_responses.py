"""The Responses API: strict validation of requests, and the model's replies."""

from collections.abc import Iterator
from typing import cast

from tests.gateway.migration.code.scripted_messages import fields, items, read_function
from tests.gateway.migration.code.scripted_model import (
    Answer,
    Asked,
    IssuedCall,
    Model,
    Violation,
)
from tests.gateway.migration.code.scripted_replies import pieces
from tests.judges.reading import JsonObject

_FIELDS = frozenset((
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream",
    "temperature", "top_p", "max_output_tokens", "previous_response_id", "store", "user",
    "metadata",
))  # fmt: skip
_TEXT_TYPES = {"user": "input_text", "system": "input_text", "developer": "input_text"}


class ResponsesReader:
    """Validates the requests of one run, which can refer to earlier responses."""

    def __init__(self, model: Model) -> None:
        self._model = model
        # The items of a conversation up to and with a response.
        self._stored: dict[str, list[JsonObject]] = {}

    def read(self, body: JsonObject) -> Asked:
        """Validate a request."""
        fields(body, _FIELDS, "the request")
        functions = [_function(one) for one in items(body.get("tools", []), "tools")]
        if body.get("tools") == [] or ("tool_choice" in body and not functions):
            raise Violation("the request has no tools")
        if not isinstance(body.get("model"), str):
            raise Violation("the request has no model")
        walk = _Walk(self._model)
        if isinstance(instructions := body.get("instructions"), str):
            walk.system.append(instructions)
        for item in self._items(body):
            walk.add(item)
        walk.end()
        return Asked(
            tuple(walk.system),
            walk.user,
            tuple(walk.outputs),
            tuple(functions),
            _choice(body.get("tool_choice", "auto")),
            body.get("parallel_tool_calls") is not False,
            body.get("stream") is True,
        )

    def store(self, body: JsonObject, answer: Answer) -> None:
        """Keep the conversation with a response to it."""
        if body.get("store") is not False:
            self._stored[f"resp_{answer.id}"] = [*self._items(body), *_output(answer)]

    def _items(self, body: JsonObject) -> list[JsonObject]:
        given = body.get("input")
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        new = cast("list[JsonObject]", items(given, "input"))
        previous = body.get("previous_response_id")
        if previous is None:
            return new
        if previous not in self._stored:
            raise Violation(f"no response has the id {previous!r}")
        return [*self._stored[str(previous)], *new]


class _Walk:
    """Follows the items of a conversation."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.system: list[str] = []
        self.user = ""
        self.outputs: list[str] = []
        self._open: list[str] = []
        self._calls: list[str] = []

    def add(self, item: JsonObject) -> None:
        match item.get("type", "message"):
            case "message":
                self.end()
                self._add_message(item)
            case "function_call":
                self._add_call(item)
            case "function_call_output":
                allowed = {"type", "call_id", "output", "id", "status"}
                fields(item, allowed, "an output of a function")
                if item.get("call_id") not in self._open:
                    raise Violation(f"no call directly before has the id of {item}; {self._open}")
                if not isinstance(output := item.get("output"), str):
                    raise Violation(f"an output is no text: {item}")
                self._open.remove(str(item["call_id"]))
                self.outputs.append(output)
            case kind:
                raise Violation(f"an item has the type {kind!r}")

    def _add_message(self, item: JsonObject) -> None:
        fields(item, {"type", "role", "content", "id", "status", "phase"}, "a message")
        role, content = item.get("role"), item.get("content")
        kind = "output_text" if role == "assistant" else _TEXT_TYPES.get(str(role))
        if kind is None:
            raise Violation(f"a message has the role {role!r}")
        if not isinstance(content, str):
            parts = cast("list[JsonObject]", items(content, "content"))
            if any(part.get("type") != kind for part in parts):
                raise Violation(f"a part of {role} has not the type {kind}")
            content = "".join(str(part["text"]) for part in parts)
        if role == "user":
            self.user, self.outputs = content, []
        elif role != "assistant":
            self.system.append(content)

    def _add_call(self, item: JsonObject) -> None:
        allowed = {"type", "call_id", "name", "arguments", "id", "status"}
        fields(item, allowed, "a call of a function")
        issued = self._model.find_call(item.get("call_id"), item.get("name"), item.get("arguments"))
        self._open.append(issued.id)
        self._calls.append(issued.id)

    def end(self) -> None:
        """Check the calls before a message, or at the end."""
        if self._open:
            raise Violation(f"the calls {self._open} have no output")
        replies = [self._model.answer_of_call[call].calls for call in self._calls]
        expected = list(dict.fromkeys(call.id for reply in replies for call in reply))
        if self._calls != expected:
            raise Violation(f"the calls of a reply are not repeated: {self._calls}")
        self._calls = []


def _function(value: object) -> JsonObject:
    tool = dict(fields(value, {"type", "name", "description", "parameters", "strict"}, "a tool"))
    if tool.pop("type", None) != "function":
        raise Violation(f"a tool has the wrong type: {value}")
    # Without it, the schema may be changed to a strict one.
    if tool.pop("strict", None) is not False:
        raise Violation("a tool of the Responses API is not strict only with strict: false")
    return read_function(tool, "a tool")


def _choice(choice: object) -> str:
    if isinstance(choice, str):
        return choice
    return str(fields(choice, {"type", "name"}, "tool_choice")["name"])


# Replies


def whole_response(answer: Answer, model: str, status: str = "completed") -> JsonObject:
    """Return a response that is not streamed."""
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 21,
    }
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "model": model,
        "output": _output(answer) if status == "completed" else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }


def _output(answer: Answer) -> list[JsonObject]:
    return [_call(call) for call in answer.calls] or [_message(answer, answer.text)]


def _call(call: IssuedCall) -> JsonObject:
    return {
        "type": "function_call",
        "id": f"fc_{call.id}",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }


def _message(answer: Answer, text: str) -> JsonObject:
    part: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": f"msg_{answer.id}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def response_events(answer: Answer, model: str) -> Iterator[JsonObject]:
    """Yield the events of a streamed response, without their numbers."""
    yield {"type": "response.created", "response": whole_response(answer, model, "in_progress")}
    for index, item in enumerate(_output(answer)):
        is_call = item["type"] == "function_call"
        started = {**item, "status": "in_progress", **({"arguments": ""} if is_call else {})}
        if not is_call:
            started["content"] = []
        yield {"type": "response.output_item.added", "output_index": index, "item": started}
        events = _call_events(item) if is_call else _text_events(item)
        for event in events:
            yield {**event, "output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole_response(answer, model)}


def _call_events(item: JsonObject) -> Iterator[JsonObject]:
    kind = "response.function_call_arguments"
    for piece in pieces(str(item["arguments"])):
        yield {"type": f"{kind}.delta", "delta": piece}
    yield {"type": f"{kind}.done", "arguments": item["arguments"], "name": item["name"]}


def _text_events(item: JsonObject) -> Iterator[JsonObject]:
    [part] = cast("list[JsonObject]", item["content"])
    text = str(part["text"])
    started: JsonObject = {**part, "text": ""}
    place = {"content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": started}
    for piece in pieces(text):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}
