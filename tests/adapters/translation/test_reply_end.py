"""The end of a reply that is saved before the client sees it."""

import pytest

import adapters
from adapters.ir.types import Error
from adapters.sse import encode
from tests.exchange import Exchange

REPLY = b"""{"id": "chatcmpl-1", "created": 1, "model": "m", "choices": [{"index": 0,
    "message": {"role": "assistant", "content": "A river."}, "finish_reason": "stop"}]}"""
CHUNK = (
    b'data: {"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0,'
    b' "delta": {"content": "A river."}, "finish_reason": "stop"}]}\n\n'
)


@pytest.mark.parametrize("client", ["responses", "chat"])
def test_whole_reply_that_cannot_be_stored_ends_as_a_legal_failed_stream(client: str) -> None:
    exchange = Exchange(client, "chat", rewrite=True)
    translator = adapters.ReplyTranslator(exchange.plan(streams=True))
    translator.feed(REPLY)
    end = translator.finish()
    assert end.streamed
    failed = translator.fail_to_store(end, Error("the store is down", status=503))
    assert b"A river." in failed.body
    assert b"the store is down" in failed.body
    assert adapters.check(client, failed.body) == []


def test_stored_reply_has_each_text_once_if_the_stream_lacks_its_last_empty_line() -> None:
    exchange = Exchange("chat", "chat", rewrite=True, keep_reply=True)
    translator = adapters.ReplyTranslator(exchange.plan(streams=True), streamed=True)
    assert translator.feed(CHUNK.rstrip(b"\n")) == b""
    end = translator.finish(started=True)
    assert end.client_reply is not None
    assert encode(end.client_reply).count(b"A river.") == 1
    assert end.body.count(b"A river.") == 1


def test_indented_request_is_repeated_on_one_line() -> None:
    body = b"""{
        "model": "m", "input": "hi", "stream": true,
        "metadata": {
            "a": "b"
        }
    }"""
    request = adapters.translate_request(body, client="responses", backend="chat")
    translator = adapters.ReplyTranslator(request.reply_plan, streamed=True)
    stream = translator.feed(CHUNK) + translator.finish(started=True).body
    assert adapters.check("responses", stream) == []


def test_events_after_the_end_pass_whole_wherever_the_reads_are_cut() -> None:
    stream = CHUNK + b"data: [DONE]\n\n" + CHUNK
    for cut in range(len(stream)):
        translator = Exchange("chat", "chat").stream()
        passed = translator.feed(stream[:cut])
        if not translator.ended:
            continue
        passed += translator.finish(started=True).body + translator.feed(stream[cut:])
        assert passed == stream
