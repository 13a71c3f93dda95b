"""Hand-written legal samples for the judges' own tests, and a way to spoil them."""

import json
from collections.abc import Iterable
from copy import deepcopy
from typing import cast

from tests.judges.reading import JsonObject

# Stands for "without this key" where a sample is changed.
GONE = object()

PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}

CHAT_REQUEST: JsonObject = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}},
        {"type": "custom", "custom": {"name": "note", "format": {"type": "text"}}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "stop": ["END"],
    "temperature": 1,
    "stream": True,
    "stream_options": {"include_usage": True},
}

RESPONSES_REQUEST: JsonObject = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": "Weather?"},
        # As a translated history has them: no ids.
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "get_weather",
            "arguments": '{"city":"Oslo"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
    ],
    "tools": [
        {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False},
    ],
    "tool_choice": {"type": "function", "name": "get_weather"},
    "store": False,
}

CHAT_REPLY: JsonObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi", "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}

ERROR: JsonObject = {"message": "no", "type": "server_error", "param": None, "code": None}


def changed(sample: JsonObject, path: str, value: object) -> JsonObject:
    """Copy a sample with the value at a dotted path replaced, added, or GONE."""
    copy = deepcopy(sample)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    # The steps index lists and objects alike.
    parent = cast("dict[str | int, object]", copy)
    for step in steps:
        parent = cast("dict[str | int, object]", parent[step])
    if value is GONE:
        del parent[last]
    else:
        parent[last] = value
    return copy


def encoded(body: JsonObject) -> bytes:
    return json.dumps(body).encode()


def response(status: str, output: Iterable[JsonObject] = ()) -> JsonObject:
    """Make a response object that satisfies OpenAI's types and Open Responses alike."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "completed_at": 2 if status == "completed" else None,
        "status": status,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "model": "m",
        "previous_response_id": None,
        "instructions": None,
        "output": list(output),
        "error": {"code": "server_error", "message": "no"} if status == "failed" else None,
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "description": None,
                "parameters": PARAMETERS,
                "strict": False,
            }
        ],
        "tool_choice": "auto",
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "temperature": 1.0,
        "reasoning": {"effort": None, "summary": None},
        "usage": None if status == "in_progress" else _usage(),
        "max_output_tokens": None,
        "max_tool_calls": None,
        "store": False,
        "background": False,
        "service_tier": "default",
        "metadata": {},
        "safety_identifier": None,
        "prompt_cache_key": None,
    }


def _usage() -> JsonObject:
    return {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }


def message(
    status: str = "completed", text: str = "Hello", kind: str = "output_text"
) -> JsonObject:
    item: JsonObject = {"type": "message", "id": "msg_1", "status": status, "role": "assistant"}
    return {**item, "content": [_part(kind, text)]}


def call(status: str = "completed", arguments: str = '{"city":"Oslo"}') -> JsonObject:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "get_weather",
        "arguments": arguments,
        "status": status,
    }


def custom_call(status: str = "completed", text: str = "a note") -> JsonObject:
    return {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_2",
        "name": "note",
        "input": text,
        "status": status,
    }


def reasoning() -> JsonObject:
    return {"type": "reasoning", "id": "rs_1", "summary": [_part("summary_text", "Thinking")]}


def _part(kind: str, text: str) -> JsonObject:
    match kind:
        case "output_text":
            return {"type": kind, "text": text, "annotations": [], "logprobs": []}
        case "refusal":
            return {"type": kind, "refusal": text}
        case _:
            return {"type": kind, "text": text}
