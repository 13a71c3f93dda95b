"""Hand-written legal samples for the judges' own tests, and a way to spoil them."""

import json
from collections.abc import Iterable
from copy import deepcopy
from typing import cast

from tests.judges.reading import JsonObject

# Stands for "without this key" where a sample is changed.
GONE = object()

ARGUMENTS = '{"city":"Oslo"}'
PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
CHAT_FUNCTION: JsonObject = {"name": "get_weather", "parameters": PARAMETERS}
FUNCTION: JsonObject = {"type": "function", **CHAT_FUNCTION, "strict": False}
CALL: JsonObject = {"type": "function_call", "call_id": "call_1", "name": "get_weather"}
CHAT_CALL: JsonObject = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": ARGUMENTS},
}

CHAT_REQUEST: JsonObject = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ],
    "tools": [
        {"type": "function", "function": CHAT_FUNCTION},
        {"type": "custom", "custom": {"name": "note", "format": {"type": "text"}}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "stop": ["END"],
    "temperature": 1,
    "stream": True,
    "stream_options": {"include_usage": True},
}

TEXT_PART: JsonObject = {"type": "output_text", "text": "Let me see.", "annotations": []}
RESPONSES_REQUEST: JsonObject = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": "Weather?"},
        # As a translated history has them: no ids.
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [TEXT_PART]},
        {**CALL, "arguments": ARGUMENTS},
        {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
    ],
    "tools": [FUNCTION],
    "tool_choice": {"type": "function", "name": "get_weather"},
    "store": False,
}

ASSISTANT: JsonObject = {"role": "assistant", "content": "Hi", "refusal": None}
CHAT_REPLY: JsonObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": ASSISTANT, "finish_reason": "stop", "logprobs": None}],
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
    unset = ("previous_response_id", "instructions", "max_output_tokens", "max_tool_calls")
    usage: JsonObject = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    return {
        **dict.fromkeys((*unset, "safety_identifier", "prompt_cache_key"), None),
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "completed_at": 2 if status == "completed" else None,
        "status": status,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "model": "m",
        "output": list(output),
        "error": {"code": "server_error", "message": "no"} if status == "failed" else None,
        "tools": [{**FUNCTION, "description": None}],
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
        "usage": None if status == "in_progress" else usage,
        "store": False,
        "background": False,
        "service_tier": "default",
        "metadata": {},
    }


def message(
    status: str = "completed", text: str = "Hello", kind: str = "output_text"
) -> JsonObject:
    field = "refusal" if kind == "refusal" else "text"
    lists: JsonObject = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    content = [{"type": kind, field: text, **lists}]
    item: JsonObject = {"type": "message", "id": "msg_1", "role": "assistant"}
    return {**item, "status": status, "content": content}


def call(status: str = "completed", arguments: str = ARGUMENTS) -> JsonObject:
    return {**CALL, "id": "fc_1", "arguments": arguments, "status": status}


def custom_call(status: str = "completed", text: str = "a note") -> JsonObject:
    item: JsonObject = {"type": "custom_tool_call", "call_id": "call_2", "name": "note"}
    return {**item, "id": "ctc_1", "input": text, "status": status}


def reasoning() -> JsonObject:
    summary = [{"type": "summary_text", "text": "Thinking"}]
    return {"type": "reasoning", "id": "rs_1", "summary": summary}
