"""Rules of Chat and legacy streams and of server-sent events, and any input of all checkers."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.chat.conformance import check_legacy_stream as check_legacy
from adapters.chat.conformance import check_stream as check_chat
from adapters.conformance import Json, Object, Violation
from adapters.responses.conformance import check_stream as check_responses
from tests.adapters.conformance_cases import (
    DONE,
    Case,
    Stream,
    all_of,
    changed,
    drop,
    expect_one,
    frame_data,
    insert,
    name_of,
    put,
    remove,
    repeat,
    swap,
    write_chat,
    write_responses,
)
from tests.adapters.responses.test_conformance import RESPONSES


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
USAGE_CHUNK = chunk(None, usage=TOKENS)
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
        USAGE_CHUNK,
        DONE,
    ],
    "truncated call": [
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


CHOICE = "choices/0"
CALL = "choices/0/delta/tool_calls/0"
CHUNK_FIELDS = ("object", "id", "created", "model", "choices")
CHAT_VIOLATIONS: list[Case] = [
    *(("text", remove(1, key), 1, f"{key} is missing") for key in CHUNK_FIELDS),
    ("text", put(1, "object", "chat.completion"), 1, 'object must be "chat.completion.chunk"'),
    ("text", put(0, "id", ""), 0, "id must be a string that is not empty"),
    ("text", put(2, "id", "other"), 2, 'id changes from "chatcmpl_1" to "other"'),
    ("text", put(2, "created", 2), 2, "created changes from 1 to 2"),
    ("text", put(1, "model", "other"), 1, "model changes"),
    ("text", put(1, "choices", {}), 1, "choices must be a list, not an object"),
    ("text", put(1, CHOICE, 1), 1, "choices[0] must be an object, not 1"),
    ("text", remove(1, f"{CHOICE}/index"), 1, "choices[0].index is missing"),
    ("text", put(1, f"{CHOICE}/index", True), 1, "choices[0].index must be an integer"),  # noqa: FBT003  # JSON
    ("text", put(1, f"{CHOICE}/delta", None), 1, "choices[0].delta must be an object, not null"),
    ("text", put(1, f"{CHOICE}/delta/content", 1), 1, "delta.content must be a string or null"),
    ("text", remove(1, f"{CHOICE}/finish_reason"), 1, "choices[0].finish_reason is missing"),
    ("text", remove(0, f"{CHOICE}/delta/role"), 0, "choice 0: the first delta has no role"),
    ("text", put(1, f"{CHOICE}/delta/role", "assistant"), 1, "the role is repeated"),
    ("text", put(0, f"{CHOICE}/delta/role", "user"), 0, 'delta.role must be "assistant"'),
    ("text", put(2, f"{CHOICE}/finish_reason", "end"), 2, 'unknown finish_reason "end"'),
    ("text", put(2, f"{CHOICE}/finish_reason", "tool_calls"), 2, "but no call was streamed"),
    ("text", put(2, f"{CHOICE}/finish_reason", None), 3, "choice 0 has no finish_reason"),
    ("text", insert(3, chunk({})), 3, "only usage may come after finish_reason"),
    ("text", insert(3, chunk({}, "stop")), 3, "only usage may come after finish_reason"),
    ("text", insert(1, chunk(None)), 1, "a chunk without choices must contain usage"),
    ("text", drop(3), 2, "the stream ends without [DONE]"),
    ("text", drop(0, 3), 0, "[DONE] comes before any choice"),
    ("text", insert(4, DONE), 4, "nothing may come after [DONE]"),
    ("text", insert(4, FAILED), 4, "nothing may come after [DONE]"),
    ("text", insert(1, "{"), 1, "the data is not JSON"),
    ("text", insert(1, "[]"), 1, "the data must be a JSON object, not a list"),
    ("calls", put(1, f"{CHOICE}/delta/tool_calls", None), 1, "tool_calls must be a list"),
    ("calls", remove(3, f"{CALL}/index"), 3, "tool_calls[0].index is missing"),
    ("calls", all_of(put(5, f"{CALL}/index", 2), drop(6)), 5, "index is 2, expected 1"),
    ("calls", put(2, f"{CALL}/index", -1), 2, "index is -1, expected 0"),
    ("calls", remove(2, f"{CALL}/id"), 2, "the first delta of tool call 0 has no id"),
    ("calls", put(2, f"{CALL}/id", ""), 2, "tool_calls[0].id must be a string that is not empty"),
    ("calls", put(3, f"{CALL}/id", "call_0"), 3, "tool call 0 repeats its id"),
    ("calls", put(5, f"{CALL}/id", "call_0"), 5, 'two tool calls have the id "call_0"'),
    ("calls", remove(2, f"{CALL}/type"), 2, "the first delta of tool call 0 has no type"),
    ("calls", put(2, f"{CALL}/type", "tool"), 2, 'type must be "function" or "custom"'),
    ("calls", put(3, f"{CALL}/type", "function"), 3, "tool call 0 repeats its type"),
    ("calls", remove(2, f"{CALL}/function/name"), 2, "the first delta of tool call 0 has no name"),
    ("calls", put(2, f"{CALL}/function/name", ""), 2, "function.name must be a string that"),
    ("calls", put(3, f"{CALL}/function/name", "weather"), 3, "tool call 0 repeats its name"),
    ("calls", put(6, f"{CALL}/custom/name", "patch"), 6, "tool call 1 repeats its name"),
    ("calls", remove(2, f"{CALL}/function"), 2, "its delta has no function object"),
    ("calls", remove(4, f"{CALL}/function"), 4, "its delta has no function object"),
    ("calls", put(3, f"{CALL}/function/arguments", {}), 3, "arguments must be a string, not an"),
    ("calls", insert(7, chunk(function(0, arguments=""))), 7, "call 0 continues after tool call 1"),
    ("calls", put(7, f"{CHOICE}/finish_reason", "stop"), 7, 'is "stop", but calls were streamed'),
    ("calls", put(1, f"{CHOICE}/delta/function_call", WEATHER), 1, "function_call does not exist"),
    ("calls", put(7, "usage", TOKENS), 7, "usage must be in a chunk with empty choices"),
    ("calls", remove(8, "usage/total_tokens"), 8, "usage.total_tokens is missing"),
    ("calls", repeat(8), 9, "only [DONE] may come after the usage chunk"),
    ("calls", swap(7), 8, "only [DONE] may come after the usage chunk"),
    ("error", insert(3, chunk({})), 3, "only [DONE] may come after an error"),
    ("error", drop(3), 2, "the stream ends without [DONE]"),
    ("error", remove(2, "error/message"), 2, "error.message is missing"),
    ("error", put(2, "error", "no"), 2, 'error must be an object, not "no"'),
]
FUNCTION = "choices/0/delta/function_call"
LEGACY_VIOLATIONS: list[Case] = [
    ("call", remove(1, f"{FUNCTION}/name"), 1, "the first delta of function_call has no name"),
    ("call", put(1, f"{FUNCTION}/name", ""), 1, "function_call.name must be a string that is not"),
    ("call", put(2, f"{FUNCTION}/name", "weather"), 2, "function_call repeats its name"),
    ("call", put(2, f"{FUNCTION}/arguments", 1), 2, "function_call.arguments must be a string"),
    ("call", put(2, FUNCTION, None), 2, "function_call must be an object"),
    ("call", put(3, f"{CHOICE}/finish_reason", "stop"), 3, 'is "stop", but calls were streamed'),
    ("call", put(3, f"{CHOICE}/finish_reason", "tool_calls"), 3, "but calls were streamed"),
    ("text", put(2, f"{CHOICE}/finish_reason", "function_call"), 2, "but no call was streamed"),
    ("call", put(2, f"{CHOICE}/delta/tool_calls", []), 2, "delta.tool_calls does not exist"),
    ("text", put(2, "id", "other"), 2, "id changes"),
    ("text", drop(3), 2, "the stream ends without [DONE]"),
    ("error", insert(3, chunk({})), 3, "only [DONE] may come after an error"),
]

Check = Callable[[bytes], list[Violation]]
CHECKS: dict[str, tuple[Check, dict[str, Stream], list[Case]]] = {
    "chat": (check_chat, CHAT, CHAT_VIOLATIONS),
    "legacy": (check_legacy, LEGACY, LEGACY_VIOLATIONS),
}


@pytest.mark.parametrize(
    ("check", "stream"),
    [
        pytest.param(check, stream, id=f"{dialect}-{name}")
        for dialect, (check, streams, _) in CHECKS.items()
        for name, stream in streams.items()
    ],
)
def test_valid_stream_has_no_violations(check: Check, stream: Stream) -> None:
    assert check(write_chat(stream)) == []


@pytest.mark.parametrize(
    ("check", "streams", "case"),
    [
        pytest.param(check, streams, case, id=f"{dialect}-{name_of(case)}")
        for dialect, (check, streams, cases) in CHECKS.items()
        for case in cases
    ],
)
def test_violation_is_reported(check: Check, streams: dict[str, Stream], case: Case) -> None:
    expect_one(check(write_chat(changed(streams, case))), 2 * case[2] + 1, case[3])


def test_event_lines_are_reported() -> None:
    data = write_chat(CHAT["text"]).replace(b"data: {", b"event: chunk\ndata: {", 1)
    expect_one(check_chat(data), 2, "event: lines are not allowed in a chat stream")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_any_line_end_comments_and_split_data_are_valid(end: str) -> None:
    first, *others = [frame_data(frame).decode() for frame in CHAT["text"]]
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
        ("data: [DONE]\n\n", "data: [DONE]\n", 7, "is not terminated by an empty line"),
        ("data: [DONE]\n\n", "data: [DONE]", 7, "is not terminated by an empty line"),
        ("data: [DONE]\n\n", "data: [DONE]\n\nevent: x", 9, "is not terminated by an empty line"),
        ("data: [DONE]", "date: x\ndata: [DONE]", 7, 'unknown SSE field "date"'),
        ("data: [DONE]", "event: ping\n\ndata: [DONE]", 7, 'event "ping" has no data: line'),
        ("data: [DONE]", ": \udcff\ndata: [DONE]", 7, "the line is not UTF-8"),
        ("data: [DONE]", "data: {}}\n\ndata: [DONE]", 7, "the data is not JSON"),
    ],
)
def test_violation_of_sse_is_reported(old: str, new: str, line: int, piece: str) -> None:
    data = write_chat(CHAT["text"]).decode().replace(old, new)
    expect_one(check_chat(data.encode(errors="surrogateescape")), line, piece)


def test_truncated_event_is_reported() -> None:
    data = write_chat(CHAT["text"])
    violations = check_chat(data[: data.index(b'"finish_reason":"stop"')])
    assert [violation.line for violation in violations] == [3, 3, 5]
    assert "is not terminated" in violations[2].message


@pytest.mark.parametrize("check", [check_chat, check_legacy, check_responses])
def test_empty_stream_is_reported(check: Check) -> None:
    expect_one(check(b""), 1, "the stream ends without")
    assert check(b"[" * 100_000)
    assert check(b"data: " + b'{"a":' * 100_000 + b"\n\n")


def paths_in(value: Json, way: str = "") -> list[str]:
    if isinstance(value, list):
        value = {str(number): entry for number, entry in enumerate(value)}
    pairs = list(value.items()) if isinstance(value, dict) else []
    below = [path for key, entry in pairs for path in paths_in(entry, f"{way}/{key}")]
    return below + [f"{way}/{key}"[1:] for key, _ in pairs]


PIECES = (
    *(b"data:", b"event: x", b"\n", b"\n\n", b"\r", b"{", b"}", b"[DONE]", b'"a":', b"\xff"),
    b":",
)
ODD: list[Json] = [None, True, -1, 0.5, "", "x", [], {}, [None], [[]], {"type": 3}, [{"id": []}]]
PATHS = [
    (streams, name, place, path)
    for streams in (CHAT, LEGACY, RESPONSES)
    for name, stream in streams.items()
    for place, frame in enumerate(stream)
    for path in paths_in(frame)
]


@given(st.sampled_from(PATHS), st.sampled_from(ODD))
@settings(deadline=None, derandomize=True, max_examples=500)
def test_odd_values_do_not_crash(
    target: tuple[dict[str, Stream], str, int, str], value: Json
) -> None:
    streams, name, place, path = target
    stream = changed(streams, (name, put(place, path, value), 0, ""))
    check_chat(write_chat(stream))
    check_legacy(write_chat(stream))
    check_responses(write_responses(stream))


@given(st.binary() | st.lists(st.sampled_from(PIECES)).map(b"".join))
@settings(deadline=None, derandomize=True)
def test_noise_is_reported(data: bytes) -> None:
    for check in (check_chat, check_legacy, check_responses):
        assert check(data)
