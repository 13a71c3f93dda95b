"""Asks the demo, at the level of its transport, and reads what it answers."""

import asyncio
import json
from typing import Literal

import httpx

import adapters
from adapters.dialect import ReplyContext
from adapters.ir.types import Choice, Item, Message, Reply, Text, ToolCall
from adapters.losses import Losses
from adapters.translation.reply_stages import UNKNOWN_REQUEST
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


class Answer:
    """What came back, in the pieces in which it came."""

    def __init__(self, status: int, headers: httpx.Headers, pieces: list[bytes]) -> None:
        self.status = status
        self.headers = headers
        self.pieces = pieces

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


def send(path: str, body: bytes = b"", method: str = "POST") -> Answer:
    return asyncio.run(_send(path, body, method))


async def _send(path: str, body: bytes, method: str) -> Answer:
    transport = DemoTransport(mint=adapters.deterministic_ids(), pause=0)
    request = httpx.Request(method, f"http://demo{path}", content=body)
    response = await transport.handle_async_request(request)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    pieces = [piece async for piece in response.stream]
    await response.aclose()
    return Answer(response.status_code, response.headers, pieces)


def ask(name: DialectName, body: JsonObject, *, stream: bool = False) -> Reply:
    """Ask, let the judges decide whether the answer is legal, and read it."""
    asked = {"model": "demo", **body, "stream": stream}
    answer = send(PATHS[name], json.dumps(asked).encode())
    assert answer.status == 200, answer.body
    judge(name, answer.body, stream=stream)
    exchange = adapters.exchange(
        "chat", name, mint=adapters.deterministic_ids(), asked=UNKNOWN_REQUEST
    )
    if not stream:
        around = ReplyContext(UNKNOWN_REQUEST, adapters.deterministic_ids(), Losses(None))
        return adapters.dialect(name).read_reply(answer.body, around)
    collector = exchange.collect()
    collector.feed(answer.body)
    return collector.reply()


def judge(name: DialectName, body: bytes, *, stream: bool) -> None:
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


def words_of(reply: Reply) -> str:
    return "".join(map(_words, only(reply).items))


def _words(item: Item) -> str:
    parts = item.content if isinstance(item, Message) else ()
    return "".join(part.text for part in parts if isinstance(part, Text))


# How each dialect says the same things


def question(name: DialectName, text: str, *tools: JsonObject) -> JsonObject:
    """Ask a question, with tools given as legacy functions."""
    said: JsonObject = {"role": "user", "content": text}
    asked: JsonObject = {"input" if name == "responses" else "messages": [said]}
    if not tools:
        return asked
    match name:
        case "chat":
            return asked | {"tools": [{"type": "function", "function": tool} for tool in tools]}
        case "responses":
            return asked | {"tools": [{"type": "function", **tool} for tool in tools]}
        case "legacy":
            return asked | {"functions": list(tools)}


def answered(name: DialectName, asked: JsonObject, reply: Reply, *outputs: str) -> JsonObject:
    """Go on with the conversation: the calls of a reply, and what they gave."""
    calls = calls_of(reply)
    pairs = list(zip(calls, outputs, strict=True))
    turns: list[JsonObject] = []
    match name:
        case "chat":
            called = [_tool_call(call) for call in calls]
            turns.append({"role": "assistant", "content": None, "tool_calls": called})
            turns += [_tool_turn(call, output) for call, output in pairs]
        case "legacy":
            turns += [turn for pair in pairs for turn in _function_turns(*pair)]
        case "responses":
            turns += [_call_item(call) for call in calls]
            turns += [_output_item(call, output) for call, output in pairs]
    key = "input" if name == "responses" else "messages"
    return asked | {key: [*objects_in(asked, key), *turns]}


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
