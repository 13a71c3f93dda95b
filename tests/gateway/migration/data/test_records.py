"""The conversion of single records."""

from typing import Any

import msgspec
import pytest

import adapters
from gateway.migration.data.records import ConvertedRecord, Target, convert_record
from tests.gateway.migration.data import samples
from tests.judges.reading import JsonObject, objects_in
from tests.judges.samples import encoded
from tests.judges.sdk import judge_chat_request, judge_responses_request


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
    assert conversation["metadata"] == {"topic": "tea"}
    assert_items(conversation["items"])
    paths = {loss.path for loss in converted.losses}
    assert paths == {
        *(f"runs[0].{name}" for name in ("model", "instructions", "tools")),
        "steps[0].step_details.tool_calls[1]",
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
