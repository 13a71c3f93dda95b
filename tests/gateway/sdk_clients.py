"""Clients that run tool loops with the OpenAI SDK, one for each dialect, in several modes.

unary    reads the whole reply
raw      reads the events of the stream
helper   uses the stream helper of the SDK
old      uses the protocol of SDK version 0.28
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import FunctionToolParam, Response, ResponseStreamEvent

from tests.gateway import old_sdk_client
from tests.gateway.backend_replies import Call, Turn
from tests.gateway.gateway_process import Gateway
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject, object_in

PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = ("get_weather", "get_time")
QUESTION = "What is it like in Zürich, and in 東京?"
WEATHER_TOOL: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}


def sdk_client(gateway: Gateway, key: str = "sk-me") -> openai.OpenAI:
    """Return an SDK client without retries, so that its errors are visible."""
    return openai.OpenAI(base_url=gateway.url, api_key=key, max_retries=0, timeout=TIMEOUT_SECONDS)


def function_tools() -> list[JsonObject]:
    """Return the tools in the legacy dialect; the others wrap them."""
    return [{"name": n, "description": f"Ask {n}.", "parameters": PARAMETERS} for n in TOOLS]


@dataclass(frozen=True)
class ClientReply:
    """A reply as a client reads it."""

    turn: Turn
    # The finish reason or status in the client's dialect.
    finish: str
    # The total tokens, if reported.
    tokens: int | None


class Client(ABC):
    """A conversation of a client."""

    _opening: tuple[object, ...] = ({"role": "system", "content": "Be brief."},)

    def __init__(self, sdk: openai.OpenAI, model: str, mode: str) -> None:
        self._sdk = sdk
        self._model = model
        self._mode = mode
        self._messages = [*self._opening]
        # The ids of the calls of the last reply, or in the legacy dialect the name of its call.
        self._ids: list[str] = []

    def send_question(self, force: str | None = None) -> ClientReply:
        """Send the first request, which may force a tool."""
        self._messages.append({"role": "user", "content": QUESTION})
        return self._turn({} if force is None else self._choice(force))

    def send_results(self, results: Sequence[str]) -> ClientReply:
        """Send the results of all calls of the last reply, in their order."""
        for call_id, result in zip(self._ids, results, strict=True):
            self._messages.append(self._output(call_id, result))
        return self._turn({})

    @abstractmethod
    def _choice(self, force: str) -> JsonObject:
        """Return the field that forces a tool."""

    @abstractmethod
    def _output(self, call_id: str, result: str) -> JsonObject:
        """Return the message with the result of a call."""

    @abstractmethod
    def _turn(self, more: JsonObject) -> ClientReply:
        """Send the conversation and add the reply to it."""


# Chat


class ChatClient(Client):
    """`client.chat.completions`, with tools."""

    def _choice(self, force: str) -> JsonObject:
        return {"tool_choice": {"type": "function", "function": {"name": force}}}

    def _output(self, call_id: str, result: str) -> JsonObject:
        return {"role": "tool", "tool_call_id": call_id, "content": result}

    def _turn(self, more: JsonObject) -> ClientReply:
        tools = [{"type": "function", "function": {**f, "strict": True}} for f in function_tools()]
        request = {"model": self._model, "messages": self._messages, "tools": tools, **more}
        completion = create_completion(self._sdk, self._mode, request)
        message = completion.choices[0].message
        self._messages.append(message.to_dict())
        self._ids = [call.id for call in message.tool_calls or ()]
        assert all(self._ids), "a call has no id"
        assert len(set(self._ids)) == len(self._ids), f"ids are not unique: {self._ids}"
        return chat_reply(completion)


INCLUDE_USAGE: JsonObject = {"stream_options": {"include_usage": True}}


def create_completion(sdk: openai.OpenAI, mode: str, request: JsonObject) -> ChatCompletion:
    """Create a completion in one of the three modes of the SDK."""
    # The overloads of the SDK require literal arguments.
    completions: Any = sdk.chat.completions
    match mode:
        case "unary":
            return ChatCompletion.model_validate(completions.create(**request).to_dict())
        case "raw":
            with completions.create(stream=True, **INCLUDE_USAGE, **request) as chunks:
                return join_chunks(chunks)
        case _:
            with completions.stream(**INCLUDE_USAGE, **request) as events:
                for _ in events:
                    pass
                return ChatCompletion.model_validate(events.get_final_completion().to_dict())


def join_chunks(chunks: Iterable[ChatCompletionChunk]) -> ChatCompletion:
    """Join a stream as simple clients do: all strings are concatenated, even names."""
    text, calls, function, finish, last = "", dict[int, JsonObject](), JsonObject(), "", None
    for last in chunks:
        for choice in last.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for delta in choice.delta.tool_calls or ():
                _append_strings(calls.setdefault(delta.index, {"function": {}}), delta.to_dict())
            if choice.delta.function_call is not None:
                _append_strings(function, choice.delta.function_call.to_dict())
    assert last is not None, "the stream is empty"
    message: JsonObject = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    if function:
        message["function_call"] = function
    usage = None if last.usage is None else last.usage.to_dict()
    whole = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    head = {"id": last.id, "created": last.created, "model": last.model, "usage": usage}
    return ChatCompletion.model_validate({**head, "object": "chat.completion", "choices": [whole]})


def _append_strings(whole: JsonObject, delta: JsonObject) -> None:
    for name, value in delta.items():
        if isinstance(value, str):
            whole[name] = str(whole.get(name, "")) + value
        elif isinstance(value, dict):
            whole.setdefault(name, {})
            _append_strings(object_in(whole, name), object_in(delta, name))


def chat_reply(completion: ChatCompletion) -> ClientReply:
    choice = completion.choices[0]
    tokens = None if completion.usage is None else completion.usage.total_tokens
    message = choice.message
    calls: list[Call] = []
    for call in message.tool_calls or ():
        assert call.type == "function"
        calls.append(Call(call.function.name, call.function.arguments))
    if message.function_call is not None:
        calls.append(Call(message.function_call.name, message.function_call.arguments))
    return ClientReply(Turn(message.content or None, tuple(calls)), choice.finish_reason, tokens)


# Legacy


class LegacyClient(Client):
    """`client.chat.completions`, with `functions`."""

    def _choice(self, force: str) -> JsonObject:
        return {"function_call": {"name": force}}

    def _output(self, call_id: str, result: str) -> JsonObject:
        return {"role": "function", "name": call_id, "content": result}

    def _turn(self, more: JsonObject) -> ClientReply:
        request: JsonObject = {"model": self._model, "messages": self._messages}
        completion = self._ask({**request, "functions": function_tools(), **more})
        message = completion.choices[0].message
        assert not message.tool_calls, "a legacy client knows no tool_calls"
        call = message.function_call
        # Clients of that time built the message themselves, with null content.
        echo: JsonObject = {"role": "assistant", "content": message.content}
        if call is not None:
            self._ids = [call.name]
            echo["function_call"] = {"name": call.name, "arguments": call.arguments}
        self._messages.append(echo)
        return chat_reply(completion)

    def _ask(self, request: JsonObject) -> ChatCompletion:
        if self._mode != "old":
            return create_completion(self._sdk, self._mode, request)
        return stream_with_old_sdk(self._sdk.base_url.port or 0, request)


def stream_with_old_sdk(port: int, request: JsonObject) -> ChatCompletion:
    chunks = old_sdk_client.stream(port, request)
    return join_chunks(ChatCompletionChunk.model_validate(chunk) for chunk in chunks)


# Responses


class ResponsesClient(Client):
    """`client.responses`, with the history in each request."""

    _opening = ()

    def _choice(self, force: str) -> JsonObject:
        return {"tool_choice": {"type": "function", "name": force}}

    def _output(self, call_id: str, result: str) -> JsonObject:
        return {"type": "function_call_output", "call_id": call_id, "output": result}

    def _turn(self, more: JsonObject) -> ClientReply:
        tools = [{"type": "function", **function, "strict": True} for function in function_tools()]
        request = {"model": self._model, "input": self._messages, "tools": tools, "store": False}
        response = create_response(
            self._sdk, self._mode, {**request, "instructions": "Be brief.", **more}
        )
        self._messages += [item.to_dict() for item in response.output]
        self._ids = [item.call_id for item in response.output if item.type == "function_call"]
        assert len(set(self._ids)) == len(self._ids), f"ids are not unique: {self._ids}"
        return responses_reply(response)


def responses_reply(response: Response) -> ClientReply:
    calls = [Call(it.name, it.arguments) for it in response.output if it.type == "function_call"]
    turn = Turn(response.output_text or None, tuple(calls))
    tokens = None if response.usage is None else response.usage.total_tokens
    return ClientReply(turn, response.status or "", tokens)


def create_response(sdk: openai.OpenAI, mode: str, request: JsonObject) -> Response:
    """Create a response in one of the three modes of the SDK."""
    responses: Any = sdk.responses
    match mode:
        case "unary":
            return Response.model_validate(responses.create(**request).to_dict())
        case "raw":
            with responses.create(stream=True, **request) as events:
                return _final_response(events)
        case _:
            with responses.stream(**request) as events:
                for _ in events:
                    pass
                return Response.model_validate(events.get_final_response().to_dict())


def _final_response(events: Iterable[ResponseStreamEvent]) -> Response:
    """Read as Codex does: collect the items that are done, and compare them with the last event."""
    done: list[JsonObject] = []
    for event in events:
        if event.type == "response.output_item.done":
            done.append(event.item.to_dict())
        if event.type in {"response.completed", "response.incomplete", "response.failed"}:
            final = Response.model_validate(event.to_dict()["response"])
            assert [item.to_dict() for item in final.output] == done
            return final
    raise AssertionError("the stream final without a terminal event")


CLIENTS: dict[str, type[Client]] = {
    "chat": ChatClient,
    "legacy": LegacyClient,
    "responses": ResponsesClient,
}
MODES = {
    "chat": ("unary", "raw", "helper"),
    "legacy": ("unary", "raw", "old"),
    "responses": ("unary", "raw", "helper"),
}


def make_client(dialect: str, sdk: openai.OpenAI, model: str, mode: str) -> Client:
    return CLIENTS[dialect](sdk, model, mode)


def request_error(client: str, mode: str, sdk: openai.OpenAI, model: str) -> openai.APIStatusError:
    """Send a request that fails, and return the error."""
    with pytest.raises(openai.APIStatusError) as caught:
        make_client(client, sdk, model, mode).send_question()
    judge.judge_error(caught.value.response.content)
    return caught.value
