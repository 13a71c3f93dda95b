"""Requests to the demo's transport in every dialect, and readers for its replies."""

import asyncio
import json
from typing import Literal

import httpx

import adapters
from adapters.dialect import ReplyContext
from adapters.ir.accumulator import accumulate
from adapters.ir.types import EMPTY_REQUEST, Choice, Item, Message, Reply, Text, ToolCall
from adapters.losses import Losses
from adapters.sse import Decoder
from gateway.demo import DemoTransport
from tests.judges.reading import JsonObject, objects_in
from tests.judges.sdk import (
    judge_chat_reply,
    judge_chat_stream,
    judge_responses_reply,
    judge_responses_stream,
)

DialectName = Literal["chat", "responses", "legacy"]
PATHS: dict[DialectName, str] = {
    "chat": "/v1/chat/completions",
    "legacy": "/v1/chat/completions",
    "responses": "/v1/responses",
}


class RawResponse:
    """A response, with its body in the chunks in which it came."""

    def __init__(self, status: int, headers: httpx.Headers, chunks: list[bytes]) -> None:
        self.status = status
        self.headers = headers
        self.chunks = chunks

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


def send(path: str, body: bytes = b"", method: str = "POST") -> RawResponse:
    return asyncio.run(_send(path, body, method))


async def _send(path: str, body: bytes, method: str) -> RawResponse:
    transport = DemoTransport(ids=adapters.deterministic_ids(), delta_delay=0)
    request = httpx.Request(method, f"http://demo{path}", content=body)
    response = await transport.handle_async_request(request)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    chunks = [chunk async for chunk in response.stream]
    await response.aclose()
    return RawResponse(response.status_code, response.headers, chunks)


def send_request(name: DialectName, body: JsonObject, *, stream: bool = False) -> Reply:
    """Send a request, validate the reply, and read it."""
    request = {"model": "demo", **body, "stream": stream}
    response = send(PATHS[name], json.dumps(request).encode())
    assert response.status == 200, response.body
    validate(name, response.body, stream=stream)
    context = ReplyContext(EMPTY_REQUEST, adapters.deterministic_ids(), Losses(None))
    if not stream:
        return adapters.get_dialect(name).read_reply(response.body, context)
    reader = adapters.get_dialect(name).read_stream(context)
    frames = Decoder().feed(response.body)
    return accumulate([event for frame in frames for event in reader.feed(frame)])


def validate(name: DialectName, body: bytes, *, stream: bool) -> None:
    match name, stream:
        case "responses", True:
            judge_responses_stream(body)
        case "responses", False:
            judge_responses_reply(body)
        case _, True:
            judge_chat_stream(body)
        case _, False:
            judge_chat_reply(body)
    if stream:
        assert adapters.check(name, body) == []


def only(reply: Reply) -> Choice:
    (choice,) = reply.choices
    return choice


def calls_of(reply: Reply) -> list[ToolCall]:
    return [item for item in only(reply).items if isinstance(item, ToolCall)]


def text_of(reply: Reply) -> str:
    return "".join(map(_text, only(reply).items))


def _text(item: Item) -> str:
    parts = item.content if isinstance(item, Message) else ()
    return "".join(part.text for part in parts if isinstance(part, Text))


# The same requests in each dialect


def question(name: DialectName, text: str, *tools: JsonObject) -> JsonObject:
    """Return a request with a question, and with tools given as legacy functions."""
    message: JsonObject = {"role": "user", "content": text}
    request: JsonObject = {"input" if name == "responses" else "messages": [message]}
    if not tools:
        return request
    match name:
        case "chat":
            return request | {"tools": [{"type": "function", "function": tool} for tool in tools]}
        case "responses":
            return request | {"tools": [{"type": "function", **tool} for tool in tools]}
        case "legacy":
            return request | {"functions": list(tools)}


def with_outputs(name: DialectName, request: JsonObject, reply: Reply, *outputs: str) -> JsonObject:
    """Return a request continued by the calls of a reply and their outputs."""
    calls = calls_of(reply)
    pairs = list(zip(calls, outputs, strict=True))
    turns: list[JsonObject] = []
    match name:
        case "chat":
            tool_calls = [_tool_call(call) for call in calls]
            turns.append({"role": "assistant", "content": None, "tool_calls": tool_calls})
            turns += [_tool_turn(call, output) for call, output in pairs]
        case "legacy":
            turns += [turn for pair in pairs for turn in _function_turns(*pair)]
        case "responses":
            turns += [_call_item(call) for call in calls]
            turns += [_output_item(call, output) for call, output in pairs]
    key = "input" if name == "responses" else "messages"
    return request | {key: [*objects_in(request, key), *turns]}


def _function(call: ToolCall) -> JsonObject:
    return {"name": call.name, "arguments": call.arguments}


def _tool_call(call: ToolCall) -> JsonObject:
    return {"id": call.call_id, "type": "function", "function": _function(call)}


def _tool_turn(call: ToolCall, output: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": call.call_id, "content": output}


def _call_item(call: ToolCall) -> JsonObject:
    return {"type": "function_call", "call_id": call.call_id, **_function(call)}


def _output_item(call: ToolCall, output: str) -> JsonObject:
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


def _function_turns(call: ToolCall, output: str) -> list[JsonObject]:
    return [
        {"role": "assistant", "content": None, "function_call": _function(call)},
        {"role": "function", "name": call.name, "content": output},
    ]
