"""Passthrough, streaming on one side, usage, failures, the end, rewriting within one dialect."""

from collections.abc import Mapping

import msgspec
import pytest

import adapters
from adapters.ir.types import Error, Usage
from adapters.sse import encode
from tests.exchange import Exchange, exchange_between

CHAT_REQUEST = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":%s}'
CHAT_USAGE = b'{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}'
CHAT_REPLY = b"""{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":
[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":%s}"""
CHAT_CHUNK = b"""data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,\
"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}

"""
CHAT_STREAM = (
    CHAT_CHUNK
    + b"""\
data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],\
"usage":%s}

data: [DONE]

"""
)
RESPONSES_REPLY = b"""{"id":"resp_1","object":"response","status":"completed","model":"m",
"output":[],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}"""
USAGE = Usage(3, 4, 7, missing="details")

REQUEST = b'{"model":"m","messages":[{"role":"developer","content":"be brief"}],"stream":true}'


def feed_whole(translator: adapters.ReplyTranslator, stream: bytes) -> bytes:
    return translator.feed(stream) + translator.finish(started=True).body


def sent(exchange: Exchange, body: bytes, model: str | None = None) -> Mapping[str, object]:
    return msgspec.json.decode(exchange.request(body, model=model).body, type=dict[str, object])


def test_passed_body_gets_another_model_and_keeps_the_rest() -> None:
    body = b'{"z": 1.10, "model": "a", "messages": [ {"role":"user"} ], "n": null}'
    translation = exchange_between("chat", "chat").request(body, model="b")
    assert translation.body == b'{"z":1.10,"model":"b","messages":[ {"role":"user"} ],"n":null}'
    without = sent(exchange_between("chat", "chat"), b'{"messages":[]}', "b")
    assert without == {"messages": [], "model": "b"}


@pytest.mark.parametrize("backend", ["chat", "legacy"])
def test_backend_gets_its_own_model_name(backend: str) -> None:
    exchange = exchange_between("responses", backend)
    assert sent(exchange, b'{"model":"a","input":"hi"}', "b")["model"] == "b"
    assert exchange.plan(streams=False).request.model == "a"
    assert sent(exchange_between("responses", backend), b'{"input":"hi"}', "b")["model"] == "b"


@pytest.mark.parametrize("stream", [b"true", b"false", b"null"])
@pytest.mark.parametrize(("client", "backend"), [("chat", "chat"), ("chat", "responses")])
def test_both_sides_stream_if_the_client_requests_it(
    client: str, backend: str, stream: bytes
) -> None:
    exchange = exchange_between(client, backend)
    exchange.request(CHAT_REQUEST % stream)
    assert exchange.client_streams is exchange.backend_streams is (stream == b"true")


def test_passed_request_ignores_capabilities() -> None:
    exchange = exchange_between("chat", "chat", streaming="only", think_tags=True)
    body = b'{"model":"m","messages":[]}'
    assert exchange.request(body).body == body
    assert not exchange.backend_streams


@pytest.mark.parametrize("backend", ["chat", "responses"])
def test_whole_reply_is_collected_from_a_backend_that_only_streams(backend: str) -> None:
    exchange = exchange_between("chat", backend, rewrite=True, streaming="only")
    request = sent(exchange, CHAT_REQUEST % b"null")
    assert request["stream"] is True
    assert exchange.backend_streams
    assert not exchange.client_streams
    if backend == "chat":
        assert request["stream_options"] == {"include_usage": True}
        collector = exchange.collect()
        collector.feed(CHAT_STREAM % CHAT_USAGE)
        assert collector.finish().usage == USAGE


def test_whole_reply_is_streamed_to_a_client_that_streams() -> None:
    exchange = exchange_between("chat", "chat", rewrite=True, streaming="never")
    translation = exchange.request(CHAT_REQUEST % b"true")
    assert b"stream" not in translation.body
    assert [loss.path for loss in translation.losses] == ["stream"]
    assert exchange.client_streams
    assert not exchange.backend_streams
    end = exchange.reply_as_stream(CHAT_REPLY % CHAT_USAGE)
    assert end.usage == USAGE
    assert adapters.check("chat", end.body) == []


@pytest.mark.parametrize("client", ["chat", "responses", "legacy"])
def test_whole_reply_has_its_usage(client: str) -> None:
    assert exchange_between(client, "chat").reply(CHAT_REPLY % CHAT_USAGE).usage == USAGE
    assert exchange_between(client, "responses").reply(RESPONSES_REPLY).usage == USAGE


@pytest.mark.parametrize("usage", [b"null", b"7", b'{"prompt_tokens":"many"}'])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_invalid_usage_is_ignored(client: str, usage: bytes) -> None:
    assert exchange_between(client, "chat").reply(CHAT_REPLY % usage).usage is None


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Error("no", code="rate_limit_exceeded"), 429, "rate_limit_error"),
        (Error("the prompt is too long: maximum context"), 400, "invalid_request_error"),
        (Error("no", status=503), 503, "server_error"),
        (Error("no"), 500, "server_error"),
    ],
)
def test_failure_becomes_an_http_error(error: Error, status: int, kind: str) -> None:
    end = exchange_between("responses", "chat").failure(error)
    assert (end.status, msgspec.json.decode(end.body)["error"]["type"]) == (status, kind)


def test_failure_names_the_parameter_of_the_client() -> None:
    exchange = exchange_between("responses", "chat")
    exchange.request(b'{"model":"m","input":"hi"}')
    end = exchange.failure(Error("no", param="messages[0].content"))
    assert msgspec.json.decode(end.body)["error"]["param"] == "input"


def test_request_is_rewritten_within_its_dialect() -> None:
    assert sent(exchange_between("chat", "chat", rewrite=True), REQUEST) == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}],
        "stream": True,
    }


def test_reply_to_a_rewritten_request_passes() -> None:
    exchange = exchange_between("chat", "chat", rewrite=True)
    exchange.request(REQUEST)
    stream_translator = exchange.stream()
    assert stream_translator.plan.passthrough
    stream = CHAT_STREAM % b"null"
    assert feed_whole(stream_translator, stream) == stream
    body = CHAT_REPLY % CHAT_USAGE
    assert exchange.reply(body).body == body


def test_reply_with_think_tags_is_translated() -> None:
    exchange = exchange_between("chat", "chat", rewrite=True, think_tags=True)
    assert sent(exchange, REQUEST)["stream_options"] == {"include_usage": True}
    stream = (CHAT_STREAM % CHAT_USAGE).replace(b"Hi.", b"<think>hm</think>Hi.")
    end = feed_whole(exchange.stream(), stream)
    assert b"think" not in end
    assert b'"content":"Hi."' in end
    # The client did not request the usage.
    assert b"prompt_tokens" not in end
    reply = exchange.reply((CHAT_REPLY % CHAT_USAGE).replace(b"Hi.", b"<think>hm</think>Hi."))
    assert b'"content":"Hi."' in reply.body


def test_calls_of_tools_that_are_not_allowed_are_removed() -> None:
    body = b"""{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":
    [{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}],
    "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":
    [{"type":"function","function":{"name":"a"}}]}}}"""
    reply = (CHAT_REPLY % b"{}").replace(
        b'"content":"Hi."',
        b'"tool_calls":[{"id":"1","type":"function","function":{"name":"b","arguments":"{}"}}]',
    )
    for accepts in (True, False):
        exchange = exchange_between("chat", "chat", rewrite=True, allowed_tools=accepts)
        exchange.request(body)
        assert exchange.reply(reply).status == 502


def test_missing_store_keeps_its_default() -> None:
    exchange = exchange_between("responses", "responses", rewrite=True)
    assert sent(exchange, b'{"model":"m","input":"hi"}')["store"] is True
    assert sent(exchange, b'{"model":"m","input":"hi","store":false}')["store"] is False
    assert "store" not in sent(exchange_between("responses", "chat"), b'{"model":"m","input":"hi"}')


@pytest.mark.parametrize(
    "state",
    [
        b'"input":[%s],"previous_response_id":"resp_1"',
        b'"input":[%s],"conversation":"conv_1"',
        b'"input":[{"type":"item_reference","id":"fc_1"},%s]',
    ],
)
def test_output_may_belong_to_a_call_that_the_backend_has_stored(state: bytes) -> None:
    output = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
    body = b'{"model":"m",%s}' % (state % msgspec.json.encode(output))
    translation = exchange_between("responses", "responses", rewrite=True).request(body)
    assert msgspec.json.decode(translation.body)["input"] == msgspec.json.decode(body)["input"]
    assert translation.losses == ()


def test_within_one_dialect_the_backend_decides_what_is_missing() -> None:
    exchange = exchange_between("responses", "responses", rewrite=True)
    assert sent(exchange, b'{"prompt":{"id":"pmpt_1"}}')["prompt"] == {"id": "pmpt_1"}


def test_training_example_may_end_with_the_assistant() -> None:
    body = b'{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
    exchange = exchange_between("chat", "chat", rewrite=True, alternating_roles=True)
    read = adapters.read_client_request(adapters.parse_body(body), exchange.options)
    assert b'"b"' in adapters.write_backend_request(read, ends_open=True).body
    assert b'"b"' not in exchange.request(body).body


@pytest.mark.parametrize("client", ["responses", "chat"])
def test_whole_reply_that_cannot_be_stored_ends_as_a_legal_failed_stream(client: str) -> None:
    exchange = Exchange(client, "chat", rewrite=True)
    translator = adapters.ReplyTranslator(exchange.plan(streams=True))
    translator.feed(CHAT_REPLY % b"null")
    end = translator.finish()
    assert end.streamed
    failed = translator.fail_to_store(end, Error("the store is down", status=503))
    assert b"Hi." in failed.body
    assert b"the store is down" in failed.body
    assert adapters.check(client, failed.body) == []


def test_stored_reply_has_each_text_once_if_the_stream_lacks_its_last_empty_line() -> None:
    exchange = Exchange("chat", "chat", rewrite=True, keep_reply=True)
    translator = adapters.ReplyTranslator(exchange.plan(streams=True), streamed=True)
    assert translator.feed(CHAT_CHUNK.rstrip(b"\n")) == b""
    end = translator.finish(started=True)
    assert end.client_reply is not None
    assert encode(end.client_reply).count(b"Hi.") == 1
    assert end.body.count(b"Hi.") == 1


def test_indented_request_is_repeated_on_one_line() -> None:
    body = b'{\n"model": "m", "input": "hi", "stream": true,\n"metadata": {\n"a": "b"\n}\n}'
    request = adapters.translate_request(body, client="responses", backend="chat")
    translator = adapters.ReplyTranslator(request.reply_plan, streamed=True)
    assert adapters.check("responses", feed_whole(translator, CHAT_CHUNK)) == []


@pytest.mark.parametrize("repair", [True, False])
def test_events_after_the_end_pass_whole_only_without_repair(*, repair: bool) -> None:
    stream = CHAT_CHUNK + b"data: [DONE]\n\n" + CHAT_CHUNK
    for cut in range(len(stream)):
        translator = Exchange("chat", "chat", repair=repair).stream()
        passed = translator.feed(stream[:cut])
        if not translator.ended:
            continue
        passed += translator.finish(started=True).body + translator.feed(stream[cut:])
        assert passed == (stream.removesuffix(CHAT_CHUNK) if repair else stream)


def test_arguments_of_a_search_that_are_not_json_are_reported() -> None:
    call = b"""{"type":"tool_search_call","call_id":"c","execution":"client","arguments":"stock"}"""
    output = b"""{"type":"tool_search_output","call_id":"c","execution":"client","tools":[]}"""
    exchange = exchange_between("responses", "responses", rewrite=True)
    request = exchange.request(b"""{"model":"m","input":[%b,%b]}""" % (call, output))
    assert b'"arguments":{}' in request.body
    assert [str(loss) for loss in request.losses] == [
        "changed input[0]: the arguments are not JSON; sent as an empty object"
    ]
