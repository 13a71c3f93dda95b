"""Replies of a scripted backend in each dialect."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from zlib import crc32

from tests.gateway.scripted_backend import Script, ScriptedBackend, json_reply, stream_reply
from tests.judges.reading import JsonObject, object_in
from tests.judges.sample_streams import DONE, responses_events, responses_stream
from tests.judges.samples import encoded, response

USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


@dataclass(frozen=True)
class Call:
    """A function call of the model."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Turn:
    """A turn of the model: text, calls, or both."""

    text: str | None = None
    calls: tuple[Call, ...] = ()

    def for_legacy(self) -> "Turn":
        """Return the turn with one call at most, which is what the legacy dialect supports."""
        return replace(self, calls=self.calls[:1])


def reply_body(dialect: str, turn: Turn) -> bytes:
    """Return the JSON body of a turn."""
    match dialect:
        case "responses":
            body = response("completed", _items(turn))
            body["usage"] = _responses_usage()
            return encoded(body)
        case "legacy":
            return encoded(_completion(_legacy_message(turn), _finish("function_call", turn)))
        case _:
            return encoded(_completion(_chat_message(turn), _finish("tool_calls", turn)))


def stream_events(dialect: str, turn: Turn, *, usage: bool = True) -> list[bytes]:
    """Return the events of a turn; Chat and legacy have usage only on request."""
    match dialect:
        case "responses":
            events = responses_events(_items(turn))
            object_in(events[-1], "response")["usage"] = _responses_usage()
            return [responses_stream([event], end=b"") for event in events]
        case "legacy":
            deltas, finish = _legacy_deltas(turn), _finish("function_call", turn)
        case _:
            deltas, finish = _chat_deltas(turn), _finish("tool_calls", turn)
    chunks = [_chunk([_choice(delta, None)]) for delta in deltas]
    chunks.append(_chunk([_choice({}, finish)]))
    if usage:
        chunks.append({**_chunk([]), "usage": USAGE})
    return [*(b"data: %s\n\n" % encoded(chunk) for chunk in chunks), DONE]


def reply_script(dialect: str, turn: Turn, request: JsonObject) -> Script:
    """Reply with a turn, streamed if the request says so."""
    if request.get("stream") is not True:
        return json_reply(reply_body(dialect, turn))
    usage = request.get("stream_options") == {"include_usage": True}
    return stream_reply(*stream_events(dialect, turn, usage=usage))


def script_turns(backend: ScriptedBackend, dialect: str, model: str, *turns: Turn) -> None:
    """Have the backend reply with these turns in order, streamed or whole as requested."""
    remaining = iter(turns)
    backend.respond_with(
        model, lambda received: reply_script(dialect, next(remaining), received.json())
    )


# Chat and legacy


def _completion(message: JsonObject, finish: str) -> JsonObject:
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": USAGE,
    }


def _finish(word: str, turn: Turn) -> str:
    return word if turn.calls else "stop"


def _chat_message(turn: Turn) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": turn.text}
    calls = [_tool_call(call, number) for number, call in enumerate(turn.calls)]
    return {**message, "tool_calls": calls} if calls else message


def _legacy_message(turn: Turn) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": turn.text}
    for call in turn.calls[:1]:
        message["function_call"] = {"name": call.name, "arguments": call.arguments}
    return message


def _tool_call(call: Call, number: int) -> JsonObject:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": _call_id(call, number), "type": "function", "function": function}


def _call_id(call: Call, number: int) -> str:
    """Return an id that is unique in a conversation."""
    return f"call_{number}_{crc32(call.arguments.encode()):08x}"


def _chunk(choices: list[JsonObject]) -> JsonObject:
    kind = "chat.completion.chunk"
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "m", "choices": choices}


def _choice(delta: JsonObject, finish: str | None) -> JsonObject:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _text_deltas(turn: Turn) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": "" if turn.text else None}
    for piece in _split(turn.text or ""):
        yield {"content": piece}


def _chat_deltas(turn: Turn) -> Iterator[JsonObject]:
    yield from _text_deltas(turn)
    for number, call in enumerate(turn.calls):
        function = {"name": call.name, "arguments": ""}
        start = {**_tool_call(call, number), "function": function}
        yield {"tool_calls": [{"index": number, **start}]}
        for piece in _split(call.arguments):
            yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}


def _legacy_deltas(turn: Turn) -> Iterator[JsonObject]:
    yield from _text_deltas(turn)
    for call in turn.calls[:1]:
        yield {"function_call": {"name": call.name, "arguments": ""}}
        for piece in _split(call.arguments):
            yield {"function_call": {"arguments": piece}}


def _split(text: str) -> list[str]:
    return [text[place : place + 6] for place in range(0, len(text), 6)]


# Responses


def _items(turn: Turn) -> list[JsonObject]:
    items: list[JsonObject] = []
    if turn.text is not None:
        part: JsonObject = {"type": "output_text", "text": turn.text}
        part |= {"annotations": list[object](), "logprobs": list[object]()}
        items.append(_item("message", "msg_0", role="assistant", content=[part]))
    for number, call in enumerate(turn.calls):
        function = {
            "call_id": _call_id(call, number),
            "name": call.name,
            "arguments": call.arguments,
        }
        items.append(_item("function_call", f"fc_{number}", **function))
    return items


def _item(kind: str, item_id: str, **fields: object) -> JsonObject:
    return {"type": kind, "id": item_id, "status": "completed", **fields}


def _responses_usage() -> JsonObject:
    return {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    }


# Errors


def error_events(dialect: str, message: str) -> list[bytes]:
    """Return the events of an error within a stream."""
    error: JsonObject = {"message": message, "type": "server_error", "param": None, "code": None}
    if dialect != "responses":
        return [b"data: %s\n\n" % json.dumps({"error": error}).encode()]
    failed = response("failed")
    failed["error"] = {"code": "server_error", "message": message}
    events: list[JsonObject] = [
        {**error, "type": "error", "error": error, "sequence_number": 98},
        {"type": "response.failed", "response": failed, "sequence_number": 99},
    ]
    return [responses_stream([event], end=b"") for event in events]
