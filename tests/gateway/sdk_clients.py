"""Real clients that hold a conversation with tools, each in its own dialect and way of reading.

unary    waits for the whole answer
raw      reads the stream itself, as plainly as people write it
helper   uses the package's own stream helper
old      speaks as the package did in its 0.28 generation
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
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
    """Declare the tools, as legacy does; the other dialects wrap this."""
    return [{"name": n, "description": f"Ask {n}.", "parameters": PARAMETERS} for n in TOOLS]


@dataclass(frozen=True)
class ClientReply:
    """What a client understood of one answer."""

    turn: Turn
    # How the answer ended, in the client's own words.
    finish: str
    # All tokens, if it was told.
    tokens: int | None


class Client(Protocol):
    """Asks, and goes on with results, in one conversation."""

    def send_question(self, force: str | None = None) -> ClientReply:
        """Ask the question; a tool may be forced."""
        ...

    def send_results(self, results: Sequence[str]) -> ClientReply:
        """Give the results of all calls of the last answer, in their order."""
        ...


# Chat


class ChatClient:
    """`client.chat.completions`, with tools."""

    def __init__(self, sdk: openai.OpenAI, model: str, mode: str) -> None:
        self._sdk = sdk
        self._model = model
        self._mode = mode
        self._messages: list[object] = [{"role": "system", "content": "Be brief."}]
        self._ids: list[str] = []

    def send_question(self, force: str | None = None) -> ClientReply:
        self._messages.append({"role": "user", "content": QUESTION})
        if force is None:
            return self._turn({})
        return self._turn({"tool_choice": {"type": "function", "function": {"name": force}}})

    def send_results(self, results: Sequence[str]) -> ClientReply:
        for name, result in zip(self._ids, results, strict=True):
            self._messages.append({"role": "tool", "tool_call_id": name, "content": result})
        return self._turn({})

    def _turn(self, more: JsonObject) -> ClientReply:
        tools = [{"type": "function", "function": {**f, "strict": True}} for f in function_tools()]
        asked = {"model": self._model, "messages": self._messages, "tools": tools, **more}
        completion = create_completion(self._sdk, self._mode, asked)
        message = completion.choices[0].message
        self._messages.append(message.to_dict())
        self._ids = [call.id for call in message.tool_calls or ()]
        assert all(self._ids), "a call has no id"
        assert len(set(self._ids)) == len(self._ids), f"ids are not unique: {self._ids}"
        return _chat_reply(completion)


INCLUDE_USAGE: JsonObject = {"stream_options": {"include_usage": True}}


def create_completion(sdk: openai.OpenAI, mode: str, asked: JsonObject) -> ChatCompletion:
    """Ask in one of the three ways of the package."""
    # The package's overloads want literal arguments; what is given is checked by the gateway.
    completions: Any = sdk.chat.completions
    match mode:
        case "unary":
            return ChatCompletion.model_validate(completions.create(**asked).to_dict())
        case "raw":
            with completions.create(stream=True, **INCLUDE_USAGE, **asked) as chunks:
                return join_chunks(chunks)
        case _:
            with completions.stream(**INCLUDE_USAGE, **asked) as events:
                for _ in events:
                    pass
                return ChatCompletion.model_validate(events.get_final_completion().to_dict())


def join_chunks(chunks: Iterable[ChatCompletionChunk]) -> ChatCompletion:
    """Put a stream together as loops in the field do: everything is concatenated, names too."""
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
    kept = {"id": last.id, "created": last.created, "model": last.model, "usage": usage}
    return ChatCompletion.model_validate({**kept, "object": "chat.completion", "choices": [whole]})


def _append_strings(whole: JsonObject, delta: JsonObject) -> None:
    """Concatenate every text of a delta to what is there."""
    for name, value in delta.items():
        if isinstance(value, str):
            whole[name] = str(whole.get(name, "")) + value
        elif isinstance(value, dict):
            whole.setdefault(name, {})
            _append_strings(object_in(whole, name), object_in(delta, name))


def _chat_reply(completion: ChatCompletion) -> ClientReply:
    choice = completion.choices[0]
    tokens = None if completion.usage is None else completion.usage.total_tokens
    return ClientReply(_chat_turn(choice.message), choice.finish_reason, tokens)


def _chat_turn(message: ChatCompletionMessage) -> Turn:
    calls: list[Call] = []
    for call in message.tool_calls or ():
        assert call.type == "function"
        calls.append(Call(call.function.name, call.function.arguments))
    if message.function_call is not None:
        calls.append(Call(message.function_call.name, message.function_call.arguments))
    return Turn(message.content or None, tuple(calls))


# Legacy


class LegacyClient:
    """The same endpoint, with `functions`; in the mode `old`, with the bytes of that time."""

    def __init__(self, sdk: openai.OpenAI, model: str, mode: str) -> None:
        self._sdk = sdk
        self._model = model
        self._mode = mode
        self._messages: list[object] = [{"role": "system", "content": "Be brief."}]
        self._name = ""

    def send_question(self, force: str | None = None) -> ClientReply:
        self._messages.append({"role": "user", "content": QUESTION})
        return self._turn({} if force is None else {"function_call": {"name": force}})

    def send_results(self, results: Sequence[str]) -> ClientReply:
        for result in results:
            self._messages.append({"role": "function", "name": self._name, "content": result})
        return self._turn({})

    def _turn(self, more: JsonObject) -> ClientReply:
        asked: JsonObject = {"model": self._model, "messages": self._messages}
        completion = self._ask({**asked, "functions": function_tools(), **more})
        message = completion.choices[0].message
        assert not message.tool_calls, "a legacy client knows no tool_calls"
        call = message.function_call
        # As code of that time did: by hand, and with content null.
        echo: JsonObject = {"role": "assistant", "content": message.content}
        if call is not None:
            self._name = call.name
            echo["function_call"] = {"name": call.name, "arguments": call.arguments}
        self._messages.append(echo)
        return _chat_reply(completion)

    def _ask(self, asked: JsonObject) -> ChatCompletion:
        if self._mode != "old":
            return create_completion(self._sdk, self._mode, asked)
        chunks = old_sdk_client.stream(self._sdk.base_url.port or 0, asked)
        return join_chunks(ChatCompletionChunk.model_validate(chunk) for chunk in chunks)


# Responses


class ResponsesClient:
    """`client.responses`, keeping the conversation itself."""

    def __init__(self, sdk: openai.OpenAI, model: str, mode: str) -> None:
        self._sdk = sdk
        self._model = model
        self._mode = mode
        self._input: list[object] = []
        self._ids: list[str] = []

    def send_question(self, force: str | None = None) -> ClientReply:
        self._input.append({"role": "user", "content": QUESTION})
        return self._turn({} if force is None else {"tool_choice": _function_choice(force)})

    def send_results(self, results: Sequence[str]) -> ClientReply:
        for name, result in zip(self._ids, results, strict=True):
            output = {"type": "function_call_output", "call_id": name, "output": result}
            self._input.append(output)
        return self._turn({})

    def _turn(self, more: JsonObject) -> ClientReply:
        tools = [{"type": "function", **function, "strict": True} for function in function_tools()]
        asked = {"model": self._model, "input": self._input, "tools": tools, "store": False}
        response = create_response(
            self._sdk, self._mode, {**asked, "instructions": "Be brief.", **more}
        )
        self._input += [item.to_dict() for item in response.output]
        self._ids = [item.call_id for item in response.output if item.type == "function_call"]
        assert len(set(self._ids)) == len(self._ids), f"ids are not unique: {self._ids}"
        tokens = None if response.usage is None else response.usage.total_tokens
        return ClientReply(_responses_turn(response), response.status or "", tokens)


def _function_choice(tool: str) -> JsonObject:
    return {"type": "function", "name": tool}


def create_response(sdk: openai.OpenAI, mode: str, asked: JsonObject) -> Response:
    """Ask in one of the three ways of the package."""
    responses: Any = sdk.responses
    match mode:
        case "unary":
            return Response.model_validate(responses.create(**asked).to_dict())
        case "raw":
            with responses.create(stream=True, **asked) as events:
                return _final_response(events)
        case _:
            with responses.stream(**asked) as events:
                for _ in events:
                    pass
                return Response.model_validate(events.get_final_response().to_dict())


def _final_response(events: Iterable[ResponseStreamEvent]) -> Response:
    """Read as Codex does: what is done is taken, and the end must say the same."""
    done: list[JsonObject] = []
    for event in events:
        if event.type == "response.output_item.done":
            done.append(event.item.to_dict())
        if event.type in {"response.completed", "response.incomplete", "response.failed"}:
            ended = Response.model_validate(event.to_dict()["response"])
            assert [item.to_dict() for item in ended.output] == done
            return ended
    raise AssertionError("the stream ended without a terminal event")


def _responses_turn(response: Response) -> Turn:
    calls = [
        Call(item.name, item.arguments) for item in response.output if item.type == "function_call"
    ]
    return Turn(response.output_text or None, tuple(calls))


# All of them

CLIENTS: dict[str, type[ChatClient | LegacyClient | ResponsesClient]] = {
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


def expected_finish(dialect: str, turn: Turn) -> str:
    """Say how a turn ends, in the words of a dialect."""
    if dialect == "responses":
        return "completed"
    if not turn.calls:
        return "stop"
    return "function_call" if dialect == "legacy" else "tool_calls"


def request_error(client: str, mode: str, sdk: openai.OpenAI, model: str) -> openai.APIStatusError:
    """Ask, and give the error that comes of it."""
    with pytest.raises(openai.APIStatusError) as caught:
        make_client(client, sdk, model, mode).send_question()
    judge.judge_error(caught.value.response.content)
    return caught.value
