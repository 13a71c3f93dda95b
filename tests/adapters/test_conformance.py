"""The checkers say nothing of a legal stream, and one sentence of a stream that breaks one rule."""

import typing
from collections.abc import Callable, Iterator
from itertools import count

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent

from adapters.chat.conformance import check_stream as check_chat
from adapters.conformance import Json, Object, Violation
from adapters.legacy.conformance import check_stream as check_legacy
from adapters.responses.conformance import check_stream as check_responses
from adapters.responses.conformance_tables import EVENTS

Stream = list[Json]
Edit = Callable[[Stream], None]
Case = tuple[str, Edit, int, str]
"""The stream that is changed, the change, the place of the frame that breaks a rule, and why."""

DONE: Json = "[DONE]"


# --- writing and changing streams -------------------------------------------------------------


def write_chat(stream: Stream) -> bytes:
    """Two lines a frame: the frame at place n has its data in line 2n + 1."""
    return b"".join(b"data: " + _data(frame) + b"\n\n" for frame in stream)


def write_responses(stream: Stream) -> bytes:
    """Three lines a frame: the frame at place n has its data in line 3n + 2."""
    numbers = count()
    return b"".join(_responses_frame(numbers, frame) for frame in stream)


def _responses_frame(numbers: Iterator[int], frame: Json) -> bytes:
    if not isinstance(frame, dict):
        return b": the end\ndata: " + _data(frame) + b"\n\n"
    numbered: Object = {"sequence_number": next(numbers), **frame}
    name = numbered.pop("event line", numbered.get("type"))
    return f"event: {name}\n".encode() + b"data: " + _data(numbered) + b"\n\n"


def _data(frame: Json) -> bytes:
    return frame.encode() if isinstance(frame, str) else msgspec.json.encode(frame)


def fresh(stream: Stream) -> Stream:
    """Copy a stream; unlike deepcopy, without keeping shared parts shared."""
    copy: Stream = msgspec.json.decode(msgspec.json.encode(stream))
    return copy


def _holder(stream: Stream, place: int, path: str) -> tuple[Object | Stream, str]:
    """Find what holds the value at a path; keys are parted by slashes."""
    *way, last = path.split("/")
    value = stream[place]
    for key in way:
        value = value[int(key)] if isinstance(value, list) else typing.cast("Object", value)[key]
    return typing.cast("Object | Stream", value), last


def put(place: int, path: str, value: Json) -> Edit:
    def edit(stream: Stream) -> None:
        holder, key = _holder(stream, place, path)
        if isinstance(holder, list):
            holder[int(key)] = value
        else:
            holder[key] = value

    return edit


def cut(place: int, path: str) -> Edit:
    def edit(stream: Stream) -> None:
        holder, key = _holder(stream, place, path)
        del typing.cast("Object", holder)[key]

    return edit


def drop(place: int, count: int = 1) -> Edit:
    def edit(stream: Stream) -> None:
        del stream[place : place + count]

    return edit


def insert(place: int, *frames: Json) -> Edit:
    def edit(stream: Stream) -> None:
        stream[place:place] = frames

    return edit


def repeat(place: int) -> Edit:
    def edit(stream: Stream) -> None:
        stream.insert(place, stream[place])

    return edit


def swap(place: int) -> Edit:
    def edit(stream: Stream) -> None:
        stream[place], stream[place + 1] = stream[place + 1], stream[place]

    return edit


def through(start: int, end: int, path: str, value: int) -> Edit:
    """Put a number into each frame of a range; sequence numbers count on from it."""
    counting = path == "sequence_number"
    return every(*(put(n, path, value + (n - start if counting else 0)) for n in range(start, end)))


def every(*edits: Edit) -> Edit:
    def edit(stream: Stream) -> None:
        for one in edits:
            one(stream)

    return edit


# --- legal chat and legacy streams ------------------------------------------------------------


def chunk(delta: Object | None, finish: str | None = None, **more: Json) -> Json:
    choice: Object = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl_1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [] if delta is None else [choice],
        **more,
    }


def tool(index: int, **fields: Json) -> Object:
    return {"tool_calls": [{"index": index, **fields}]}


def function(index: int, **fields: Json) -> Object:
    return tool(index, function=fields)


ROLE = chunk({"role": "assistant", "content": None})
TOKENS: Object = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
COUNTED = chunk(None, usage=TOKENS)
FAILED: Json = {"error": {"message": "no", "type": "server_error", "param": None, "code": None}}
WEATHER: Object = {"name": "weather", "arguments": ""}

CHAT: dict[str, Stream] = {
    "text": [ROLE, chunk({"content": "Hi"}, usage=None), chunk({}, "stop"), DONE],
    "calls": [
        ROLE,
        chunk({"content": "Let me see."}),
        chunk(tool(0, id="call_0", type="function", function=WEATHER)),
        chunk(function(0, arguments='{"city"')),
        chunk(function(0, arguments=':"Oslo"}')),
        chunk(tool(1, id="call_1", type="custom", custom={"name": "patch", "input": "a"})),
        chunk(tool(1, custom={"input": "b"})),
        chunk({}, "tool_calls"),
        COUNTED,
        DONE,
    ],
    "cut call": [
        ROLE,
        chunk(tool(0, id="call_0", type="function", function=WEATHER)),
        chunk({}, "length"),
        DONE,
    ],
    "error": [ROLE, chunk({"content": "Hi"}), FAILED, DONE],
    "error at once": [FAILED, DONE],
}
LEGACY: dict[str, Stream] = {
    "text": CHAT["text"],
    "call": [
        ROLE,
        chunk({"function_call": WEATHER}),
        chunk({"function_call": {"arguments": "{}"}}),
        chunk({}, "function_call"),
        DONE,
    ],
    "error": CHAT["error"],
}


# --- legal responses streams ------------------------------------------------------------------


def response(status: str, *output: Json, **more: Json) -> Object:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "completed_at": None,
        "status": status,
        "incomplete_details": None,
        "model": "m",
        "previous_response_id": None,
        "instructions": None,
        "output": list(output),
        "error": None,
        "tools": [],
        "tool_choice": "auto",
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "top_p": 1.0,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "top_logprobs": 0,
        "temperature": 1,
        "reasoning": {"effort": None, "summary": None},
        "usage": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "store": False,
        "background": False,
        "service_tier": "default",
        "safety_identifier": None,
        "prompt_cache_key": None,
        **more,
    }


USAGE: Object = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}
CREATED: Json = {"type": "response.created", "response": response("in_progress")}
RUNNING: Json = {"type": "response.in_progress", "response": response("in_progress")}
ERROR: Object = {"code": "server_error", "message": "no"}


def ended(status: str, *output: Json, **more: Json) -> Json:
    return {"type": f"response.{status}", "response": response(status, *output, **more)}


def event(kind: str, place: int, item: Object, **more: Json) -> Json:
    own: Object = {"item": item} if "output_item" in kind else {"item_id": item["id"]}
    return {"type": f"response.{kind}", "output_index": place, **own, **more}


def text_part(text: str, *annotations: Json) -> Object:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


def message(name: str, status: str, *content: Json) -> Object:
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": list(content),
    }


def call(number: int, status: str, arguments: str) -> Object:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "status": status,
        "call_id": f"call_{number}",
        "name": "weather",
        "arguments": arguments,
    }


def custom(text: str) -> Object:
    names: Object = {"call_id": "call_9", "name": "patch"}
    return {"id": "ctc_1", "type": "custom_tool_call", **names, "input": text}


def reasoning(summary: Json, content: Json = None) -> Object:
    return {"id": "rs_1", "type": "reasoning", "summary": summary, "content": content}


def arguments(place: int, number: int, delta: str) -> Json:
    item = call(number, "in_progress", "")
    return event("function_call_arguments.delta", place, item, delta=delta)


def call_ends(place: int, number: int, text: str, status: str = "completed") -> Stream:
    done = call(number, status, text)
    return [
        event("function_call_arguments.done", place, done, arguments=text, name="weather"),
        event("output_item.done", place, done),
    ]


def call_begins(place: int, number: int) -> Json:
    return event("output_item.added", place, call(number, "in_progress", ""))


def part_events(names: tuple[str, str, str], item: Object, part: Object, number: int = 0) -> Stream:
    """One part of the first item: opened, written in two deltas and closed."""
    family, kind, index = names
    field = "refusal" if part["type"] == "refusal" else "text"
    text, at = str(part[field]), Object({index: number})
    empty: Object = {**part, field: ""}
    if "annotations" in part:
        empty["annotations"] = []
    return [
        event(f"{family}.added", 0, item, part=empty, **at),
        event(f"{kind}.delta", 0, item, delta=text[:2], **at),
        event(f"{kind}.delta", 0, item, delta=text[2:], **at),
        event(f"{kind}.done", 0, item, **at, **{field: text}),
        event(f"{family}.done", 0, item, part=part, **at),
    ]


TEXT = ("content_part", "output_text", "content_index")
SUMMARY = ("reasoning_summary_part", "reasoning_summary_text", "summary_index")
CITATION: Object = {"type": "url_citation", "url": "u", "start_index": 0, "end_index": 1}
THOUGHT: Object = {"type": "summary_text", "text": "Hmm."}
SAID = text_part("Hello", CITATION)
BEGUN = message("msg_1", "in_progress")
SPOKEN = message("msg_1", "completed", SAID)
CUT_SHORT = message("msg_1", "incomplete", text_part("Hello"))
TWICE = message("msg_1", "completed", text_part("Hello"), text_part("there"))
REFUSAL: Object = {"type": "refusal", "refusal": "I will not."}
REFUSED = message("msg_1", "completed", REFUSAL)
RAW_THOUGHT: Object = {"type": "reasoning_text", "text": "Hmm."}
SEARCH: Object = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
MCP: Object = {"id": "mcp_1", "type": "mcp_call", "name": "find", "arguments": "{}"}
FOREIGN: Object = {"id": "x_1", "type": "acme:thing"}
SHELL: Object = {"id": "sh_1", "type": "shell_call", "call_id": "call_5"}
COMMAND: Object = {
    "type": "response.shell_call_command.added",
    "output_index": 2,
    "command_index": 0,
    "command": "ls",
}


def note(text: str, index: int) -> Json:
    return event(
        "output_text.annotation.added",
        0,
        {"id": text},
        content_index=0,
        annotation_index=index,
        annotation=CITATION,
    )


def thinking(kind: str) -> Stream:
    """Reasoning as text, under the name that OpenAI or Open Responses gives its events."""
    names = ("content_part", kind, "content_index")
    done = reasoning([], [RAW_THOUGHT])
    return [
        CREATED,
        event("output_item.added", 0, reasoning([])),
        *part_events(names, done, RAW_THOUGHT),
        event("output_item.done", 0, done),
        ended("completed", done),
    ]


RESPONSES: dict[str, Stream] = {
    # places: 0 created, 1 running; message 2-10: added, part, deltas 4 and 5, note 6, text done,
    # part done, item done 9, end 10
    "text": [
        CREATED,
        RUNNING,
        event("output_item.added", 0, BEGUN),
        *part_events(TEXT, BEGUN, SAID)[:3],
        note("msg_1", 0),
        *part_events(TEXT, BEGUN, SAID)[3:],
        event("output_item.done", 0, SPOKEN),
        ended("completed", SPOKEN, usage=USAGE, instructions=[{"role": "user"}]),
        DONE,
    ],
    # places: calls 1 and 5, their deltas 2 and 6, arguments done 3 and 7, done 4 and 8; custom
    # call 9-12; end 13
    "calls": [
        CREATED,
        call_begins(0, 0),
        arguments(0, 0, "{}"),
        *call_ends(0, 0, "{}"),
        call_begins(1, 1),
        arguments(1, 1, "{}"),
        *call_ends(1, 1, "{}"),
        event("output_item.added", 2, custom("")),
        event("custom_tool_call_input.delta", 2, custom(""), delta="abc"),
        event("custom_tool_call_input.done", 2, custom(""), input="abc"),
        event("output_item.done", 2, custom("abc")),
        ended("completed", call(0, "completed", "{}"), call(1, "completed", "{}"), custom("abc")),
        DONE,
    ],
    "interleaved calls": [
        {"type": "response.created", "response": response("queued")},
        {"type": "response.queued", "response": response("queued")},
        RUNNING,
        call_begins(0, 0),
        arguments(0, 0, "{"),
        call_begins(1, 1),
        arguments(1, 1, "{"),
        arguments(0, 0, "}"),
        *call_ends(0, 0, "{}"),
        {"type": "keepalive"},
        arguments(1, 1, "}"),
        *call_ends(1, 1, "{}"),
        ended("completed", call(0, "completed", "{}"), call(1, "completed", "{}")),
    ],
    # places: message 1; parts 2-6 and 7-11: added, deltas, text done, part done; done 12, end 13
    "two parts": [
        CREATED,
        event("output_item.added", 0, BEGUN),
        *part_events(TEXT, BEGUN, text_part("Hello")),
        *part_events(TEXT, BEGUN, text_part("there"), 1),
        event("output_item.done", 0, TWICE),
        ended("completed", TWICE),
    ],
    # places: reasoning 1, part 2, deltas 3 and 4, text done 5, part done 6, done 7, end 8
    "summary": [
        CREATED,
        event("output_item.added", 0, reasoning([])),
        *part_events(SUMMARY, reasoning([]), THOUGHT),
        event("output_item.done", 0, reasoning([THOUGHT])),
        ended("completed", reasoning([THOUGHT])),
    ],
    "reasoning text": thinking("reasoning_text"),
    "reasoning text of Open Responses": thinking("reasoning"),
    "refusal": [
        CREATED,
        event("output_item.added", 0, BEGUN),
        *part_events(("content_part", "refusal", "content_index"), BEGUN, REFUSAL),
        event("output_item.done", 0, REFUSED),
        ended("completed", REFUSED),
    ],
    "incomplete": [
        CREATED,
        event("output_item.added", 0, BEGUN),
        *part_events(TEXT, BEGUN, text_part("Hello")),
        event("output_item.done", 0, CUT_SHORT),
        ended("incomplete", CUT_SHORT, incomplete_details={"reason": "max_output_tokens"}),
        DONE,
    ],
    # places: call 1, delta 2, error 3, failed 4
    "failed": [
        CREATED,
        call_begins(0, 0),
        arguments(0, 0, "{"),
        {"type": "error", **ERROR, "param": None},
        ended("failed", error=ERROR),
        DONE,
    ],
    "nested error": [
        CREATED,
        {"type": "error", "error": {"type": "server_error", "param": None, **ERROR}},
        ended("failed", error=ERROR),
    ],
    "failed, with the open call in its output": [
        CREATED,
        call_begins(0, 0),
        ended("failed", call(0, "in_progress", ""), error=ERROR),
    ],
    # places: mcp call 1-4, foreign item 5-6, shell call 7-9, end 10
    "other items": [
        CREATED,
        event("output_item.added", 0, {**MCP, "arguments": ""}),
        event("mcp_call_arguments.delta", 0, MCP, delta="{}"),
        event("mcp_call_arguments.done", 0, MCP, arguments="{}"),
        event("output_item.done", 0, MCP),
        event("output_item.added", 1, FOREIGN),
        event("output_item.done", 1, FOREIGN),
        event("output_item.added", 2, SHELL),
        COMMAND,
        event("output_item.done", 2, SHELL),
        ended("completed", MCP, FOREIGN, SHELL),
    ],
    "built-in tool that keeps its text to itself": [
        CREATED,
        event("output_item.added", 0, {**MCP, "arguments": ""}),
        event("output_item.done", 0, MCP),
        ended("completed", MCP),
    ],
    # places: search 1, note 2, done 3, end 4
    "built-in tool": [
        CREATED,
        event("output_item.added", 0, {**SEARCH, "status": "in_progress"}),
        event("web_search_call.searching", 0, SEARCH),
        event("output_item.done", 0, SEARCH),
        ended("completed", SEARCH),
    ],
}


# --- breaking one rule at a time --------------------------------------------------------------

CHOICE = "choices/0"
CALL = "choices/0/delta/tool_calls/0"
CHAT_BREACHES: list[Case] = [
    ("text", put(1, "object", "chat.completion"), 1, 'object must be "chat.completion.chunk"'),
    ("text", cut(1, "object"), 1, "object is missing"),
    ("text", cut(1, "id"), 1, "id is missing"),
    ("text", put(0, "id", ""), 0, "id must be a string that is not empty"),
    ("text", put(2, "id", "other"), 2, 'id changes from "chatcmpl_1" to "other"'),
    ("text", cut(1, "created"), 1, "created is missing"),
    ("text", put(2, "created", 2), 2, "created changes from 1 to 2"),
    ("text", cut(1, "model"), 1, "model is missing"),
    ("text", put(1, "model", "other"), 1, "model changes"),
    ("text", put(1, "choices", {}), 1, "choices must be a list, not an object"),
    ("text", cut(1, "choices"), 1, "choices is missing"),
    ("text", put(1, CHOICE, 1), 1, "choices[0] must be an object, not 1"),
    ("text", cut(1, f"{CHOICE}/index"), 1, "choices[0].index is missing"),
    ("text", put(1, f"{CHOICE}/index", True), 1, "choices[0].index must be an integer"),  # noqa: FBT003  # JSON
    ("text", put(1, f"{CHOICE}/delta", None), 1, "choices[0].delta must be an object, not null"),
    ("text", put(1, f"{CHOICE}/delta/content", 1), 1, "delta.content must be a string or null"),
    ("text", cut(1, f"{CHOICE}/finish_reason"), 1, "choices[0].finish_reason is missing"),
    ("text", cut(0, f"{CHOICE}/delta/role"), 0, "choice 0: the first delta has no role"),
    ("text", put(1, f"{CHOICE}/delta/role", "assistant"), 1, "the role comes a second time"),
    ("text", put(0, f"{CHOICE}/delta/role", "user"), 0, 'delta.role must be "assistant"'),
    ("text", put(2, f"{CHOICE}/finish_reason", "end"), 2, '"end" is not a known word'),
    ("text", put(2, f"{CHOICE}/finish_reason", "tool_calls"), 2, "but no call was streamed"),
    ("text", put(2, f"{CHOICE}/finish_reason", None), 3, "choice 0 has no finish_reason"),
    ("text", insert(3, chunk({})), 3, "only usage may come after finish_reason"),
    ("text", insert(3, chunk({}, "stop")), 3, "only usage may come after finish_reason"),
    ("text", insert(1, chunk(None)), 1, "a chunk without choices carries no usage"),
    ("text", drop(3), 2, "the stream ends without [DONE]"),
    ("text", drop(0, 3), 0, "[DONE] comes before any choice"),
    ("text", insert(4, DONE), 4, "nothing may come after [DONE]"),
    ("text", insert(4, FAILED), 4, "nothing may come after [DONE]"),
    ("text", insert(1, "{"), 1, "the data is not JSON"),
    ("text", insert(1, "[]"), 1, "the data must be a JSON object, not a list"),
    ("calls", put(1, f"{CHOICE}/delta/tool_calls", None), 1, "tool_calls must be a list"),
    ("calls", cut(3, f"{CALL}/index"), 3, "tool_calls[0].index is missing"),
    ("calls", every(put(5, f"{CALL}/index", 2), drop(6)), 5, "index 2 leaves a gap"),
    ("calls", put(2, f"{CALL}/index", -1), 2, "index -1 leaves a gap"),
    ("calls", cut(2, f"{CALL}/id"), 2, "the first delta of tool call 0 has no id"),
    ("calls", put(2, f"{CALL}/id", ""), 2, "tool_calls[0].id must be a string that is not empty"),
    ("calls", put(3, f"{CALL}/id", "call_0"), 3, "tool call 0 repeats its id"),
    ("calls", put(5, f"{CALL}/id", "call_0"), 5, 'two tool calls have the id "call_0"'),
    ("calls", cut(2, f"{CALL}/type"), 2, "the first delta of tool call 0 has no type"),
    ("calls", put(2, f"{CALL}/type", "tool"), 2, 'type must be "function" or "custom"'),
    ("calls", put(3, f"{CALL}/type", "function"), 3, "tool call 0 repeats its type"),
    ("calls", cut(2, f"{CALL}/function/name"), 2, "the first delta of tool call 0 has no name"),
    ("calls", put(2, f"{CALL}/function/name", ""), 2, "function.name must be a string that"),
    ("calls", put(3, f"{CALL}/function/name", "weather"), 3, "tool call 0 repeats its name"),
    ("calls", put(6, f"{CALL}/custom/name", "patch"), 6, "tool call 1 repeats its name"),
    ("calls", cut(2, f"{CALL}/function"), 2, "its delta has no function object"),
    ("calls", cut(4, f"{CALL}/function"), 4, "its delta has no function object"),
    ("calls", put(3, f"{CALL}/function/arguments", {}), 3, "arguments must be a string, not an"),
    ("calls", insert(7, chunk(function(0, arguments=""))), 7, "call 0 goes on after call 1"),
    ("calls", put(7, f"{CHOICE}/finish_reason", "stop"), 7, 'is "stop" but calls were streamed'),
    ("calls", put(1, f"{CHOICE}/delta/function_call", WEATHER), 1, "function_call does not exist"),
    ("calls", put(7, "usage", TOKENS), 7, "usage comes in a chunk with choices"),
    ("calls", cut(8, "usage/total_tokens"), 8, "usage.total_tokens is missing"),
    ("calls", repeat(8), 9, "only [DONE] may come after the usage chunk"),
    ("calls", swap(7), 8, "only [DONE] may come after the usage chunk"),
    ("error", insert(3, chunk({})), 3, "only [DONE] may come after an error"),
    ("error", drop(3), 2, "the stream ends without [DONE]"),
    ("error", cut(2, "error/message"), 2, "error.message is missing"),
    ("error", put(2, "error", "no"), 2, 'error must be an object, not "no"'),
]
FUNCTION = "choices/0/delta/function_call"
LEGACY_BREACHES: list[Case] = [
    ("call", cut(1, f"{FUNCTION}/name"), 1, "the first delta of function_call has no name"),
    ("call", put(1, f"{FUNCTION}/name", ""), 1, "function_call.name must be a string that is not"),
    ("call", put(2, f"{FUNCTION}/name", "weather"), 2, "function_call repeats its name"),
    ("call", put(2, f"{FUNCTION}/arguments", 1), 2, "function_call.arguments must be a string"),
    ("call", put(2, FUNCTION, None), 2, "function_call must be an object"),
    ("call", put(3, f"{CHOICE}/finish_reason", "stop"), 3, 'is "stop" but calls were streamed'),
    ("call", put(3, f"{CHOICE}/finish_reason", "tool_calls"), 3, "but calls were streamed"),
    ("text", put(2, f"{CHOICE}/finish_reason", "function_call"), 2, "but no call was streamed"),
    ("call", put(2, f"{CHOICE}/delta/tool_calls", []), 2, "delta.tool_calls does not exist"),
    ("text", put(2, "id", "other"), 2, "id changes"),
    ("text", drop(3), 2, "the stream ends without [DONE]"),
    ("error", insert(3, chunk({})), 3, "only [DONE] may come after an error"),
]
NO_ITEM: Json = {"type": "response.output_item.added", "output_index": 1, "item": []}
MISPLACED = event("custom_tool_call_input.delta", 1, call(1, "", ""), delta="")
STRANGER = event("output_item.done", 7, message("msg_7", "completed"))
RESPONSES_BREACHES: list[Case] = [
    # the event
    ("text", insert(1, "{"), 1, "the data is not JSON"),
    ("text", put(4, "event line", "response.refusal.delta"), 4, "event: is"),
    ("text", cut(1, "type"), 1, "type is missing"),
    ("text", insert(2, {"type": "response.said"}), 2, 'no event of type "response.said"'),
    ("text", put(4, "sequence_number", "4"), 4, "sequence_number must be an integer"),
    ("text", put(10, "sequence_number", 11), 10, "sequence_number is 11, expected 10"),
    ("built-in tool", through(0, 5, "sequence_number", 1), 0, "is 1, expected 0"),
    # the order of the stream
    ("text", drop(0), 0, "must begin with response.created, not response.in_progress"),
    ("text", repeat(0), 1, "response.created is out of order"),
    ("interleaved calls", repeat(1), 2, "out of order: the response is queued"),
    ("text", drop(10), 10, "[DONE] comes before a terminal event"),
    ("text", drop(10, 2), 9, "the stream ends without response.completed"),
    ("text", repeat(10), 11, "response.completed comes after the terminal event"),
    ("text", insert(11, RUNNING), 11, "response.in_progress comes after the terminal event"),
    ("text", insert(12, RUNNING), 12, "response.in_progress comes after [DONE]"),
    ("text", insert(12, DONE), 12, "[DONE] comes after [DONE]"),
    ("failed", insert(4, arguments(0, 0, "")), 4, "only response.failed may come after an error"),
    ("failed", cut(3, "message"), 3, "error has neither"),
    ("nested error", cut(1, "error/type"), 1, "error has neither"),
    # the response
    ("text", put(10, "response/id", "resp_2"), 10, 'changes from "resp_1" to "resp_2"'),
    ("text", put(0, "response", None), 0, "response must be an object"),
    ("text", put(0, "response/object", "chat"), 0, 'response.object must be "response"'),
    ("text", put(0, "response/status", "completed"), 0, 'must be "in_progress" or "queued"'),
    ("text", put(10, "response/status", "failed"), 10, 'status must be "completed"'),
    ("text", put(1, "response/output", [SPOKEN]), 1, "response.output must be an empty list"),
    ("text", put(10, "response/output", None), 10, "response.output must be a list"),
    ("text", cut(10, "response/usage/input_tokens_details/cached_tokens"), 10, "cached_tokens is"),
    ("text", cut(0, "response/reasoning/effort"), 0, "response.reasoning.effort is missing"),
    ("incomplete", put(8, "response/incomplete_details", None), 8, "incomplete_details must be"),
    ("failed", put(4, "response/error", None), 4, "response.error must be an object"),
    # items
    ("text", cut(2, "output_index"), 2, "output_index is missing"),
    ("text", insert(10, NO_ITEM), 10, "item must be an object"),
    ("built-in tool", put(4, "response/output/0/type", "search"), 4, "is not an item type"),
    ("text", put(2, "item/status", "completed"), 2, 'item.status must be "in_progress"'),
    ("text", put(9, "item/status", "in_progress"), 9, "item.status must be"),
    ("text", put(2, "item/content", [SAID]), 2, "item.content must be an empty list"),
    ("calls", put(1, "item/arguments", "{}"), 1, "item.arguments must be an empty string"),
    ("calls", cut(2, "item_id"), 2, "item_id is missing"),
    ("calls", through(5, 9, "output_index", 0), 5, "output_index is 0, expected 1"),
    ("calls", through(9, 13, "output_index", 3), 9, "output_index is 3, expected 2"),
    ("calls", put(2, "output_index", 1), 2, "output_index is 1, but"),
    ("calls", put(4, "output_index", 1), 4, "output_index is 1, but"),
    ("calls", put(2, "item_id", "fc_7"), 2, 'item_id is "fc_7", but output_index 0 is'),
    ("calls", insert(1, arguments(0, 0, "")), 1, "no item was added at output_index 0"),
    ("text", insert(10, STRANGER), 10, "no item was added at output_index 7"),
    ("text", put(9, "item/id", "msg_2"), 9, 'item.id is "msg_2", but was "msg_1"'),
    ("calls", put(4, "item/call_id", "call_7"), 4, 'item.call_id is "call_7", but was'),
    ("calls", put(4, "item/name", "time"), 4, 'item.name is "time", but was'),
    ("built-in tool", put(3, "item/type", "file_search_call"), 3, "item.type is"),
    ("text", insert(10, note("msg_1", 1)), 10, 'comes after message "msg_1" is done'),
    ("text", repeat(9), 10, "is done a second time"),
    ("calls", insert(7, MISPLACED), 7, "does not belong to an item of type function_call"),
    ("built-in tool", put(2, "type", "response.mcp_call.completed"), 2, "does not belong to"),
    # parts
    ("text", put(3, "content_index", "0"), 3, "content_index must be an integer"),
    ("text", put(4, "content_index", 1), 4, "content_index is 1, expected 0"),
    ("summary", through(2, 7, "summary_index", 1), 2, "summary_index is 1, expected 0"),
    ("text", put(3, "part/text", "He"), 3, "part.text must be an empty string"),
    ("text", cut(3, "part/annotations"), 3, "part.annotations is missing"),
    ("text", put(3, "part/type", "summary_text"), 3, "part.type must be output_text or refusal"),
    ("text", put(8, "part/type", "refusal"), 8, 'part.type is "refusal", but the part began as'),
    ("text", put(4, "type", "response.refusal.delta"), 4, "an event of refusal in a part of type"),
    ("text", drop(3), 3, "output_text.delta is out of order: no part is open"),
    ("two parts", drop(6), 6, "the part before it is still open"),
    ("two parts", through(7, 12, "content_index", 0), 7, "content_index is 0, expected 1"),
    ("text", drop(7), 7, "content_part.done is out of order: the text is not done"),
    ("text", drop(8), 8, "is done too early: its content part 0 is still open"),
    ("text", repeat(7), 8, "output_text.done is out of order: the text is done already"),
    ("text", repeat(8), 9, "content_part.done is out of order: no part is open"),
    ("text", swap(6), 7, "added is out of order: the text is done already"),
    ("text", put(6, "annotation_index", 1), 6, "annotation_index is 1, expected 0"),
    ("text", repeat(6), 7, "annotation_index is 0, expected 1"),
    ("calls", drop(3), 3, "is done too early: the event that ends its text did not come"),
    ("calls", insert(4, arguments(0, 0, "")), 4, "delta is out of order: the text is done"),
    # texts
    ("text", put(4, "delta", 1), 4, "delta must be a string, not 1"),
    ("text", put(4, "delta", "Je"), 7, 'deltas joined to: "Hello" for "Jello"'),
    ("text", put(7, "text", "Hell"), 7, 'text is not what the deltas joined to: "Hell"'),
    ("text", put(8, "part/text", "Hell"), 8, 'text is not what the deltas joined to: "Hell"'),
    ("text", put(9, "item/content/0/text", "Hell"), 9, "item.content[0] is not what was streamed"),
    ("text", put(9, "item/content/0/type", "refusal"), 9, "item.content[0].type is"),
    ("text", put(9, "item/content", []), 9, "item.content has 0 parts, but 1 were streamed"),
    ("refusal", put(5, "refusal", "No."), 5, "refusal is not what the deltas joined to"),
    ("summary", put(5, "text", "Oh."), 5, "text is not what the deltas joined to"),
    ("summary", put(7, "item/summary", []), 7, "item.summary has 0 parts, but 1 were"),
    ("reasoning text", put(5, "text", "Oh."), 5, "text is not what the deltas joined to"),
    ("calls", put(3, "arguments", "{"), 3, "arguments is not what the deltas joined to"),
    ("calls", put(3, "name", "time"), 3, 'name is "time", but'),
    ("calls", put(4, "item/arguments", "{"), 4, "item.arguments is not what was streamed"),
    ("calls", put(11, "input", "ab"), 11, "input is not what the deltas joined to"),
    ("calls", put(12, "item/input", "ab"), 12, "item.input is not what was streamed"),
    ("other items", put(4, "item/arguments", "{"), 4, "item.arguments is not what was streamed"),
    ("other items", put(8, "output_index", 0), 8, 'comes after mcp_call "mcp_1" is done'),
    ("other items", cut(8, "command"), 8, "command is missing"),
    # the final snapshot
    (
        "failed, with the open call in its output",
        put(2, "response/output/0/call_id", "call_7"),
        2,
        'was "call_0" in response.output_item.added',
    ),
    ("text", put(10, "response/output", []), 10, "response.output has 0 items, but 1 were"),
    ("text", put(10, "response/output/0/id", "msg_2"), 10, 'response.output[0].id is "msg_2"'),
    ("text", put(10, "response/output/0/content/0/text", "J"), 10, "response.output[0].content is"),
    ("text", cut(10, "response/output/0/role"), 10, "response.output[0].role is missing"),
    ("calls", put(13, "response/output/1/call_id", "call_7"), 13, "output[1].call_id is"),
    ("calls", put(13, "response/output/1/arguments", "{"), 13, 'output[1].arguments is "{"'),
    ("summary", put(8, "response/output/0/summary", []), 8, "response.output[0].summary is"),
    # what stays open
    ("text", every(drop(9), put(9, "response/output", [])), 9, 'message "msg_1" is left open'),
    ("incomplete", every(drop(7), put(7, "response/output", [])), 7, "is left open"),
    (
        "failed",
        insert(3, event("output_item.added", 1, BEGUN)),
        5,
        'message "msg_1" is left open',
    ),
    ("failed", put(4, "response/output", [call(7, "in_progress", "")]), 4, "output has 1 items"),
]
# Where the second call is spoken of as a whole.
SECOND_CALL = [(5, "item"), (8, "item"), (13, "response/output/1")]
SCATTERED_BREACHES: list[Case] = [
    (
        "calls",
        every(*(put(place, f"{path}/call_id", "call_0") for place, path in SECOND_CALL)),
        5,
        'two calls have the call_id "call_0"',
    ),
    (
        "calls",
        every(
            *(put(place, f"{path}/id", "fc_0") for place, path in SECOND_CALL),
            *(put(place, "item_id", "fc_0") for place in (6, 7)),
        ),
        5,
        'two items have the id "fc_0"',
    ),
    ("calls", put(4, "item/status", "incomplete"), 5, "which is incomplete and so must be last"),
    (
        "interleaved calls",
        put(9, "item/status", "incomplete"),
        13,
        'function_call "fc_0" is incomplete, but',
    ),
]

NEVER_NULL = [
    "id",
    "object",
    "created_at",
    "status",
    "model",
    "output",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "store",
    "background",
    "service_tier",
]
MAY_BE_NULL = [key for key in response("") if key not in NEVER_NULL]


# --- the tests --------------------------------------------------------------------------------


def broken(streams: dict[str, Stream], case: Case) -> Stream:
    stream = fresh(streams[case[0]])
    case[1](stream)
    return stream


def expect_one(breaches: list[Violation], line: int, piece: str) -> None:
    assert [breach.line for breach in breaches] == [line], breaches
    assert piece in breaches[0].why


def name_of(case: Case) -> str:
    return f"{case[0]}: {case[3]}"


@pytest.mark.parametrize("name", CHAT)
def test_legal_chat_streams_pass(name: str) -> None:
    assert check_chat(write_chat(CHAT[name])) == []


@pytest.mark.parametrize("name", LEGACY)
def test_legal_legacy_streams_pass(name: str) -> None:
    assert check_legacy(write_chat(LEGACY[name])) == []


@pytest.mark.parametrize("name", RESPONSES)
def test_legal_responses_streams_pass(name: str) -> None:
    assert check_responses(write_responses(RESPONSES[name])) == []


@pytest.mark.parametrize("case", CHAT_BREACHES, ids=name_of)
def test_chat_breaches_are_named(case: Case) -> None:
    breaches = check_chat(write_chat(broken(CHAT, case)))
    expect_one(breaches, 2 * case[2] + 1, case[3])


@pytest.mark.parametrize("case", LEGACY_BREACHES, ids=name_of)
def test_legacy_breaches_are_named(case: Case) -> None:
    breaches = check_legacy(write_chat(broken(LEGACY, case)))
    expect_one(breaches, 2 * case[2] + 1, case[3])


@pytest.mark.parametrize("case", RESPONSES_BREACHES + SCATTERED_BREACHES, ids=name_of)
def test_responses_breaches_are_named(case: Case) -> None:
    breaches = check_responses(write_responses(broken(RESPONSES, case)))
    expect_one(breaches, 3 * case[2] + 2, case[3])


@pytest.mark.parametrize("key", response(""))
def test_a_response_has_all_its_fields(key: str) -> None:
    case = ("built-in tool", cut(0, f"response/{key}"), 0, f"response.{key} is missing")
    test_responses_breaches_are_named(case)


@pytest.mark.parametrize("key", NEVER_NULL)
def test_what_may_not_be_null_in_a_response(key: str) -> None:
    case = ("built-in tool", put(0, f"response/{key}", None), 0, f"response.{key} must be")
    test_responses_breaches_are_named(case)


@pytest.mark.parametrize("key", MAY_BE_NULL)
def test_what_may_be_null_in_a_response(key: str) -> None:
    case = ("built-in tool", put(0, f"response/{key}", None), 0, "")
    assert check_responses(write_responses(broken(RESPONSES, case))) == []


def test_every_event_of_the_openai_package_is_known() -> None:
    for model in typing.get_args(typing.get_args(ResponseStreamEvent)[0]):
        fields = model.model_fields
        (event_type,) = typing.get_args(fields["type"].annotation)
        needed = {key for key, field in fields.items() if field.is_required()}
        # error has two forms, and Open Responses leaves logprobs out.
        known = {"type", "sequence_number", "logprobs", *EVENTS[event_type].fields}
        assert event_type == "error" or needed <= known, event_type


TEXT_CHUNKS = [_data(frame).decode() for frame in CHAT["text"]]


def test_a_response_may_say_again_that_it_is_in_progress() -> None:
    """It shows in a silence that the response lives (P147)."""
    stream = broken(RESPONSES, ("text", insert(3, RESPONSES["text"][1]), 0, ""))
    assert check_responses(write_responses(stream)) == []


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_any_line_end_comments_and_split_data_are_legal(end: str) -> None:
    first, *others = TEXT_CHUNKS
    head, tail = first.split(",", 1)
    lines = [": hello", "retry: 5", "id: 1", f"data: {head},", f"data:{tail}", ""]
    for other in others:
        lines += [":", "", f"data: {other}", ""]
    data = "".join(line + end for line in lines).encode()
    assert check_chat(data) == []
    assert check_chat(b"\xef\xbb\xbf" + data) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "piece"),
    [
        ("data: [DONE]\n\n", "data: [DONE]\n", 7, "cut by the end of the file"),
        ("data: [DONE]\n\n", "data: [DONE]", 7, "cut by the end of the file"),
        ("data: [DONE]\n\n", "data: [DONE]\n\nevent: x", 9, "cut by the end of the file"),
        ("data: [DONE]", "date: x\ndata: [DONE]", 7, 'unknown SSE field "date"'),
        ("data: [DONE]", "event: ping\n\ndata: [DONE]", 7, 'event "ping" has no data: line'),
        ("data: [DONE]", ": \udcff\ndata: [DONE]", 7, "the line is not UTF-8"),
        ("data: [DONE]", "data: {}}\n\ndata: [DONE]", 7, "the data is not JSON"),
    ],
)
def test_breaches_of_sse_itself_are_named(old: str, new: str, line: int, piece: str) -> None:
    data = write_chat(CHAT["text"]).decode().replace(old, new)
    expect_one(check_chat(data.encode(errors="surrogateescape")), line, piece)


def test_a_stream_cut_within_an_event_is_told_from_its_end() -> None:
    data = write_chat(CHAT["text"])
    breaches = check_chat(data[: data.index(b'"finish_reason":"stop"')])
    assert [breach.line for breach in breaches] == [3, 3, 5]
    assert "cut by the end" in breaches[2].why


def test_chat_has_no_event_lines() -> None:
    data = write_chat(CHAT["text"]).replace(b"data: {", b"event: chunk\ndata: {", 1)
    expect_one(check_chat(data), 2, "a chat stream has no event: lines")


def test_responses_need_event_lines_and_have_no_ids() -> None:
    data = write_responses(RESPONSES["text"])
    without = data.replace(b"event: response.in_progress\n", b":\n")
    expect_one(check_responses(without), 5, "there is no event: line beside type")
    expect_one(check_responses(b"id: 1\n" + data), 1, "id: lines are not used")


def test_breaches_come_in_line_order() -> None:
    data = write_responses(RESPONSES["calls"]).replace(b'"{}"', b'"{"', 1)
    breaches = check_responses(data + b"id: 1\n\nfoo\n\n")
    assert len(breaches) == 3
    assert breaches == sorted(breaches, key=lambda breach: breach.line)


@pytest.mark.parametrize("check", [check_chat, check_legacy, check_responses])
def test_an_empty_stream_is_a_breach(check: Callable[[bytes], list[Violation]]) -> None:
    expect_one(check(b""), 1, "the stream ends without")
    assert check(b"[" * 100_000)
    assert check(b"data: " + b'{"a":' * 100_000 + b"\n\n")


@pytest.mark.parametrize("depth", range(100, 1100, 50))
def test_deep_nesting_never_makes_a_checker_fail(depth: int) -> None:
    stream = fresh(RESPONSES["text"])
    for place, path in ((9, "item/content/0/deep"), (10, "response/output/0/content/0/deep")):
        put(place, path, "HERE")(stream)
    nested = b"[" * depth + b"]" * depth
    check_responses(write_responses(stream).replace(b'"HERE"', nested))


def places_in(value: Json, way: str = "") -> list[str]:
    match value:
        case dict():
            pairs = list(value.items())
        case list():
            pairs = [(str(number), entry) for number, entry in enumerate(value)]
        case _:
            pairs = []
    below = [path for key, entry in pairs for path in places_in(entry, f"{way}/{key}")]
    return below + [f"{way}/{key}"[1:] for key, _ in pairs]


ODD: list[Json] = [None, True, -1, 0.5, "", "x", [], {}, [None], [[]], {"type": 3}, [{"id": []}]]
SPOTS = [
    (streams, name, place, path)
    for streams in (CHAT, LEGACY, RESPONSES)
    for name, stream in streams.items()
    for place, frame in enumerate(stream)
    for path in places_in(frame)
]


@given(st.sampled_from(SPOTS), st.sampled_from(ODD))
@settings(deadline=None, derandomize=True, max_examples=500)
def test_no_value_anywhere_makes_a_checker_fail(
    spot: tuple[dict[str, Stream], str, int, str], value: Json
) -> None:
    streams, name, place, path = spot
    stream = fresh(streams[name])
    put(place, path, value)(stream)
    check_chat(write_chat(stream))
    check_legacy(write_chat(stream))
    check_responses(write_responses(stream))


PIECES = [
    b"data:",
    b"event: x",
    b"\n",
    b"\r",
    b"\n\n",
    b"{",
    b"}",
    b"[DONE]",
    b'"a":',
    b"\xff",
    b":",
]


@given(st.binary() | st.lists(st.sampled_from(PIECES)).map(b"".join))
@settings(deadline=None, derandomize=True)
def test_noise_never_makes_a_checker_fail(data: bytes) -> None:
    for check in (check_chat, check_legacy, check_responses):
        assert check(data)
