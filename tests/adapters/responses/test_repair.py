"""Responses streams for Responses clients: faults, resumed streams, and what passes."""

import json

import pytest

import adapters
from adapters.sse import Decoder, parse_event
from tests.clients.quirks import RESPONSES, apply_quirk, quirk_names
from tests.corpus import STREAMS
from tests.exchange import Exchange
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.judges import sdk
from tests.judges.reading import JsonObject, objects_in, read_object
from tests.judges.sample_streams import DONE, responses_stream
from tests.judges.samples import encoded

CALLS = (Call("get_weather", '{"city": "Zürich"}'), Call("get_time", '{"city": "東京"}'))
EVENTS = [
    event.partition(b"data: ")[2]
    for event in stream_events(RESPONSES, Turn(calls=CALLS))
    if event != DONE
]
CANONICAL = (
    "responses-text",
    "responses-two-text-parts-in-one-message",
    "responses-refusal-then-text",
    "responses-reasoning-summary",
    "responses-reasoning-text",
    "responses-url-citations",
    "responses-function-and-custom-calls",
    "responses-parallel-calls",
    "responses-web-search-then-text",
    "responses-mcp-list-and-call",
    "responses-code-interpreter-and-image",
    "responses-client-run-tool-search-and-shell",
    "responses-unknown-event-types",
    "responses-obfuscated-deltas",
)


def repaired(stream: bytes) -> tuple[bytes, list[adapters.Loss]]:
    translator = Exchange("responses", "responses").stream()
    output = translator.feed(stream) + translator.finish(started=True).body
    return output, [*translator.losses]


def calls_in(output: list[JsonObject]) -> list[tuple[object, object]]:
    return [(item["name"], json.loads(str(item["arguments"]))) for item in output]


EXPECTED = [(call.name, json.loads(call.arguments)) for call in CALLS]


@pytest.mark.parametrize("quirk", quirk_names(RESPONSES, streamed=True))
def test_stream_with_a_fault_is_repaired(quirk: str) -> None:
    payloads = apply_quirk(quirk, EVENTS, RESPONSES)
    stream = b"".join(responses_stream([payload], end=b"") for payload in payloads)
    output, losses = repaired(stream)
    assert adapters.check("responses", output) == []
    final = sdk.judge_responses_stream(output)
    items = objects_in(final.to_dict(warnings=False), "output")
    assert calls_in(items) == EXPECTED
    assert len({item["id"] for item in items} | {item["call_id"] for item in items}) >= len(items)
    assert (output == stream) == (losses == [])


@pytest.mark.parametrize("quirk", quirk_names(RESPONSES, streamed=False))
def test_reply_with_a_fault_is_repaired(quirk: str) -> None:
    (reply,) = apply_quirk(quirk, [reply_body(RESPONSES, Turn(calls=CALLS))], RESPONSES)
    end = Exchange("responses", "responses").reply(encoded(reply))
    sdk.judge_responses_reply(end.body)
    items = objects_in(read_object(end.body), "output")
    assert calls_in(items) == EXPECTED
    assert len({item["call_id"] for item in items}) == len(items)
    assert (end.body == encoded(reply)) == (end.losses == ())


def blocks_of(name: str) -> list[bytes]:
    (case,) = [one for one in STREAMS if one.name == name]
    return Decoder().feed_raw(case.body)


def with_other_number(block: bytes) -> bytes:
    event = parse_event(block)
    assert event is not None
    payload = read_object(event.data) | {"sequence_number": 99}
    return b"event: %b\ndata: %b" % (event.name, encoded(payload))


@pytest.mark.parametrize("name", CANONICAL)
def test_stream_is_repaired_from_any_event_on(name: str) -> None:
    blocks = blocks_of(name)
    types = [event.name for block in blocks if (event := parse_event(block))]
    for number in range(1, len(types)):
        changed = [*blocks[:number], with_other_number(blocks[number]), *blocks[number + 1 :]]
        output, losses = repaired(b"".join(block + b"\n\n" for block in changed))
        found = [one.message for one in adapters.check("responses", output)]
        assert not [one for one in found if not one.startswith(("response.", "unknown", "item.t"))]
        written = [
            event.name for block in Decoder().feed_raw(output) if (event := parse_event(block))
        ]
        removed = [one for one in losses if one.action == "dropped"]
        assert removed or without_heartbeats(written) == without_heartbeats(types)


def without_heartbeats(types: list[bytes]) -> list[bytes]:
    return [one for one in types if one not in (b"", b"response.in_progress")]


@pytest.mark.parametrize("name", CANONICAL)
def test_resumed_stream_passes(name: str) -> None:
    blocks = blocks_of(name)
    for number in range(1, len(blocks)):
        stream = b"".join(block + b"\n\n" for block in blocks[number:])
        assert repaired(stream) == (stream, [])


def test_whole_reply_with_the_format_of_its_text_is_sent_as_a_stream() -> None:
    reply = read_object(reply_body(RESPONSES, Turn(calls=CALLS)))
    body = encoded(reply | {"text": {"format": {"type": "text"}}})
    translator = Exchange("responses", "responses").stream()
    output = translator.feed(body) + translator.finish(started=True).body
    items = objects_in(sdk.judge_responses_stream(output).to_dict(warnings=False), "output")
    assert calls_in(items) == EXPECTED


@pytest.mark.parametrize("body", [b"{}", b'{"error":null}', b'{"detail":"Not ready"}'])
def test_body_that_is_no_response_is_an_error(body: bytes) -> None:
    with pytest.raises(adapters.InvalidReplyError):
        Exchange("responses", "responses").reply(body)
