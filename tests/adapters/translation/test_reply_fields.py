"""Fields of replies that are kept, or reported, in every form in which a reply is sent."""

import json

import pytest

import adapters
from tests.exchange import Exchange
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.sample_streams import DONE, call_chunk, chunk, responses_stream
from tests.judges.samples import response

ANNOTATION = {"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}
CALL = {"name": "f", "arguments": "{}"}


def encode(value: JsonObject) -> bytes:
    return json.dumps(value).encode()


def chat_stream(*chunks: JsonObject) -> bytes:
    return b"".join(b"data: %b\n\n" % encode(one) for one in chunks) + DONE


def losses_of(end: adapters.ReplyEnd) -> list[str]:
    return [str(loss) for loss in end.losses if loss.severity != "adapted"]


RESPONSE: JsonObject = response("completed") | {
    "moderation": {"input": None},
    "tool_usage": {"web_search": {"num_requests": 1}},
}
TRUNCATED: JsonObject = RESPONSE | {
    "status": "incomplete",
    "incomplete_details": {"reason": "max_messages"},
}


@pytest.mark.parametrize("client", ["chat", "legacy"])
def test_fields_of_a_whole_reply_are_reported_if_it_is_sent_as_a_stream(client: str) -> None:
    whole = Exchange(client, "responses").reply(encode(RESPONSE))
    stream = Exchange(client, "responses").reply_as_stream(encode(RESPONSE))
    dropped = [loss.path for loss in stream.losses if loss.action == "dropped"]
    assert dropped == ["moderation", "tool_usage"]
    assert set(whole.losses) <= {*stream.losses}


def test_response_keeps_its_fields_if_its_stream_is_collected() -> None:
    stream = responses_stream([{"type": "response.incomplete", "response": TRUNCATED}])
    collector = Exchange("responses", "responses").collect()
    collector.feed(stream)
    end = collector.finish()
    written = read_object(end.body)
    for name in ("status", "incomplete_details", "moderation", "tool_usage"):
        assert written[name] == TRUNCATED[name]
    assert losses_of(end) == []


def test_response_keeps_its_fields_if_it_is_sent_as_a_stream() -> None:
    exchange = Exchange("responses", "responses", repair=False)
    end = exchange.reply_as_stream(encode(TRUNCATED))
    last = end.body.split(b"\n\n")[-3].partition(b"data: ")[2]
    written = object_in(read_object(last), "response")
    for name in ("status", "incomplete_details", "moderation", "tool_usage"):
        assert written[name] == TRUNCATED[name]


def test_usage_of_a_repaired_response_is_not_invented() -> None:
    item: JsonObject = {"type": "message", "role": "assistant", "content": []}
    body: JsonObject = {"id": "resp_1", "object": "response", "status": "completed"}
    end = Exchange("responses", "responses").reply(encode({**body, "output": [item]}))
    assert "usage" not in read_object(end.body)
    assert not [loss for loss in end.losses if loss.path == "usage"]


def test_annotations_without_text_are_reported() -> None:
    stream = chat_stream(
        chunk({"role": "assistant", "annotations": [ANNOTATION]}),
        call_chunk(0, id="call_1", type="function", function=CALL),
        chunk({}, "tool_calls"),
    )
    collector = Exchange("chat", "chat").collect()
    collector.feed(stream)
    assert losses_of(collector.finish()) == [
        "dropped choices[0].message.annotations: the message has no text"
    ]


def test_log_probabilities_of_a_list_of_parts_are_received_once() -> None:
    logprob: JsonObject = {"token": "a", "logprob": -1, "bytes": None}
    first = chunk({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})
    [choice] = objects_in(first, "choices")
    choice["logprobs"] = {"content": [logprob], "refusal": None}
    collector = Exchange("chat", "chat").collect()
    collector.feed(chat_stream(first, chunk({}, "stop")))
    assert collector.finish().body.count(b'"token"') == 1


@pytest.mark.parametrize("client", ["chat", "legacy"])
def test_finish_reason_that_contradicts_the_reply_is_reported(client: str) -> None:
    stream = chat_stream(
        call_chunk(0, id="call_1", type="function", function=CALL), chunk({}, "stop")
    )
    collector = Exchange(client, "chat").collect()
    collector.feed(stream)
    reason = "changed choices[0].finish_reason: 'stop' contradicts the reply"
    assert losses_of(collector.finish()) == [reason]


@pytest.mark.parametrize(
    ("usage", "severity"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, "adapted"),
        ({"prompt_tokens": 1}, "hint"),
    ],
)
@pytest.mark.parametrize("client", ["chat", "responses", "legacy"])
def test_counts_that_are_not_reported_are_invented(
    client: str, usage: JsonObject, severity: str
) -> None:
    message = {"role": "assistant", "content": "Hi."}
    body: JsonObject = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
    backend = "legacy" if client == "chat" else "chat"
    losses = Exchange(client, backend).reply(encode(body)).losses
    assert [(loss.action, loss.path, loss.severity) for loss in losses] == [
        ("invented", "usage", severity)
    ]


@pytest.mark.parametrize(("field", "passes"), [("identity: 1", True), ("id: 1", False)])
def test_only_ids_of_events_are_removed(field: str, *, passes: bool) -> None:
    event = chat_stream(chunk({"role": "assistant", "content": "Hi"})).split(b"\n\n")[0]
    stream = Exchange("chat", "chat").stream()
    sent = stream.feed(event + b"\n" + field.encode() + b"\n\n")
    assert (field.encode() in sent) == passes
    ids = [loss for loss in stream.finish().losses if loss.reason == "ids of events are removed"]
    assert (not ids) == passes
