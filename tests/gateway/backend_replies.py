"""Replies of a scripted backend in each dialect."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from zlib import crc32

from gateway.pytest_plugin.scripted_backend import Script, ScriptedBackend, json_reply, stream_reply
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
    if dialect == "responses":
        return encoded({**response("completed", _items(turn)), "usage": RESPONSES_USAGE})
    message, finish = _message(dialect, turn), finish_reason(dialect, turn)
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return encoded({**head, "choices": [choice], "usage": USAGE})


def stream_events(dialect: str, turn: Turn, *, usage: bool = True) -> list[bytes]:
    """Return the events of a turn; Chat and legacy have usage only on request."""
    if dialect == "responses":
        events = responses_events(_items(turn))
        object_in(events[-1], "response")["usage"] = RESPONSES_USAGE
        return [responses_stream([event], end=b"") for event in events]
    chunks = [_chunk([_choice(delta, None)]) for delta in _deltas(dialect, turn)]
    chunks.append(_chunk([_choice({}, finish_reason(dialect, turn))]))
    if usage:
        chunks.append({**_chunk([]), "usage": USAGE})
    return [*(b"data: %s\n\n" % encoded(chunk) for chunk in chunks), DONE]


def finish_reason(dialect: str, turn: Turn) -> str:
    """Return the finish reason of a turn, or its status in the Responses API."""
    if dialect == "responses":
        return "completed"
    if not turn.calls:
        return "stop"
    return "function_call" if dialect == "legacy" else "tool_calls"


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


def _message(dialect: str, turn: Turn) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": turn.text}
    if dialect == "legacy":
        for call in turn.calls[:1]:
            message["function_call"] = _function(call)
    elif turn.calls:
        message["tool_calls"] = [_tool_call(call, number) for number, call in enumerate(turn.calls)]
    return message


def _function(call: Call) -> JsonObject:
    return {"name": call.name, "arguments": call.arguments}


def _tool_call(call: Call, number: int) -> JsonObject:
    return {"id": _call_id(call, number), "type": "function", "function": _function(call)}


def _call_id(call: Call, number: int) -> str:
    """Return an id that is unique in a conversation."""
    return f"call_{number}_{crc32(call.arguments.encode()):08x}"


def _chunk(choices: list[JsonObject]) -> JsonObject:
    kind = "chat.completion.chunk"
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "m", "choices": choices}


def _choice(delta: JsonObject, finish: str | None) -> JsonObject:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _deltas(dialect: str, turn: Turn) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": "" if turn.text else None}
    for piece in _split(turn.text or ""):
        yield {"content": piece}
    if dialect == "legacy":
        for call in turn.calls[:1]:
            yield {"function_call": {"name": call.name, "arguments": ""}}
            for piece in _split(call.arguments):
                yield {"function_call": {"arguments": piece}}
        return
    for number, call in enumerate(turn.calls):
        start = {**_tool_call(call, number), "function": {"name": call.name, "arguments": ""}}
        yield {"tool_calls": [{"index": number, **start}]}
        for piece in _split(call.arguments):
            yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}


def _split(text: str) -> list[str]:
    return [text[place : place + 6] for place in range(0, len(text), 6)]


# Responses

RESPONSES_USAGE: JsonObject = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 12,
}


def _items(turn: Turn) -> list[JsonObject]:
    items: list[JsonObject] = []
    if turn.text is not None:
        part: JsonObject = {"type": "output_text", "text": turn.text}
        part |= {"annotations": list[object](), "logprobs": list[object]()}
        items.append({"type": "message", "id": "msg_0", "role": "assistant", "content": [part]})
    for number, call in enumerate(turn.calls):
        fields: JsonObject = {"call_id": _call_id(call, number), **_function(call)}
        items.append({"type": "function_call", "id": f"fc_{number}", **fields})
    return [{**item, "status": "completed"} for item in items]


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
