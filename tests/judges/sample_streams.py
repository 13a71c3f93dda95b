"""Hand-written legal streams for the judges' own tests."""

import json
from collections.abc import Iterable
from copy import deepcopy
from typing import cast

from tests.judges.reading import JsonObject, objects_in, text_in
from tests.judges.samples import ERROR, changed, response

DONE = b"data: [DONE]\n\n"


def chunk(delta: JsonObject, finish_reason: str | None = None) -> JsonObject:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def call_chunk(index: int, **fields: object) -> JsonObject:
    return chunk({"tool_calls": [{"index": index, **fields}]})


def chat_chunks() -> list[JsonObject]:
    start: JsonObject = {"name": "get_weather", "arguments": ""}
    return [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Let me"}),
        chunk({"content": " see."}),
        call_chunk(0, id="call_1", type="function", function=start),
        call_chunk(0, function={"arguments": '{"city":'}),
        call_chunk(0, function={"arguments": '"Oslo"}'}),
        chunk({}, "tool_calls"),
    ]


def chat_stream(payloads: Iterable[JsonObject], end: bytes = DONE) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(payload).encode() for payload in payloads) + end


def responses_events(
    items: Iterable[JsonObject], status: str = "completed", *, error: bool = False
) -> list[JsonObject]:
    """Stream items one after the other, as they must be streamed, in two deltas each."""
    output = [deepcopy(item) for item in items]
    events: list[JsonObject] = [
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.in_progress", "response": response("in_progress")},
    ]
    for index, item in enumerate(output):
        events += _item_events(item, index)
    if error:
        # Flat and nested at once: the flat form has no place for the error's own type.
        events.append({**ERROR, "type": "error", "error": ERROR})
    return numbered([*events, {"type": f"response.{status}", "response": response(status, output)}])


def numbered(events: Iterable[JsonObject]) -> list[JsonObject]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def changed_event(
    events: Iterable[JsonObject], number: int, path: str, value: object
) -> list[JsonObject]:
    copy = [*events]
    copy[number] = changed(copy[number], path, value)
    return copy


def responses_stream(events: Iterable[JsonObject], end: bytes = DONE) -> bytes:
    frame = "event: {}\ndata: {}\n\n".format
    return "".join(frame(event["type"], json.dumps(event)) for event in events).encode() + end


def _item_events(item: JsonObject, index: int) -> list[JsonObject]:
    place: JsonObject = {"item_id": item["id"], "output_index": index}
    started = {**item, "status": "in_progress"}
    body: list[JsonObject] = []
    match item["type"]:
        case "message":
            started["content"] = []
            body = _parts_events(objects_in(item, "content"), place, "content")
        case "reasoning":
            del started["status"]
            started["summary"] = []
            body = _parts_events(objects_in(item, "summary"), place, "reasoning_summary")
        case "function_call":
            started["arguments"] = ""
            body = _pieces("function_call_arguments", place, "arguments", item["arguments"])
            body[-1]["name"] = item["name"]
        case _:
            started["input"] = ""
            body = _pieces("custom_tool_call_input", place, "input", item["input"])
    return [
        {"type": "response.output_item.added", "output_index": index, "item": started},
        *body,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _parts_events(parts: list[JsonObject], place: JsonObject, family: str) -> list[JsonObject]:
    events: list[JsonObject] = []
    for number, part in enumerate(parts):
        kind = text_in(part, "type")
        name = "refusal" if kind == "refusal" else "text"
        here = {**place, f"{family.removeprefix('reasoning_')}_index": number}
        words = "reasoning_summary_text" if kind == "summary_text" else kind
        events += [
            {"type": f"response.{family}_part.added", **here, "part": {**part, name: ""}},
            *_pieces(words, here, name, part[name]),
            {"type": f"response.{family}_part.done", **here, "part": part},
        ]
    return events


def _pieces(family: str, place: JsonObject, name: str, whole: object) -> list[JsonObject]:
    text = cast("str", whole)
    extra: JsonObject = {"logprobs": []} if family == "output_text" else {}
    deltas = [{"delta": text[:2]}, {"delta": text[2:]}]
    return [
        *({"type": f"response.{family}.delta", **place, **delta, **extra} for delta in deltas),
        {"type": f"response.{family}.done", **place, name: text, **extra},
    ]
