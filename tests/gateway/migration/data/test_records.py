"""The conversion of single records."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adapters
from gateway.migration.data.records import ConvertedRecord, convert_record
from gateway.migration.data.validation import Target
from tests.gateway.migration.data import samples
from tests.judges.reading import JsonObject, objects_in
from tests.judges.samples import encoded
from tests.judges.sdk import (
    judge_chat_reply,
    judge_chat_request,
    judge_responses_reply,
    judge_responses_request,
)
from tests.strategies.mutations import with_replaced_value

TARGETS: tuple[Target, ...] = ("chat", "responses")
SAMPLES: list[object] = [
    *(samples.REQUEST, samples.EXAMPLE, samples.BATCH_LINE, samples.PREFERENCE, samples.REPLY),
    *(samples.THREAD, samples.HISTORY, [samples.FUNCTION], samples.TOOL),
    {"functions": [samples.FUNCTION]},
    {"custom_id": "a", "response": {"status_code": 200, "body": samples.REPLY}},
]


def convert(record: object, target: Target = "chat") -> tuple[Any, ConvertedRecord]:
    converted = convert_record(msgspec.json.encode(record), target)
    return msgspec.json.decode(converted.body), converted


def assert_chat_history(messages: list[JsonObject]) -> None:
    """Raise unless the messages are the sample history with one call and its output."""
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    (call,) = objects_in(messages[1], "tool_calls")
    # The arguments keep their bytes.
    assert call["function"] == samples.CALL
    assert messages[2] == {"role": "tool", "tool_call_id": call["id"], "content": "18"}


def assert_items(items: list[JsonObject]) -> None:
    kinds = [item["type"] for item in items]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert items[1]["arguments"] == samples.CALL["arguments"]
    assert items[1]["call_id"] == items[2]["call_id"]


def test_request_for_chat() -> None:
    request, _ = convert(samples.REQUEST)
    judge_chat_request(encoded(request))
    assert_chat_history(request["messages"])
    assert request["tools"] == [{"type": "function", "function": samples.FUNCTION}]


def test_request_for_responses() -> None:
    request, _ = convert(samples.REQUEST, "responses")
    judge_responses_request(encoded(request))
    assert_items(request["input"])


def test_weights_of_an_example_are_kept_for_chat() -> None:
    example, _ = convert(samples.EXAMPLE)
    assert [one.pop("weight", None) for one in example["messages"]] == [None, 0, None, 1]
    assert_chat_history(example["messages"])


def test_weights_are_lost_for_responses() -> None:
    _, converted = convert(samples.EXAMPLE, "responses")
    lost = [loss.path for loss in converted.losses if loss.path.endswith("weight")]
    assert lost == ["messages[1].weight", "messages[3].weight"]


@pytest.mark.parametrize(
    ("target", "path"), [("chat", "/v1/chat/completions"), ("responses", "/v1/responses")]
)
def test_line_of_a_batch_file(target: Target, path: str) -> None:
    line, _ = convert(samples.BATCH_LINE, target)
    assert (line["custom_id"], line["url"]) == ("a", path)
    assert line["body"] == convert(samples.REQUEST, target)[0]


def test_preference_example() -> None:
    example, _ = convert(samples.PREFERENCE)
    assert example["input"]["tools"] == [{"type": "function", "function": samples.FUNCTION}]
    (preferred,) = objects_in(example, "preferred_output")
    assert objects_in(preferred, "tool_calls")[0]["function"] == samples.CALL
    assert example["non_preferred_output"] == [samples.ANSWER]


def test_reply_has_tool_calls() -> None:
    reply, _ = convert(samples.REPLY)
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == samples.CALL


def test_reply_becomes_a_response() -> None:
    response, _ = convert(samples.REPLY, "responses")
    (call,) = response["output"]
    assert (call["type"], call["arguments"]) == ("function_call", samples.CALL["arguments"])


@pytest.mark.parametrize("record", [samples.FUNCTION, [samples.FUNCTION]], ids=["one", "list"])
def test_function_becomes_a_tool(record: object) -> None:
    nested = {"type": "function", "function": samples.FUNCTION}
    flat = {"type": "function", "strict": False, **samples.FUNCTION}
    is_list = isinstance(record, list)
    assert convert(record)[0] == ([nested] if is_list else nested)
    assert convert(record, "responses")[0] == ([flat] if is_list else flat)


def test_list_of_messages() -> None:
    assert_chat_history(convert(samples.HISTORY)[0])
    assert_items(convert(samples.HISTORY, "responses")[0])


def test_thread_becomes_the_items_of_a_conversation() -> None:
    conversation, converted = convert(samples.THREAD, "responses")
    judge_responses_request(encoded({"model": "m", "input": conversation["items"]}))
    assert conversation["metadata"] == {"topic": "tea"}
    assert_items(conversation["items"])
    paths = {loss.path for loss in converted.losses}
    assert paths == {
        *(f"runs[0].{name}" for name in ("model", "instructions", "tools")),
        "steps[0].step_details.tool_calls[1]",
        "created_at",
    }


def test_thread_becomes_a_chat_request() -> None:
    request, _ = convert(samples.THREAD)
    judge_chat_request(encoded(request))
    system, *messages = request["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert_chat_history(messages)


def test_messages_of_one_second_are_in_the_order_of_the_thread() -> None:
    texts = ["one", "two", "three"]
    head: JsonObject = {"object": "thread.message", "created_at": 5, "role": "user"}
    messages = [{**head, "content": [{"type": "text", "text": {"value": one}}]} for one in texts]
    conversation, _ = convert(messages, "responses")
    assert [item["content"][0]["text"] for item in conversation["items"]] == texts


def test_settings_of_the_last_run_become_those_of_a_chat_request() -> None:
    tool_choice: JsonObject = {"type": "function", "function": {"name": "weather"}}
    schema: JsonObject = {"name": "answer", "schema": samples.SCHEMA, "strict": True}
    settings: JsonObject = {
        "temperature": 0.5,
        "top_p": 1.0,
        "tool_choice": tool_choice,
        "max_completion_tokens": 50,
        "response_format": {"type": "json_schema", "json_schema": schema},
        "reasoning_effort": "low",
    }
    (first,) = objects_in(samples.THREAD, "runs")
    last: JsonObject = {**first, **settings, "id": "run_2", "created_at": 3, "model": "m2"}
    last["truncation_strategy"] = {"type": "last_messages", "last_messages": 5}
    request, converted = convert({**samples.THREAD, "runs": [first, last]})
    judge_chat_request(encoded(request))
    assert (request["model"], request["temperature"]) == ("m2", 0.5)
    assert (request["tool_choice"], request["reasoning_effort"]) == (tool_choice, "low")
    assert request["max_completion_tokens"] == 50
    assert request["response_format"] == {"type": "json_schema", "json_schema": schema}
    paths = {loss.path for loss in converted.losses}
    assert paths >= {"runs[0].model", "runs[1].truncation_strategy"}


def test_call_of_a_thread_without_an_output_gets_one() -> None:
    (step,) = objects_in(samples.THREAD, "steps")
    call: JsonObject = {"id": "call_1", "type": "function", "function": samples.CALL}
    pending = {**step, "step_details": {"type": "tool_calls", "tool_calls": [call]}}
    for target in TARGETS:
        converted = convert({**samples.THREAD, "steps": [pending]}, target)[1]
        assert b"No output was recorded for this call." in converted.body
        assert "steps[0].step_details.tool_calls[0]" in {loss.path for loss in converted.losses}


def test_parts_of_messages_in_a_thread() -> None:
    image: JsonObject = {"type": "image_file", "image_file": {"file_id": "file_1"}}
    url: JsonObject = {"type": "image_url", "image_url": {"url": "https://a.b/c", "detail": "low"}}
    refusal: JsonObject = {"type": "refusal", "refusal": "No."}
    head: JsonObject = {"object": "thread.message", "created_at": 1}
    messages = [
        {**head, "role": "user", "content": [image, url]},
        {**head, "role": "assistant", "content": [refusal]},
        # The service has no images of the assistant, so nothing is left of this message.
        {**head, "role": "assistant", "content": [image]},
    ]
    conversation, converted = convert({"messages": messages}, "responses")
    judge_responses_request(encoded({"model": "m", "input": conversation["items"]}))
    assert [len(item["content"]) for item in conversation["items"]] == [2, 1]
    lost = {loss.path for loss in converted.losses}
    assert lost == {"created_at", "messages[2].content[0]", "messages[2]"}


def test_call_of_a_thread_needs_an_id() -> None:
    step: JsonObject = {
        "object": "thread.run.step",
        "step_details": {"tool_calls": [{"type": "function", "function": samples.CALL}]},
    }
    with pytest.raises(adapters.DragomanError, match=r"items\[0\] has a call without an id"):
        convert(step, "responses")


def test_several_threads_become_several_conversations() -> None:
    head: JsonObject = {"object": "thread.message", "created_at": 5, "role": "user"}
    texts = {"thread_1": "one", "thread_2": "two"}
    messages = [
        {**head, "thread_id": name, "content": [{"type": "text", "text": {"value": text}}]}
        for name, text in texts.items()
    ]
    conversations, _ = convert(messages, "responses")
    assert [one["items"][0]["content"][0]["text"] for one in conversations] == ["one", "two"]
    requests, _ = convert(messages)
    assert [one["messages"][0]["content"] for one in requests] == ["one", "two"]
    with pytest.raises(adapters.DragomanError, match="needs a thread_id"):
        convert([*messages, head])


def test_settings_with_functions() -> None:
    settings: JsonObject = {"functions": [samples.FUNCTION], "function_call": {"name": "weather"}}
    choice = {"type": "function", "function": {"name": "weather"}}
    converted, _ = convert({**settings, "temperature": 0})
    assert converted["tools"] == [{"type": "function", "function": samples.FUNCTION}]
    assert (converted["tool_choice"], converted["temperature"]) == (choice, 0)
    assert "messages" not in converted
    assert "input" not in convert(settings, "responses")[0]


@pytest.mark.parametrize("record", [samples.TOOL, [samples.TOOL]], ids=["one", "list"])
def test_tools_are_converted_too(record: object) -> None:
    flat = {"type": "function", "strict": False, **samples.FUNCTION}
    assert convert(record)[0] == record
    assert convert(record, "responses")[0] == ([flat] if isinstance(record, list) else flat)


@pytest.mark.parametrize("record", [{"model": "m", "input": "a"}, {"output": []}])
def test_records_of_the_responses_api_are_unchanged(record: JsonObject) -> None:
    assert convert(record, "responses")[0] == record


@pytest.mark.parametrize("target", TARGETS)
def test_line_of_a_batch_output(target: Target) -> None:
    response: JsonObject = {"status_code": 200, "request_id": "r", "body": samples.REPLY}
    line, _ = convert({"id": "b", "custom_id": "a", "response": response, "error": None}, target)
    reply = encoded(line["response"]["body"])
    judge = judge_chat_reply if target == "chat" else judge_responses_reply
    judge(reply)
    assert (line["id"], line["custom_id"], line["response"]["request_id"]) == ("b", "a", "r")
    error: JsonObject = {"error": {"message": "no", "type": "x", "param": None, "code": None}}
    failed = {"custom_id": "a", "response": {"status_code": 400, "body": error}}
    assert convert(failed, target)[0] == failed


MESSAGES = st.sampled_from([*samples.HISTORY, {**samples.RESULT, "name": "time"}])


@given(
    messages=st.lists(MESSAGES, min_size=1), model=st.booleans(), target=st.sampled_from(TARGETS)
)
def test_messages_in_any_order_become_valid(
    messages: list[JsonObject], target: Target, *, model: bool
) -> None:
    """Also calls without outputs, and outputs without calls."""
    converted = convert({"messages": messages, **({"model": "m"} if model else {})}, target)[1]
    body = encoded({"model": "m", **msgspec.json.decode(converted.body)})
    (judge_chat_request if target == "chat" else judge_responses_request)(body)


@given(
    body=st.sampled_from(SAMPLES).map(msgspec.json.encode).flatmap(with_replaced_value),
    target=st.sampled_from(TARGETS),
)
def test_no_record_ends_the_conversion(body: bytes, target: Target) -> None:
    with suppress(adapters.DragomanError):
        convert_record(body, target)


@pytest.mark.parametrize("record", [samples.REQUEST, samples.EXAMPLE, samples.HISTORY])
def test_converted_record_has_nothing_to_convert(record: object) -> None:
    once = convert(record)[1].body
    assert convert_record(once, "chat").body == once


def test_ids_depend_only_on_the_record() -> None:
    record = encoded(samples.REQUEST)
    assert convert_record(record, "chat") == convert_record(record, "chat")


def test_legacy_calls_beside_tools_are_converted() -> None:
    tools = [{"type": "function", "function": samples.FUNCTION}]
    request, _ = convert({"model": "m", "messages": samples.HISTORY, "tools": tools})
    assert_chat_history(request["messages"])
    assert request["tools"] == tools


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "the record cannot be read: Input data was truncated"),
    "no known form": (b'{"prompt":"a","completion":"b"}', "the record has no known form"),
    "a number": (b"1", "the record cannot be read: Expected `object`, got `int`"),
    "invalid UTF-8": (b'{"messages":"\xff"}', "the record cannot be read: 'utf-8' codec"),
    "no function": (b'{"name":"Ann","age":7}', "the record has no known form"),
    "a chunk": (
        b'{"object":"chat.completion.chunk","choices":[]}',
        "object is a chunk of a stream; convert whole replies",
    ),
    "a reply with an error": (
        b'{"choices":[{"index":0,"finish_reason":"abort","message":{"function_call":null}}]}',
        "choices ended with an error",
    ),
    "an output without its call": (
        b'{"messages":[{"role":"tool","tool_call_id":"a","content":"1"}]}',
        "messages[0] has the output of a call 'a' that is missing",
    ),
    "a call without its output": (
        b'{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a"}]}]}',
        "messages[0] has a call 'a' without an output",
    ),
    "an object of an unknown kind": (
        b'{"messages":{"data":[{"object":["thread"]}]}}',
        "the converted record is not valid: Expected `array`, got `object`",
    ),
    "calls with the same id": (
        b'{"messages":[{"role":"assistant","tool_calls":[{"id":"a"},{"id":"a"}]}]}',
        "messages[0] has the id 'a' of another call",
    ),
    "a call without an id": (
        b'{"messages":[{"role":"assistant","tool_calls":[{"id":""}]}]}',
        "messages[0] has a call without an id",
    ),
    "a thread with a wrong time": (
        b'{"object":"thread.message","created_at":"x"}',
        "an object of the Assistants API cannot be read: Expected `float`, got `str`",
    ),
    "both forms": (
        b'{"model":"m","messages":[],"functions":[{"name":"f"}],"tools":[{"type":"function"}]}',
        "functions: `functions` and `tools` cannot be combined",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_record_that_cannot_be_converted(case: str) -> None:
    record, message = UNREADABLE[case]
    with pytest.raises(adapters.DragomanError) as caught:
        convert_record(record, "chat")
    assert str(caught.value).startswith(message)
