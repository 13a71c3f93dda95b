"""What a gateway asks of an exchange besides translations."""

from collections.abc import Mapping

import msgspec
import pytest

import adapters
from adapters.ir.types import Error, Usage
from tests.exchange import Exchange

CHAT_USAGE = b'{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}'
CHAT_REPLY = b"""{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":
[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":%s}"""
CHAT_STREAM = b"""data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,\
"model":"m","choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":"stop"}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],\
"usage":%s}

data: [DONE]

"""
RESPONSES_REPLY = b"""{"id":"resp_1","object":"response","status":"completed","model":"m",
"output":[],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}"""
USAGE = Usage(3, 4, 7)


def begin(client: str, backend: str, *, rewrite: bool = False, **capabilities: object) -> Exchange:
    able = msgspec.convert(capabilities, adapters.Capabilities)
    ids = adapters.deterministic_ids()
    return Exchange(client, backend, ids=ids, capabilities=able, rewrite=rewrite)


def sent(exchange: Exchange, body: bytes, model: str | None = None) -> Mapping[str, object]:
    return msgspec.json.decode(exchange.request(body, model=model).body, type=dict[str, object])


# The model


def test_a_body_that_passes_gets_another_model_and_keeps_the_rest() -> None:
    body = b'{"z": 1.10, "model": "a", "messages": [ {"role":"user"} ], "n": null}'
    translation = begin("chat", "chat").request(body, model="b")
    assert translation.body == b'{"z":1.10,"model":"b","messages":[ {"role":"user"} ],"n":null}'


def test_a_body_that_passes_without_a_model_gets_one() -> None:
    assert sent(begin("chat", "chat"), b'{"messages":[]}', "b") == {"messages": [], "model": "b"}


@pytest.mark.parametrize("backend", ["chat", "legacy"])
def test_a_backend_knows_a_model_by_another_name(backend: str) -> None:
    exchange = begin("responses", backend)
    assert sent(exchange, b'{"model":"a","input":"hi"}', "b")["model"] == "b"
    assert exchange.plan(streams=False).request.model == "a"
    assert sent(begin("responses", backend), b'{"input":"hi"}', "b")["model"] == "b"


# Streams asked and given


@pytest.mark.parametrize("stream", [b"true", b"false", b"null"])
@pytest.mark.parametrize(("client", "backend"), [("chat", "chat"), ("chat", "responses")])
def test_an_exchange_knows_whether_streams_are_wanted(
    client: str, backend: str, stream: bytes
) -> None:
    exchange = begin(client, backend)
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":%s}'
    exchange.request(body % stream)
    assert exchange.client_streams is exchange.backend_streams is (stream == b"true")


def test_what_passes_is_not_held_to_capabilities() -> None:
    exchange = begin("chat", "chat", streaming="only", think_tags=True)
    body = b'{"model":"m","messages":[]}'
    assert exchange.request(body).body == body
    assert not exchange.backend_streams


@pytest.mark.parametrize("backend", ["chat", "responses"])
def test_a_whole_answer_is_gathered_from_a_backend_that_only_streams(backend: str) -> None:
    exchange = begin("chat", backend, rewrite=True, streaming="only")
    request = sent(exchange, b'{"model":"m","messages":[{"role":"user","content":"hi"}]}')
    assert request["stream"] is True
    assert exchange.backend_streams
    assert not exchange.client_streams


def test_the_usage_of_a_gathered_answer_is_known() -> None:
    exchange = begin("chat", "chat", rewrite=True, streaming="only")
    request = sent(exchange, b'{"model":"m","messages":[{"role":"user","content":"hi"}]}')
    assert request["stream_options"] == {"include_usage": True}
    collector = exchange.collect()
    collector.feed(CHAT_STREAM % CHAT_USAGE)
    assert collector.finish().usage == USAGE


def test_a_stream_is_told_of_a_backend_that_never_streams() -> None:
    exchange = begin("chat", "chat", rewrite=True, streaming="never")
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}'
    translation = exchange.request(body)
    assert b"stream" not in translation.body
    assert [loss.path for loss in translation.losses] == ["stream"]
    assert exchange.client_streams
    assert not exchange.backend_streams
    told = exchange.reply_as_stream(CHAT_REPLY % CHAT_USAGE)
    assert told.usage == USAGE
    assert adapters.check("chat", told.body) == []


# What it cost


@pytest.mark.parametrize("client", ["chat", "responses", "legacy"])
def test_a_reply_says_what_it_cost(client: str) -> None:
    assert begin(client, "chat").reply(CHAT_REPLY % CHAT_USAGE).usage == USAGE
    assert begin(client, "responses").reply(RESPONSES_REPLY).usage == USAGE


@pytest.mark.parametrize("usage", [b"null", b"7", b'{"prompt_tokens":"many"}'])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_a_cost_that_cannot_be_read_is_not_known(client: str, usage: bytes) -> None:
    assert begin(client, "chat").reply(CHAT_REPLY % usage).usage is None


# Failures


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Error("no", code="rate_limit_exceeded"), 429, "rate_limit_error"),
        (Error("the prompt is too long: maximum context"), 400, "invalid_request_error"),
        (Error("no", status=503), 503, "server_error"),
        (Error("no"), 500, "server_error"),
    ],
)
def test_a_failure_becomes_an_error_over_http(error: Error, status: int, kind: str) -> None:
    told = begin("responses", "chat").failure(error)
    inside = msgspec.json.decode(told.body)["error"]
    assert (told.status, inside["type"]) == (status, kind)


def test_a_failure_names_the_parameter_that_the_client_knows() -> None:
    exchange = begin("responses", "chat")
    exchange.request(b'{"model":"m","input":"hi"}')
    told = exchange.failure(Error("no", param="messages[0].content"))
    assert msgspec.json.decode(told.body)["error"]["param"] == "input"


# Within one dialect, for a backend of which something is known


REQUEST = b'{"model":"m","messages":[{"role":"developer","content":"be brief"}],"stream":true}'


def test_a_request_is_rewritten_within_its_dialect() -> None:
    assert sent(begin("chat", "chat", rewrite=True), REQUEST) == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}],
        "stream": True,
    }


def test_an_answer_passes_though_its_request_was_rewritten() -> None:
    exchange = begin("chat", "chat", rewrite=True)
    exchange.request(REQUEST)
    machine = exchange.stream()
    assert machine.plan.passthrough
    stream = CHAT_STREAM % b"{}"
    assert machine.feed(stream) + machine.finish(started=True).body == stream
    body = CHAT_REPLY % CHAT_USAGE
    assert exchange.reply(body).body == body


def test_an_answer_that_thinks_aloud_is_read() -> None:
    exchange = begin("chat", "chat", rewrite=True, think_tags=True)
    request = sent(exchange, REQUEST)
    assert request["stream_options"] == {"include_usage": True}
    machine = exchange.stream()
    stream = (CHAT_STREAM % CHAT_USAGE).replace(b"Hi.", b"<think>hm</think>Hi.")
    told = machine.feed(stream) + machine.finish(started=True).body
    assert b"think" not in told
    assert b'"content":"Hi."' in told
    # Nobody asked for the usage.
    assert b"prompt_tokens" not in told
    reply = exchange.reply((CHAT_REPLY % CHAT_USAGE).replace(b"Hi.", b"<think>hm</think>Hi."))
    assert b'"content":"Hi."' in reply.body


def test_an_answer_is_held_to_the_tools_that_only_we_know_are_allowed() -> None:
    body = b"""{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":
    [{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}],
    "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":
    [{"type":"function","function":{"name":"a"}}]}}}"""
    reply = (CHAT_REPLY % b"{}").replace(
        b'"content":"Hi."',
        b'"tool_calls":[{"id":"1","type":"function","function":{"name":"b","arguments":"{}"}}]',
    )
    knows = begin("chat", "chat", rewrite=True, allowed_tools=True)
    knows.request(body)
    assert knows.reply(reply).body == reply
    lacks = begin("chat", "chat", rewrite=True, allowed_tools=False)
    lacks.request(body)
    assert lacks.reply(reply).status == 502


def test_silence_about_store_keeps_its_meaning() -> None:
    exchange = begin("responses", "responses", rewrite=True)
    assert sent(exchange, b'{"model":"m","input":"hi"}')["store"] is True
    assert sent(exchange, b'{"model":"m","input":"hi","store":false}')["store"] is False
    assert "store" not in sent(begin("responses", "chat"), b'{"model":"m","input":"hi"}')


@pytest.mark.parametrize("memory", [b'"previous_response_id":"resp_1"', b'"conversation":"conv_1"'])
def test_an_output_may_answer_a_call_that_its_server_remembers(memory: bytes) -> None:
    output = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
    body = b'{"model":"m","input":[%s],%s}' % (msgspec.json.encode(output), memory)
    translation = begin("responses", "responses", rewrite=True).request(body)
    assert msgspec.json.decode(translation.body)["input"] == [output]
    assert translation.losses == ()


def test_an_output_may_answer_a_call_that_is_referred_to() -> None:
    items = [
        {"type": "item_reference", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "42"},
    ]
    body = msgspec.json.encode({"model": "m", "input": items})
    assert sent(begin("responses", "responses", rewrite=True), body)["input"] == items


def test_within_one_dialect_its_server_decides_what_is_missing() -> None:
    exchange = begin("responses", "responses", rewrite=True)
    body = b'{"prompt":{"id":"pmpt_1"}}'
    assert sent(exchange, body)["prompt"] == {"id": "pmpt_1"}


def test_an_example_for_training_may_end_with_an_assistant() -> None:
    body = b'{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
    exchange = begin("chat", "chat", rewrite=True, alternating_roles=True)
    assert b'"b"' in exchange.request(body, ends_open=True).body
    assert b'"b"' not in exchange.request(body).body
