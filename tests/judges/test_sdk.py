"""The judges take legal samples, and refuse the same samples once they are spoiled."""

from collections.abc import Callable

import pytest

from tests.judges import samples, sdk
from tests.judges.open_responses import EVERYTHING, assert_stream
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.sample_streams import (
    call_chunk,
    changed_event,
    chat_chunks,
    chat_stream,
    chunk,
    responses_events,
    responses_stream,
)
from tests.judges.samples import (
    CHAT_REQUEST,
    ERROR,
    GONE,
    call,
    changed,
    encoded,
    message,
    response,
)

refused = pytest.raises


@pytest.mark.parametrize("body", [b"", b"[]", b'{"a":1,"a":2}', b'{"a":NaN}', b"{'a':1}"])
def test_reading_refuses_what_is_no_plain_object(body: bytes) -> None:
    with refused(AssertionError):
        read_object(body)


def test_sdk_takes_legal_requests() -> None:
    sdk.judge_chat_request(encoded(CHAT_REQUEST))
    sdk.judge_responses_request(encoded(samples.RESPONSES_REQUEST))
    sdk.judge_responses_request(b'{"model":"m","input":"hi","stream":true}')


def test_sdk_takes_legal_replies() -> None:
    assert sdk.judge_chat_reply(encoded(samples.CHAT_REPLY)).choices[0].message.content == "Hi"
    assert sdk.judge_responses_reply(encoded(RESPONSE)).output_text == "Hello"
    sdk.judge_error(encoded({"error": ERROR}))


RESPONSE = response("completed", [message(), call()])
JUDGES: dict[str, tuple[Callable[[bytes], object], JsonObject]] = {
    "chat request": (sdk.judge_chat_request, CHAT_REQUEST),
    "responses request": (sdk.judge_responses_request, samples.RESPONSES_REQUEST),
    "chat reply": (sdk.judge_chat_reply, samples.CHAT_REPLY),
    "responses reply": (sdk.judge_responses_reply, RESPONSE),
    "error": (sdk.judge_error, {"error": ERROR}),
}
SPOILED: dict[str, list[tuple[str, object, str]]] = {
    "chat request": [
        ("model", GONE, "model: Field required"),
        ("instructions", "x", "instructions: Extra inputs"),
        ("temperature", "1", "temperature: Input should be a valid number"),
        ("messages.0.role", "wizard", "messages.0: no such role: 'wizard'"),
        ("messages.1.content.0.type", "input_text", "content.0: no such type: 'input_text'"),
        ("messages.2.tool_calls.0.function.arguments", {}, "function.arguments"),
        ("messages.3.tool_call_id", GONE, "tool_call_id: Field required"),
        ("messages.3.reasoning_content", "x", "reasoning_content: Extra inputs"),
        ("tools.0.strict", True, "ChatCompletionFunctionToolParam.strict: Extra inputs"),
        ("tools.0", {"type": "function", "name": "f"}, "function: Field required"),
        ("tool_choice", {"type": "function", "name": "f"}, "function: Field required"),
    ],
    "responses request": [
        ("messages", [], "messages: Extra inputs"),
        ("input.0.content", [{"type": "text", "text": "x"}], "content.0: no such type: 'text'"),
        ("input.2.content.0.type", "input_text", "ResponseOutputMessageParam"),
        ("input.3.call_id", GONE, "call_id: Field required"),
        ("input.3.type", "tool_call", "input.3: no such type: 'tool_call'"),
        ("input.4.role", "tool", "role: Extra inputs"),
        ("tools.0.strict", GONE, "strict: Field required"),
        ("tools.0", {"type": "function", "function": {"name": "f"}}, "name: Field required"),
        ("tool_choice", "any", "tool_choice"),
    ],
    "chat reply": [
        ("object", "chat.completion.chunk", "object: "),
        ("created", "1", "created: "),
        ("choices.0.finish_reason", None, "finish_reason: "),
        ("choices.0.message.role", "user", "no such role"),
        ("usage.total_tokens", GONE, "total_tokens: "),
    ],
    "responses reply": [
        ("output.0.type", "assistant", "output.0: no such type"),
        ("output.0.content.0.annotations", GONE, "annotations: "),
        ("output.1.call_id", GONE, "call_id: "),
        ("usage.input_tokens_details.cache_write_tokens", GONE, "cache_write_tokens: "),
        ("incomplete_details", {"reason": "length"}, "incomplete_details.reason: "),
        ("parallel_tool_calls", None, "parallel_tool_calls: "),
        ("error", {"code": "oops", "message": "no"}, "error.code: "),
    ],
    "error": [
        ("error.message", GONE, "message"),
        ("error.type", GONE, "type"),
        ("error.param", GONE, "param"),
        ("error.code", GONE, "code"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "path", "value", "says"),
    [(kind, *spoiled) for kind, several in SPOILED.items() for spoiled in several],
)
def test_sdk_refuses_a_spoiled_body(kind: str, path: str, value: object, says: str) -> None:
    judge, sample = JUDGES[kind]
    with refused(AssertionError, match=says):
        judge(encoded(changed(sample, path, value)))


def test_sdk_overlooks_only_the_fields_it_is_told_to() -> None:
    body = encoded(changed(CHAT_REQUEST, "messages.2.reasoning_content", "hm"))
    sdk.judge_chat_request(body, beyond={"reasoning_content"})
    with refused(AssertionError):
        sdk.judge_chat_request(body, beyond={"reasoning"})


@pytest.mark.parametrize("code", sorted(sdk.CODES_BEYOND_SDK))
def test_sdk_takes_error_codes_that_its_types_lack(code: str) -> None:
    reply = sdk.judge_responses_reply(encoded(changed(response("failed"), "error.code", code)))
    assert reply.error is not None
    assert reply.error.code == code


def test_sdk_rebuilds_a_chat_stream() -> None:
    completion = sdk.judge_chat_stream(chat_stream(chat_chunks()))
    assert completion is not None
    choice = completion.choices[0]
    assert choice.message.content == "Let me see."
    assert choice.finish_reason == "tool_calls"
    tool_call = (choice.message.tool_calls or [])[0]
    assert tool_call.type == "function"
    assert tool_call.function.arguments == '{"city":"Oslo"}'


def test_sdk_rebuilds_a_truncated_chat_stream() -> None:
    completion = sdk.judge_chat_stream(chat_stream([*chat_chunks()[:2], chunk({}, "length")]))
    assert completion is not None
    assert completion.choices[0].finish_reason == "length"


def test_sdk_does_not_rebuild_custom_calls_and_errors() -> None:
    first = call_chunk(0, id="call_1", type="custom", custom={"name": "note", "input": ""})
    custom = [first, call_chunk(0, custom={"input": "a"}), chunk({}, "tool_calls")]
    assert sdk.judge_chat_stream(chat_stream(custom)) is None
    failed: list[JsonObject] = [*chat_chunks()[:2], {"error": ERROR}]
    assert sdk.judge_chat_stream(chat_stream(failed)) is None
    assert sdk.judge_chat_stream(chat_stream(failed, end=b"")) is None


TOOL_CALL = chat_chunks()[3]


@pytest.mark.parametrize(
    ("chunks", "says"),
    [
        ([], "empty"),
        ([changed(chat_chunks()[0], "object", "chat.completion")], "not a ChatCompletionChunk"),
        ([*chat_chunks()[:2]], "finish_reason"),
        ([chat_chunks()[0], *chat_chunks()], "role"),
        ([chunk({"role": "assistant"}), TOOL_CALL, TOOL_CALL, chunk({}, "tool_calls")], "became"),
        ([chunk({}), call_chunk(1, id="a", type="function", function={})], "helper fails"),
        ([chunk({}), changed(chunk({}, "stop"), "id", "chatcmpl-2")], "id is not the same"),
        ([{"error": ERROR}, chunk({}, "stop")], "after an error"),
        ([{"error": changed(ERROR, "message", GONE)}], "message"),
        ([call_chunk(0, id="a", type="custom", custom={"input": ""})], "no name"),
        ([call_chunk(0, id="a", type="custom", custom={"name": "n", "text": ""})], "custom"),
    ],
)
def test_sdk_refuses_a_spoiled_chat_stream(chunks: list[JsonObject], says: str) -> None:
    with refused(AssertionError, match=says):
        sdk.judge_chat_stream(chat_stream(chunks))


@pytest.mark.parametrize("end", [b"", b"data: [DONE]", b"data: [DONE]\n"])
def test_sdk_refuses_a_chat_stream_that_is_not_ended(end: bytes) -> None:
    with refused(AssertionError):
        sdk.judge_chat_stream(chat_stream(chat_chunks(), end=end))


def test_sdk_refuses_event_lines_in_a_chat_stream() -> None:
    with refused(AssertionError):
        sdk.judge_chat_stream(b"event: chunk\n" + chat_stream(chat_chunks()))


STREAMS = {
    "items": responses_events([samples.reasoning(), message(), call(), samples.custom_call()]),
    "refusal": responses_events([message(kind="refusal")]),
    "incomplete": responses_events([call(), message("incomplete")], "incomplete"),
    "failed": responses_events([message()], "failed", error=True),
    "failed at once": responses_events([], "failed", error=True),
}


@pytest.mark.parametrize("events", STREAMS.values(), ids=STREAMS.keys())
def test_both_judges_take_legal_streams(events: list[JsonObject]) -> None:
    data = responses_stream(events)
    final = sdk.judge_responses_stream(data)
    output = objects_in(object_in(events[-1], "response"), "output")
    assert [item.id for item in final.output] == [item["id"] for item in output]
    assert_stream(data, allow=EVERYTHING)


def test_sdk_takes_a_responses_stream_without_done() -> None:
    sdk.judge_responses_stream(responses_stream(STREAMS["items"], end=b""))


@pytest.mark.parametrize(
    ("number", "path", "value", "says"),
    [
        (0, "type", "response.started", "knows no event"),
        (0, "response.model", GONE, "not a ResponseCreatedEvent"),
        (2, "item.id", "msg_9", "identity changed"),
        (4, "logprobs", GONE, "not a ResponseTextDeltaEvent"),
        (4, "delta", "J", "deltas say"),
        (4, "output_index", 7, "helper fails"),
        (-1, "response.id", "resp_9", "identity changed"),
        (-1, "response.output", [], "missing at the end"),
        (-1, "response.usage.input_tokens_details.cache_write_tokens", GONE, "cache_write"),
    ],
)
def test_sdk_refuses_a_spoiled_responses_stream(
    number: int, path: str, value: object, says: str
) -> None:
    events = changed_event(responses_events([message()]), number, path, value)
    with refused(AssertionError, match=says):
        sdk.judge_responses_stream(responses_stream(events))


def test_sdk_refuses_a_responses_stream_without_one_end() -> None:
    events = responses_events([message()])
    with refused(AssertionError, match="no terminal"):
        sdk.judge_responses_stream(responses_stream(events[:-1]))
    with refused(AssertionError, match="after the terminal"):
        sdk.judge_responses_stream(responses_stream([*events, events[-1]]))
