"""The scripted model refuses what a strict server refuses."""

import pytest
from msgspec.structs import replace

from tests.gateway.migration.code.scripted_messages import read_legacy, read_tools
from tests.gateway.migration.code.scripted_model import (
    Answer,
    Asked,
    Call,
    Model,
    Script,
    Turn,
    Violation,
)
from tests.gateway.migration.code.scripted_replies import chat_call, stream, whole_reply
from tests.gateway.migration.code.scripted_responses import ResponsesReader, response_events
from tests.judges.reading import JsonObject

SCRIPT = Script((Turn("", (Call("f", "{}"), Call("g", '{"x": 1}')), "done: {outputs}"),))
FUNCTIONS: list[JsonObject] = [{"name": "f", "parameters": {"type": "object"}}, {"name": "g"}]
TOOLS: list[JsonObject] = [{"type": "function", "function": function} for function in FUNCTIONS]
RESPONSES_TOOLS: list[JsonObject] = [
    {"type": "function", "strict": False, **function} for function in FUNCTIONS
]
USER: JsonObject = {"role": "user", "content": "Go"}


@pytest.fixture
def model() -> Model:
    return Model(SCRIPT)


def _answer(model: Model) -> Answer:
    """Let the model make two calls at once."""
    return model.answer(read_tools({"model": "m", "messages": [USER], "tools": TOOLS}, model))


def _tools(model: Model, *messages: JsonObject, **extra: object) -> Asked:
    body = {"model": "m", "tools": TOOLS, "messages": [USER, *messages], **extra}
    return read_tools(body, model)


def _calls(answer: Answer) -> JsonObject:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [chat_call(call) for call in answer.calls],
    }


def _outputs(answer: Answer) -> list[JsonObject]:
    return [
        {"role": "tool", "tool_call_id": call.id, "content": f"of {call.name}"}
        for call in answer.calls
    ]


def test_calls_are_made_at_once_and_answered_together(model: Model) -> None:
    answer = _answer(model)
    assert [call.name for call in answer.calls] == ["f", "g"]
    asked = _tools(model, _calls(answer), *_outputs(answer))
    assert model.answer(asked).text == "done: of f, of g"


def test_calls_are_made_one_by_one_if_asked_to(model: Model) -> None:
    asked = _tools(model, parallel_tool_calls=False)
    for done, name in (((), "f"), (("of f",), "g")):
        answer = model.answer(replace(asked, outputs=done))
        assert [call.name for call in answer.calls] == [name]


def test_outputs_in_another_order_are_accepted(model: Model) -> None:
    answer = _answer(model)
    assert _tools(model, _calls(answer), *reversed(_outputs(answer))).outputs


UNKNOWN_TO_CHAT: list[JsonObject] = [
    {"functions": FUNCTIONS},
    {"function_call": "auto"},
    {"tool_choice": {"name": "f"}},
    {"unknown": 1},
    {"tools": []},
    {"tools": FUNCTIONS},
    {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
]


@pytest.mark.parametrize("extra", UNKNOWN_TO_CHAT)
def test_fields_of_a_request_are_checked(model: Model, extra: JsonObject) -> None:
    with pytest.raises(Violation):
        model.answer(_tools(model, **extra))


def test_parallel_calls_need_tools(model: Model) -> None:
    with pytest.raises(Violation, match="parallel_tool_calls"):
        read_tools({"model": "m", "messages": [USER], "parallel_tool_calls": False}, model)


def test_calls_need_outputs(model: Model) -> None:
    answer = _answer(model)
    first, second = _outputs(answer)
    for messages in (
        [_calls(answer)],
        [_calls(answer), first],
        [_calls(answer), first, USER, second],
        [_calls(answer), first, first],
        [_calls(answer), first, second, second],
        [first, second],
    ):
        with pytest.raises(Violation):
            _tools(model, *messages)


def test_calls_must_be_those_of_the_model(model: Model) -> None:
    answer = _answer(model)
    outputs = _outputs(answer)
    first, second = (chat_call(call) for call in answer.calls)
    for calls in (
        [first],
        [second, first],
        [{**first, "id": "call_0"}, second],
        [{**first, "function": {"name": "f", "arguments": "{ }"}}, second],
        [{**first, "index": 0}, second],
        [],
    ):
        with pytest.raises(Violation):
            _tools(model, {**_calls(answer), "tool_calls": calls}, *outputs)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "function", "name": "f", "content": "1"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": None},
        {"role": "user", "content": None},
        {"role": "other", "content": "1"},
    ],
)
def test_messages_are_checked(model: Model, message: JsonObject) -> None:
    _answer(model)
    with pytest.raises(Violation):
        _tools(model, message)


def test_outputs_have_no_name(model: Model) -> None:
    answer = _answer(model)
    first, second = _outputs(answer)
    with pytest.raises(Violation, match="name"):
        _tools(model, _calls(answer), {**first, "name": "f"}, second)


def test_legacy_requests_have_no_tools(model: Model) -> None:
    unknown: list[JsonObject] = [{"tools": TOOLS}, {"function_call": "auto"}, {"functions": []}]
    for extra in unknown:
        with pytest.raises(Violation):
            read_legacy({"model": "m", "messages": [USER], **extra}, model)


def test_legacy_replies_have_one_call(model: Model) -> None:
    body: JsonObject = {"model": "m", "messages": [USER], "functions": FUNCTIONS}
    answer = model.answer(read_legacy(body, model))
    assert [call.name for call in answer.calls] == ["f"]
    call = {"name": "f", "arguments": "{}"}
    body["messages"] = [
        USER,
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "f", "content": "1"},
    ]
    assert read_legacy(body, model).outputs == ("1",)
    body["messages"] = [USER, {"role": "function", "name": "h", "content": "1"}]
    with pytest.raises(Violation, match="did not call h"):
        read_legacy(body, model)


def test_forced_call_ends_with_stop(model: Model) -> None:
    body: JsonObject = {"model": "m", "messages": [USER], "functions": FUNCTIONS}
    answer = model.answer(read_legacy({**body, "function_call": {"name": "f"}}, model))
    reply = whole_reply(answer, "m", is_legacy=True)
    assert "'finish_reason': 'stop'" in str(reply)
    with pytest.raises(Violation, match="g is forced"):
        model.answer(read_legacy({**body, "function_call": {"name": "g"}}, model))


def test_streams_split_names_and_arguments(model: Model) -> None:
    call = Call("a_longer_name", '{"x": 12345}')
    asked = replace(_tools(model), functions=({"name": call.name},))
    answer = Model(Script((Turn("", (call,)),))).answer(asked)
    for is_legacy in (True, False):
        text = str([*stream(answer, "m", is_legacy=is_legacy, split_names=True)])
        assert "a_longer_name" not in text
        assert '{"x": 1' in text
        assert "12345" not in text


def _responses(model: Model, *items: JsonObject, **extra: object) -> Asked:
    body = {"model": "m", "input": [USER, *items], "tools": RESPONSES_TOOLS, **extra}
    return ResponsesReader(model).read(body)


def _items(answer: Answer) -> tuple[list[JsonObject], list[JsonObject]]:
    calls: list[JsonObject] = [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in answer.calls
    ]
    outputs: list[JsonObject] = [
        {"type": "function_call_output", "call_id": call.id, "output": "1"} for call in answer.calls
    ]
    return calls, outputs


def test_responses_are_continued_by_items_or_by_id(model: Model) -> None:
    reader = ResponsesReader(model)
    body: JsonObject = {"model": "m", "input": "Go", "tools": RESPONSES_TOOLS}
    answer = model.answer(reader.read(body))
    reader.store(body, answer)
    calls, outputs = _items(answer)
    asked = _responses(model, *calls, *outputs)
    continued = {**body, "input": outputs, "previous_response_id": f"resp_{answer.id}"}
    assert reader.read(continued) == asked
    with pytest.raises(Violation):
        reader.read({**continued, "previous_response_id": "resp_0"})


def test_items_are_checked(model: Model) -> None:
    calls, outputs = _items(_answer(model))
    wrong: list[list[JsonObject]] = [
        calls,
        outputs,
        [*calls, outputs[0]],
        [calls[0], outputs[0]],
        [*calls, USER, *outputs],
        [*calls, *outputs, outputs[0]],
        [{**calls[0], "call_id": "call_0"}, calls[1], *outputs],
        [{**calls[0], "name": "h"}, calls[1], *outputs],
        [*calls, {**outputs[0], "output": {"x": 1}}, outputs[1]],
        [{"role": "tool", "content": "1"}],
        [{"role": "function", "name": "f", "content": "1"}],
        [{"type": "other"}],
    ]
    for items in wrong:
        with pytest.raises(Violation):
            _responses(model, *items)


@pytest.mark.parametrize(
    "extra",
    [
        {"messages": [USER]},
        {"functions": FUNCTIONS},
        {"tools": TOOLS},
        {"tools": [{"type": "function", "name": "f"}]},
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"max_tokens": 1},
    ],
)
def test_fields_of_a_responses_request_are_checked(model: Model, extra: JsonObject) -> None:
    with pytest.raises(Violation):
        _responses(model, **extra)


def test_responses_stream_has_the_whole_response(model: Model) -> None:
    *_, last = response_events(_answer(model), "m")
    assert last["type"] == "response.completed"
    assert "'call_id'" in str(last["response"])
