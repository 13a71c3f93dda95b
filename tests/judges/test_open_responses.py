"""The judge of Open Responses takes legal samples, and refuses them once they are spoiled."""

from collections.abc import Callable
from typing import get_args

import pytest

from tests.judges import open_responses, sdk
from tests.judges.open_responses import EVERYTHING, Allowance, assert_response, assert_stream
from tests.judges.reading import JsonObject
from tests.judges.sample_streams import (
    DONE,
    changed_event,
    numbered,
    responses_events,
    responses_stream,
)
from tests.judges.samples import GONE, call, changed, custom_call, message, reasoning, response

refused = pytest.raises

COMPLETED = response("completed", [reasoning(), message(), call()])
# Whether these are null follows from the status.
BY_STATUS = {"completed_at", "incomplete_details", "error"}
UNSET = {name for name, value in COMPLETED.items() if value is None} - BY_STATUS
NULLABLE = {*UNSET, "metadata", "reasoning", "usage"}


def test_takes_a_legal_response() -> None:
    assert_response(COMPLETED)
    for name in NULLABLE:
        assert_response({**COMPLETED, name: None})
    assert_response({**COMPLETED, "conversation": {"id": "x"}})


@pytest.mark.parametrize("name", sorted(COMPLETED))
def test_demands_every_field(name: str) -> None:
    with refused(AssertionError, match=f"lacks .'{name}'"):
        assert_response(changed(COMPLETED, name, GONE))


@pytest.mark.parametrize("name", sorted(COMPLETED.keys() - NULLABLE - BY_STATUS))
def test_refuses_null(name: str) -> None:
    with refused(AssertionError, match=name):
        assert_response({**COMPLETED, name: None})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("created_at", 1.5),
        ("completed_at", None),
        ("error", {"code": "x", "message": "y"}),
        ("usage.input_tokens_details", GONE),
        ("usage.output_tokens_details.reasoning_tokens", GONE),
        ("reasoning.summary", GONE),
        ("instructions", []),
        ("text.verbosity", None),
        ("tools.0.description", GONE),
        ("tools.0.strict", GONE),
        ("tool_choice", {"type": "allowed_tools", "tools": []}),
        ("output.0.content", None),
        ("output.0.encrypted_content", None),
        ("output.1.phase", None),
        ("output.1.status", "incomplete"),
        ("output.1.content.0.annotations", GONE),
        ("output.1.content.0.logprobs", None),
        ("output.2.id", GONE),
        ("output.2.status", GONE),
        ("output.2.status", "in_progress"),
        ("output.2.call_id", ""),
        ("output.2.name", "get weather"),
    ],
)
def test_refuses_a_spoiled_response(path: str, value: object) -> None:
    with refused(AssertionError):
        assert_response(changed(COMPLETED, path, value))


SCHEMA: JsonObject = {"name": "n", "description": None, "schema": {}, "strict": True}
BEYOND: list[tuple[Allowance, str, object]] = [
    ("custom_tools", "output.2", custom_call()),
    ("custom_tools", "tools.0", {"type": "custom", "name": "note"}),
    ("custom_tools", "tool_choice", {"type": "custom", "name": "note"}),
    ("json_schema", "text.format", {"type": "json_schema", **SCHEMA}),
    ("efforts", "reasoning.effort", "minimal"),
    ("efforts", "reasoning.effort", "max"),
    ("citations", "output.1.content.0.annotations", [{"type": "file_path"}]),
    ("long_names", "output.2.name", "n" * 65),
    ("other_types", "output.2", {"type": "shell_call", "id": "sh_1"}),
    ("other_types", "tools.0", {"type": "web_search"}),
]


@pytest.mark.parametrize(("allowance", "path", "value"), BEYOND)
def test_takes_more_only_where_allowed(allowance: Allowance, path: str, value: object) -> None:
    body = changed(COMPLETED, path, value)
    assert_response(body, allow=[allowance])
    with refused(AssertionError):
        assert_response(body, allow=EVERYTHING - {allowance})


def test_takes_other_reasoning_events_only_where_allowed() -> None:
    event: JsonObject = {"type": "response.reasoning_text.delta", "sequence_number": 0}
    event |= {"item_id": "rs_1", "output_index": 0, "content_index": 0, "delta": "x"}
    open_responses.assert_event(event, allow=["reasoning_text"])
    open_responses.assert_event({**event, "type": "response.reasoning.delta"})
    with refused(AssertionError):
        open_responses.assert_event(event)


def test_every_allowance_is_tested() -> None:
    assert {allowance for allowance, _, _ in BEYOND} | {"reasoning_text"} == EVERYTHING
    assert len(EVERYTHING) == len(get_args(Allowance))


STRICT = responses_events([reasoning(), message(), call()])


def spoiled(spoil: Callable[[list[JsonObject], int], list[JsonObject]]) -> list[list[JsonObject]]:
    # in_progress is the one event that may be missing.
    numbers = [n for n, event in enumerate(STRICT) if event["type"] != "response.in_progress"]
    return [numbered(spoil(STRICT, number)) for number in numbers]


@pytest.mark.parametrize(
    "events",
    [
        *spoiled(lambda events, n: [*events[:n], *events[n + 1 :]]),
        *spoiled(lambda events, n: [*events[: n + 1], *events[n:]]),
    ],
)
def test_misses_every_event_and_sees_every_repeat(events: list[JsonObject]) -> None:
    with refused(AssertionError):
        assert_stream(responses_stream(events))


@pytest.mark.parametrize("number", range(len(STRICT)))
def test_demands_sequence_numbers(number: int) -> None:
    for value in (GONE, 99):
        events = changed_event(STRICT, number, "sequence_number", value)
        with refused(AssertionError):
            assert_stream(responses_stream(events))


def test_takes_interleaved_items() -> None:
    other = {**call(), "id": "fc_2", "call_id": "call_9"}
    events = responses_events([call(), other])
    # Both calls are added, then both are finished: five events each, after two at the start.
    mixed = [*events[:2], events[2], events[7], *events[3:7], *events[8:]]
    assert_stream(responses_stream(numbered(mixed)))


def test_takes_items_left_open_by_a_failure() -> None:
    events = responses_events([message(), call()], "failed", error=True)
    cut = [event for event in events if event["type"] != "response.function_call_arguments.done"]
    cut = [event for event in cut if event.get("item") != call()]
    cut[-1] = {**cut[-1], "response": response("failed", [message()])}
    assert_stream(responses_stream(numbered(cut)))
    assert sdk.judge_responses_stream(responses_stream(numbered(cut))).status == "failed"


@pytest.mark.parametrize(
    ("number", "path", "value", "says"),
    [
        (0, "response.status", "completed", "completed"),
        (2, "item.status", "completed", "added as completed"),
        (2, "item.content", [{"type": "refusal", "refusal": ""}], "starts with content"),
        (2, "output_index", 1, "output_index 1"),
        (3, "part.text", "H", "starts with text"),
        (4, "delta", "J", "streamed"),
        (4, "item_id", "msg_9", "id is 'msg_1'"),
        (4, "content_index", 1, "was not added"),
        (7, "part.text", "Hullo", "streamed"),
        (8, "item.id", "msg_9", "id was"),
        (8, "item.status", "in_progress", "in progress"),
        (9, "response.output", [], "not what was streamed"),
        (9, "response.id", "resp_9", "resp_1"),
    ],
)
def test_refuses_a_spoiled_stream(number: int, path: str, value: object, says: str) -> None:
    events = changed_event(responses_events([message()]), number, path, value)
    with refused(AssertionError, match=says):
        assert_stream(responses_stream(events))


FAILED = responses_events([], "failed", error=True)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (responses_events([message()], error=True), "after error"),
        (changed_event(FAILED, 2, "error", GONE), "error: lacks"),
        (responses_events([message("incomplete"), call()], "incomplete"), "not the last"),
    ],
    ids=["no failure after an error", "a flat error", "an incomplete item before the last"],
)
def test_refuses_a_wrong_end(events: list[JsonObject], says: str) -> None:
    with refused(AssertionError, match=says):
        assert_stream(responses_stream(events))


LEGAL = responses_stream(STRICT)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        DONE,
        LEGAL.removesuffix(DONE),
        LEGAL + DONE,
        LEGAL.replace(b"\n", b"\r\n"),
        LEGAL.replace(b"\ndata", b"\nid: 1\ndata", 1),
        LEGAL.replace(b"event: response.created\n", b"", 1),
        LEGAL.replace(b"event: response.created\n", b"event: created\n", 1),
        b": hello\n\n" + LEGAL,
        LEGAL.replace(b"data: {", b"data: {\ndata: ", 1),
        LEGAL.removesuffix(b"\n"),
    ],
)
def test_refuses_wrong_framing(data: bytes) -> None:
    assert_stream(LEGAL)
    with refused(AssertionError):
        assert_stream(data)
