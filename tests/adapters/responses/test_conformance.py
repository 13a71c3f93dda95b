"""Rules of Responses streams."""

import typing

import pytest
from openai.types.responses import ResponseStreamEvent

from adapters.conformance import Json, Object, Violation
from adapters.responses.conformance import check_stream
from adapters.responses.conformance_tables import EVENTS
from tests.adapters.conformance_cases import (
    DONE,
    Case,
    Stream,
    all_of,
    changed,
    drop,
    expect_one,
    fresh,
    insert,
    name_of,
    put,
    put_in_range,
    remove,
    repeat,
    swap,
    write_responses,
)
from tests.judges import samples


def response(status: str, *output: Json, **more: Json) -> Object:
    made = typing.cast("Object", samples.response(status))
    # Not required by Open Responses.
    del made["metadata"]
    return {**made, "output": list(output), **more}


CREATED: Json = {"type": "response.created", "response": response("in_progress")}
RUNNING: Json = {"type": "response.in_progress", "response": response("in_progress")}
ERROR: Object = {"code": "server_error", "message": "no", "param": None}


def ended(status: str, *output: Json, **more: Json) -> Json:
    return {"type": f"response.{status}", "response": response(status, *output, **more)}


def event(kind: str, place: int, item: Object, **more: Json) -> Json:
    own: Object = {"item": item} if "output_item" in kind else {"item_id": item["id"]}
    return {"type": f"response.{kind}", "output_index": place, **own, **more}


def text_part(text: str, *annotations: Json) -> Object:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


def message(name: str, status: str, *content: Json) -> Object:
    head: Object = {"id": name, "type": "message", "role": "assistant", "status": status}
    return {**head, "content": list(content)}


def call(number: int, status: str, arguments: str) -> Object:
    ids: Object = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": "weather"}
    return {"type": "function_call", **ids, "status": status, "arguments": arguments}


def custom(text: str) -> Object:
    names: Object = {"call_id": "call_9", "name": "patch"}
    return {"id": "ctc_1", "type": "custom_tool_call", **names, "input": text}


def reasoning(summary: Json, content: Json = None) -> Object:
    return {"id": "rs_1", "type": "reasoning", "summary": summary, "content": content}


def arguments(place: int, number: int, delta: str) -> Json:
    return event("function_call_arguments.delta", place, call(number, "", ""), delta=delta)


def call_ends(place: int, number: int, text: str, status: str = "completed") -> Stream:
    done = call(number, status, text)
    return [
        event("function_call_arguments.done", place, done, arguments=text, name="weather"),
        event("output_item.done", place, done),
    ]


def call_begins(place: int, number: int) -> Json:
    return event("output_item.added", place, call(number, "in_progress", ""))


def part_events(names: tuple[str, str, str], item: Object, part: Object, number: int = 0) -> Stream:
    """Return the events of one part of the first item, with two deltas."""
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
SUMMARY_PART: Object = {"type": "summary_text", "text": "Hmm."}
TEXT_PART = text_part("Hello", CITATION)
OPEN_MESSAGE = message("msg_1", "in_progress")
MESSAGE = message("msg_1", "completed", TEXT_PART)
TWO_PARTS = message("msg_1", "completed", text_part("Hello"), text_part("there"))
REFUSAL: Object = {"type": "refusal", "refusal": "I will not."}
REASONING_PART: Object = {"type": "reasoning_text", "text": "Hmm."}
SEARCH: Object = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
MCP: Object = {"id": "mcp_1", "type": "mcp_call", "name": "find", "arguments": "{}"}
FOREIGN: Object = {"id": "x_1", "type": "acme:thing"}
SHELL: Object = {"id": "sh_1", "type": "shell_call", "call_id": "call_5"}
COMMAND: Object = {"output_index": 2, "command_index": 0, "command": "ls"}


def annotation_added(text: str, index: int) -> Json:
    place: Object = {"content_index": 0, "annotation_index": index}
    added = "output_text.annotation.added"
    return event(added, 0, {"id": text}, **place, annotation=CITATION)


def item_stream(opened: Object, done: Object, *between: Json, status: str = "completed") -> Stream:
    return [
        CREATED,
        event("output_item.added", 0, opened),
        *between,
        event("output_item.done", 0, done),
        ended(status, done),
    ]


def reasoning_stream(kind: str) -> Stream:
    """Return a stream of reasoning text; OpenAI and Open Responses name its events differently."""
    names = ("content_part", kind, "content_index")
    done = reasoning([], [REASONING_PART])
    return item_stream(reasoning([]), done, *part_events(names, done, REASONING_PART))


RESPONSES: dict[str, Stream] = {
    # places: 0 created, 1 running; message 2-10: added, part, deltas 4 and 5, note 6, text done,
    # part done, item done 9, end 10
    "text": [
        CREATED,
        RUNNING,
        event("output_item.added", 0, OPEN_MESSAGE),
        *part_events(TEXT, OPEN_MESSAGE, TEXT_PART)[:3],
        annotation_added("msg_1", 0),
        *part_events(TEXT, OPEN_MESSAGE, TEXT_PART)[3:],
        event("output_item.done", 0, MESSAGE),
        ended("completed", MESSAGE, instructions=[{"role": "user"}]),
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
    "two parts": item_stream(
        OPEN_MESSAGE,
        TWO_PARTS,
        *part_events(TEXT, OPEN_MESSAGE, text_part("Hello")),
        *part_events(TEXT, OPEN_MESSAGE, text_part("there"), 1),
    ),
    # places: reasoning 1, part 2, deltas 3 and 4, text done 5, part done 6, done 7, end 8
    "summary": item_stream(
        reasoning([]), reasoning([SUMMARY_PART]), *part_events(SUMMARY, reasoning([]), SUMMARY_PART)
    ),
    "reasoning text": reasoning_stream("reasoning_text"),
    "reasoning text of Open Responses": reasoning_stream("reasoning"),
    "refusal": item_stream(
        OPEN_MESSAGE,
        message("msg_1", "completed", REFUSAL),
        *part_events(("content_part", "refusal", "content_index"), OPEN_MESSAGE, REFUSAL),
    ),
    "incomplete": [
        *item_stream(
            OPEN_MESSAGE,
            message("msg_1", "incomplete", text_part("Hello")),
            *part_events(TEXT, OPEN_MESSAGE, text_part("Hello")),
            status="incomplete",
        ),
        DONE,
    ],
    # places: call 1, delta 2, error 3, failed 4
    "failed": [
        CREATED,
        call_begins(0, 0),
        arguments(0, 0, "{"),
        {"type": "error", **ERROR},
        ended("failed"),
        DONE,
    ],
    "nested error": [
        CREATED,
        {"type": "error", "error": {"type": "server_error", **ERROR}},
        ended("failed"),
    ],
    # with the open call in its output
    "failed call": [CREATED, call_begins(0, 0), ended("failed", call(0, "in_progress", ""))],
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
        {"type": "response.shell_call_command.added", **COMMAND},
        event("output_item.done", 2, SHELL),
        ended("completed", MCP, FOREIGN, SHELL),
    ],
    "built-in tool that keeps its text to itself": item_stream({**MCP, "arguments": ""}, MCP),
    # places: search 1, note 2, done 3, end 4
    "built-in tool": item_stream(
        {**SEARCH, "status": "in_progress"}, SEARCH, event("web_search_call.searching", 0, SEARCH)
    ),
}


USAGE = "response/usage"
OUTPUT = "response/output"
CALL_ADDED = 'was "call_0" in response.output_item.added'
NO_ITEM: Object = {"type": "response.output_item.added", "output_index": 1, "item": []}
NO_ITEM_DONE: Json = {**NO_ITEM, "type": "response.output_item.done"}
SECOND_ITEM = event("output_item.added", 1, OPEN_MESSAGE)
MISPLACED = event("custom_tool_call_input.delta", 1, call(1, "", ""), delta="")
UNKNOWN_ITEM = event("output_item.done", 7, message("msg_7", "completed"))
# The frames that contain the second call.
SECOND_CALL = [(5, "item"), (8, "item"), (13, "response/output/1")]
SAME_CALL_ID = all_of(*(put(n, f"{path}/call_id", "call_0") for n, path in SECOND_CALL))
SAME_ITEM_ID = all_of(
    *(put(n, f"{path}/id", "fc_0") for n, path in SECOND_CALL),
    *(put(n, "item_id", "fc_0") for n in (6, 7)),
)
INCOMPLETE = ("item/status", "incomplete")
RESPONSES_VIOLATIONS: list[Case] = [
    # the event
    ("text", insert(1, "{"), 1, "the data is not JSON"),
    ("text", put(4, "event line", "response.refusal.delta"), 4, "event: is"),
    ("text", remove(1, "type"), 1, "type is missing"),
    ("text", insert(2, {"type": "response.said"}), 2, 'unknown event type "response.said"'),
    ("text", put(4, "sequence_number", "4"), 4, "sequence_number must be an integer"),
    ("text", put(10, "sequence_number", 11), 10, "sequence_number is 11, expected 10"),
    ("built-in tool", put_in_range(0, 5, "sequence_number", 1), 0, "is 1, expected 0"),
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
    ("failed", remove(3, "message"), 3, "error has neither"),
    ("nested error", remove(1, "error/type"), 1, "error has neither"),
    # the response
    ("text", put(10, "response/id", "resp_2"), 10, 'changes from "resp_1" to "resp_2"'),
    ("text", put(0, "response", None), 0, "response must be an object"),
    ("text", put(0, "response/object", "chat"), 0, 'response.object must be "response"'),
    ("text", put(0, "response/status", "completed"), 0, 'must be "in_progress" or "queued"'),
    ("text", put(10, "response/status", "failed"), 10, 'status must be "completed"'),
    ("text", put(1, "response/output", [MESSAGE]), 1, "response.output must be an empty list"),
    ("text", put(10, "response/output", None), 10, "response.output must be a list"),
    ("text", remove(10, f"{USAGE}/input_tokens_details/cached_tokens"), 10, "cached_tokens is"),
    ("text", remove(0, "response/reasoning/effort"), 0, "response.reasoning.effort is missing"),
    ("incomplete", put(8, "response/incomplete_details", None), 8, "incomplete_details must be"),
    ("failed", put(4, "response/error", None), 4, "response.error must be an object"),
    # items
    ("text", remove(2, "output_index"), 2, "output_index is missing"),
    ("text", insert(10, NO_ITEM), 10, "item must be an object"),
    ("text", insert(10, NO_ITEM_DONE), 10, "item must be an object, not a list"),
    ("built-in tool", put(4, "response/output/0/type", "search"), 4, "is not an item type"),
    ("text", put(2, "item/status", "completed"), 2, 'item.status must be "in_progress"'),
    ("text", put(9, "item/status", "in_progress"), 9, "item.status must be"),
    ("text", put(2, "item/content", [TEXT_PART]), 2, "item.content must be an empty list"),
    ("calls", put(1, "item/arguments", "{}"), 1, "item.arguments must be an empty string"),
    ("calls", remove(2, "item_id"), 2, "item_id is missing"),
    ("calls", put_in_range(5, 9, "output_index", 0), 5, "output_index is 0, expected 1"),
    ("calls", put_in_range(9, 13, "output_index", 3), 9, "output_index is 3, expected 2"),
    ("calls", put(2, "output_index", 1), 2, "output_index is 1, but"),
    ("calls", put(4, "output_index", 1), 4, "output_index is 1, but"),
    ("calls", put(2, "item_id", "fc_7"), 2, 'item_id is "fc_7", but output_index 0 is'),
    ("calls", insert(1, arguments(0, 0, "")), 1, "no item was added at output_index 0"),
    ("text", insert(10, UNKNOWN_ITEM), 10, "no item was added at output_index 7"),
    ("text", put(9, "item/id", "msg_2"), 9, 'item.id is "msg_2", but was "msg_1"'),
    ("calls", put(4, "item/call_id", "call_7"), 4, 'item.call_id is "call_7", but was'),
    ("calls", put(4, "item/name", "time"), 4, 'item.name is "time", but was'),
    ("built-in tool", put(3, "item/type", "file_search_call"), 3, "item.type is"),
    ("text", insert(10, annotation_added("msg_1", 1)), 10, 'comes after message "msg_1" is done'),
    ("text", repeat(9), 10, "is done a second time"),
    ("calls", insert(7, MISPLACED), 7, "does not belong to an item of type function_call"),
    ("built-in tool", put(2, "type", "response.mcp_call.completed"), 2, "does not belong to"),
    # parts
    ("text", put(3, "content_index", "0"), 3, "content_index must be an integer"),
    ("text", put(4, "content_index", 1), 4, "content_index is 1, expected 0"),
    ("summary", put_in_range(2, 7, "summary_index", 1), 2, "summary_index is 1, expected 0"),
    ("text", put(3, "part/text", "He"), 3, "part.text must be an empty string"),
    ("text", remove(3, "part/annotations"), 3, "part.annotations is missing"),
    ("text", put(3, "part/type", "summary_text"), 3, "part.type must be output_text or refusal"),
    ("text", put(8, "part/type", "refusal"), 8, 'part.type is "refusal", but the part began as'),
    ("text", put(4, "type", "response.refusal.delta"), 4, "an event of refusal in a part of type"),
    ("text", drop(3), 3, "output_text.delta is out of order: no part is open"),
    ("two parts", drop(6), 6, "the part before it is still open"),
    ("two parts", put_in_range(7, 12, "content_index", 0), 7, "content_index is 0, expected 1"),
    ("text", drop(7), 7, "content_part.done is out of order: the text is not done"),
    ("text", drop(8), 8, "is done too early: its content part 0 is still open"),
    ("text", repeat(7), 8, "output_text.done is out of order: the text is done already"),
    ("text", repeat(8), 9, "content_part.done is out of order: no part is open"),
    ("text", swap(6), 7, "added is out of order: the text is done already"),
    ("text", put(6, "annotation_index", 1), 6, "annotation_index is 1, expected 0"),
    ("text", repeat(6), 7, "annotation_index is 0, expected 1"),
    ("calls", drop(3), 3, "is done too early: the done event of its text is missing"),
    ("calls", insert(4, arguments(0, 0, "")), 4, "delta is out of order: the text is done"),
    # texts
    ("text", put(4, "delta", 1), 4, "delta must be a string, not 1"),
    ("text", put(4, "delta", "Je"), 7, 'joined deltas: "Hello", not "Jello"'),
    ("text", put(7, "text", "Hell"), 7, 'text differs from the joined deltas: "Hell"'),
    ("text", put(8, "part/text", "Hell"), 8, 'text differs from the joined deltas: "Hell"'),
    ("text", put(9, "item/content/0/text", "Hell"), 9, "item.content[0] differs from the stream"),
    ("text", put(9, "item/content/0/type", "refusal"), 9, "item.content[0].type is"),
    ("text", put(9, "item/content", []), 9, "item.content has 0 parts, but 1 were streamed"),
    ("refusal", put(5, "refusal", "No."), 5, "refusal differs from the joined deltas"),
    ("summary", put(5, "text", "Oh."), 5, "text differs from the joined deltas"),
    ("summary", put(7, "item/summary", []), 7, "item.summary has 0 parts, but 1 were"),
    ("reasoning text", put(5, "text", "Oh."), 5, "text differs from the joined deltas"),
    ("calls", put(3, "arguments", "{"), 3, "arguments differs from the joined deltas"),
    ("calls", put(3, "name", "time"), 3, 'name is "time", but'),
    ("calls", put(4, "item/arguments", "{"), 4, "item.arguments differs from the stream"),
    ("calls", put(11, "input", "ab"), 11, "input differs from the joined deltas"),
    ("calls", put(12, "item/input", "ab"), 12, "item.input differs from the stream"),
    ("other items", put(4, "item/arguments", "{"), 4, "item.arguments differs from the stream"),
    ("other items", put(8, "output_index", 0), 8, 'comes after mcp_call "mcp_1" is done'),
    ("other items", remove(8, "command"), 8, "command is missing"),
    # the final snapshot
    ("failed call", put(2, f"{OUTPUT}/0/call_id", "call_7"), 2, CALL_ADDED),
    ("text", put(10, "response/output", []), 10, "response.output has 0 items, but 1 were"),
    ("text", put(10, "response/output/0/id", "msg_2"), 10, 'response.output[0].id is "msg_2"'),
    ("text", put(10, "response/output/0/content/0/text", "J"), 10, "response.output[0].content is"),
    ("text", remove(10, "response/output/0/role"), 10, "response.output[0].role is missing"),
    ("calls", put(13, "response/output/1/call_id", "call_7"), 13, "output[1].call_id is"),
    ("calls", put(13, "response/output/1/arguments", "{"), 13, 'output[1].arguments is "{"'),
    ("summary", put(8, "response/output/0/summary", []), 8, "response.output[0].summary is"),
    # what stays open
    ("text", all_of(drop(9), put(9, "response/output", [])), 9, 'message "msg_1" is left open'),
    ("incomplete", all_of(drop(7), put(7, "response/output", [])), 7, "is left open"),
    ("failed", insert(3, SECOND_ITEM), 5, 'message "msg_1" is left open'),
    ("failed", put(4, "response/output", [call(7, "in_progress", "")]), 4, "output has 1 items"),
    # several items
    ("calls", SAME_CALL_ID, 5, 'two calls have the call_id "call_0"'),
    ("calls", SAME_ITEM_ID, 5, 'two items have the id "fc_0"'),
    ("calls", put(4, *INCOMPLETE), 5, "which is incomplete and must be last"),
    ("interleaved calls", put(9, *INCOMPLETE), 13, 'function_call "fc_0" is incomplete, but'),
]

NULLABLE = {
    *("completed_at", "incomplete_details", "previous_response_id", "instructions", "error"),
    *("reasoning", "usage", "max_output_tokens", "max_tool_calls", "safety_identifier"),
    "prompt_cache_key",
}


def check(case: Case) -> list[Violation]:
    return check_stream(write_responses(changed(RESPONSES, case)))


@pytest.mark.parametrize("name", RESPONSES)
def test_valid_stream_has_no_violations(name: str) -> None:
    assert check((name, all_of(), 0, "")) == []


@pytest.mark.parametrize("case", RESPONSES_VIOLATIONS, ids=name_of)
def test_violation_is_reported(case: Case) -> None:
    expect_one(check(case), 3 * case[2] + 2, case[3])


@pytest.mark.parametrize("key", response(""))
def test_response_field_is_required(key: str) -> None:
    path = f"response/{key}"
    test_violation_is_reported(("text", remove(0, path), 0, f"response.{key} is missing"))
    with_null = ("text", put(0, path, None), 0, f"response.{key} must be")
    if key in NULLABLE:
        assert check(with_null) == []
    else:
        test_violation_is_reported(with_null)


def test_events_of_the_openai_package_are_known() -> None:
    for model in typing.get_args(typing.get_args(ResponseStreamEvent)[0]):
        fields = model.model_fields
        (event_type,) = typing.get_args(fields["type"].annotation)
        needed = {key for key, field in fields.items() if field.is_required()}
        # error has two forms, and Open Responses leaves logprobs out.
        known = {"type", "sequence_number", "logprobs", *EVENTS[event_type].fields}
        assert event_type == "error" or needed <= known, event_type


def test_in_progress_may_be_repeated() -> None:
    # Codex ignores comments, so this is how a backend shows that it is still working.
    assert check(("text", insert(3, RUNNING), 0, "")) == []


def test_missing_event_lines_and_ids_are_reported() -> None:
    data = write_responses(RESPONSES["text"])
    without = data.replace(b"event: response.in_progress\n", b":\n")
    expect_one(check_stream(without), 5, "has no event: line")
    expect_one(check_stream(b"id: 1\n" + data), 1, "id: lines are not used")


def test_violations_are_in_line_order() -> None:
    data = write_responses(RESPONSES["calls"]).replace(b'"{}"', b'"{"', 1)
    violations = check_stream(data + b"id: 1\n\nfoo\n\n")
    assert len(violations) == 3
    assert violations == sorted(violations, key=lambda violation: violation.line)


@pytest.mark.parametrize("depth", range(100, 1100, 50))
def test_deep_nesting_does_not_crash(depth: int) -> None:
    stream = fresh(RESPONSES["text"])
    for place, path in ((9, "item/content/0/deep"), (10, "response/output/0/content/0/deep")):
        put(place, path, "HERE")(stream)
    nested = b"[" * depth + b"]" * depth
    check_stream(write_responses(stream).replace(b'"HERE"', nested))
