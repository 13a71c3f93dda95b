"""Replies of the scripted backend in each dialect, from a text and calls."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

import adapters
from adapters import EMPTY_REQUEST, ReplyTranslator, TranslationOptions
from gateway.demo.chat import stream_reply
from gateway.pytest_plugin.bodies import JsonObject

_CHAT = adapters.get_dialect("chat")
_USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


class Call(NamedTuple):
    """A function call of the model, with its arguments as JSON or as text."""

    name: str
    arguments: Mapping[str, object] | str
    id: str


def write_reply(dialect: str, model: str, text: str | None, calls: Sequence[Call]) -> bytes:
    """Return a whole reply."""
    body = msgspec.json.encode(_chat_reply(model, text, calls))
    if dialect == _CHAT.name:
        return body
    translator = _translator(dialect, streams=False)
    translator.feed(body)
    return translator.finish().body


def stream_events(
    dialect: str, model: str, text: str | None, calls: Sequence[Call], *, with_usage: bool
) -> list[bytes]:
    """Return the events of a streamed reply; a text is sent word by word."""
    frames = stream_reply(_chat_reply(model, text, calls), with_usage=with_usage)
    if dialect == _CHAT.name:
        return [*frames]
    translator = _translator(dialect, streams=True)
    stream = b"".join([*map(translator.feed, frames), translator.finish(started=True).body])
    return [event + b"\n\n" for event in stream.split(b"\n\n") if event]


def _translator(dialect: str, *, streams: bool) -> ReplyTranslator:
    options = TranslationOptions(adapters.get_dialect(dialect), _CHAT, adapters.deterministic_ids())
    plan = adapters.plan_reply(options, EMPTY_REQUEST, streams=streams)
    return ReplyTranslator(plan, streamed=streams)


def _chat_reply(model: str, text: str | None, calls: Sequence[Call]) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": text, "refusal": None}
    if calls:
        message["tool_calls"] = [_chat_call(call) for call in calls]
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000}
    return {**head, "model": model, "choices": [choice], "usage": _USAGE}


def _chat_call(call: Call) -> JsonObject:
    arguments = call.arguments
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}
