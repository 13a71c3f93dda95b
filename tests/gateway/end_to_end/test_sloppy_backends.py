"""The replies of the corpus over real sockets: clients get what the core makes of them.

The snapshots show that the core translates each case correctly. Here a server sends each case to
the gateway, and the response is compared with the output of the core for the same request, except
for the ids and times that the gateway generates.
"""

import re

import pytest

import adapters
from gateway.pytest_plugin.scripted_backend import json_reply, stream_reply
from tests.corpus import ERRORS, REPLIES, STREAMS, ErrorCase, ReplyCase, StreamCase
from tests.exchange import Exchange
from tests.gateway.background.requests import events_of
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.plain_requests import request_body, request_path
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.samples import encoded


def request_for(client: str, case: ReplyCase | StreamCase, model: str) -> JsonObject:
    """Return the request of a case in the client's dialect, or a short one if it has none."""
    streams = isinstance(case, StreamCase)
    fields: JsonObject = {"model": model, "stream": streams}
    if client == "responses":
        # A stored response would have an id of the gateway.
        fields["store"] = False
    elif streams:
        fields["stream_options"] = {"include_usage": True}
    request = _translated_request(client, case) if bytes(case.request) else {}
    return request_body(client, model) | request | fields


def _translated_request(client: str, case: ReplyCase | StreamCase) -> JsonObject:
    dialect = case.client or case.dialect
    plain = request_body("chat" if dialect == "legacy" else dialect, "m")
    request = plain | read_object(bytes(case.request)) | {"model": "m"}
    if client == "responses":
        # The Responses API has no parameter for several choices.
        request.pop("n", None)
    if client == dialect:
        return request
    exchange = Exchange(dialect, client, ids=adapters.deterministic_ids())
    return read_object(exchange.request(encoded(request)).body)


def exchange_for(client: str, dialect: str, request: JsonObject) -> Exchange:
    """Return the exchange that the gateway makes for a request."""
    exchange = Exchange(client, dialect, ids=adapters.deterministic_ids())
    exchange.request(encoded(request))
    return exchange


_ID_PREFIXES = rb"resp|msg|fc|ctc|rs|ig|call|chatcmpl|tsc|sh|lsh|apc|cu|cmp"
_ID = re.compile(rb'"((?:%b)[_-][A-Za-z0-9_-]*)"' % _ID_PREFIXES)
# The gateway seals reasoning, and the core alone does not.
_SEALED = re.compile(
    rb',"extra_content":\{"dragoman":\{[^{}]*\}\}|,"encrypted_content":(?:null|"[^"]*")'
)
_TIME = re.compile(rb'"(created|created_at|completed_at)": ?\d+')


def normalize(body: bytes) -> bytes:
    """Number the ids in the order of their occurrence, and remove times and sealed reasoning."""
    numbers: dict[bytes, int] = {}

    def renumber(match: re.Match[bytes]) -> bytes:
        return b'"id-%d"' % numbers.setdefault(match[1], len(numbers) + 1)

    return _TIME.sub(rb'"\1":0', _ID.sub(renumber, _SEALED.sub(b"", body)))


def crossed(cases: list[StreamCase] | list[ReplyCase] | list[ErrorCase]) -> list[object]:
    return [
        pytest.param(case, client, id=f"{case.dialect}-to-{client}/{case.name}")
        for case in cases
        for client in DIALECTS
    ]


@pytest.mark.parametrize(("case", "client"), crossed(STREAMS))
def test_stream(case: StreamCase, client: str, harness: Harness) -> None:
    model = harness.enqueue(case.dialect, stream_reply(*_split(case.body)))
    request = request_for(client, case, model)
    received = harness.post(request, request_path(client))
    exchange = exchange_for(client, case.dialect, request)
    translator = exchange.stream()
    expected = translator.feed(case.body) + translator.finish(started=True).body
    collector = exchange.collect()
    collector.feed(case.body)
    whole = collector.finish()
    if whole.status == 200 or any(map(_is_output, events_of(expected))):
        assert received.status == 200
        assert received.headers["content-type"].startswith("text/event-stream")
        assert normalize(received.body) == normalize(expected)
    else:
        # An error before any output is sent with its HTTP status, as for a reply that is not
        # streamed: clients retry and report by the status.
        assert received.status == whole.status
        assert received.error == object_in(read_object(whole.body), "error")
        judge.judge_error(received.body)


def _split(body: bytes) -> list[bytes]:
    """Split a stream in the middle of events."""
    size = len(body) // 3 + 1
    return [body[place : place + size] for place in range(0, len(body), size)]


def _is_output(event: JsonObject) -> bool:
    choices = objects_in(event, "choices") if "choices" in event else []
    values = [value for choice in choices for value in object_in(choice, "delta").values()]
    has_output = any(value and value != "assistant" for value in values)
    return has_output or "output" in str(event.get("type"))


@pytest.mark.parametrize(("case", "client"), crossed(REPLIES))
def test_reply(case: ReplyCase, client: str, harness: Harness) -> None:
    model = harness.enqueue(case.dialect, json_reply(bytes(case.body)))
    request = request_for(client, case, model)
    received = harness.post(request, request_path(client))
    exchange = exchange_for(client, case.dialect, request)
    try:
        expected = exchange.reply(bytes(case.body))
    except adapters.InvalidReplyError as error:
        expected = exchange.own_error(error)
    assert received.status == expected.status
    assert normalize(received.body) == normalize(expected.body)


@pytest.mark.parametrize(("case", "client"), crossed(ERRORS))
def test_error(case: ErrorCase, client: str, harness: Harness) -> None:
    model = harness.enqueue(case.dialect, json_reply(case.wire_body(), status=case.status))
    request = request_body(client, model)
    received = harness.post(request, request_path(client))
    expected = exchange_for(client, case.dialect, request).error(case.status, case.wire_body())
    assert (received.status, received.body) == (expected.status, expected.body)
    object_in(read_object(received.body), "error")
