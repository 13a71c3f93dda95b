"""Everything odd that backends say, over the wire: clients get what the core makes of it.

The pages in `snapshots` say that the core makes the right thing of it. Here each case of the corpus
is played by a real server to real sockets, and what arrives is compared with what the core says to
the same request, but for the ids and times that the gateway mints.
"""

import itertools
import re

import pytest

import adapters
from tests.corpus import ERRORS, REPLIES, STREAMS, ErrorCase, ReplyCase, StreamCase
from tests.exchange import Exchange
from tests.gateway import raw_http
from tests.gateway.backend_requests import ENDPOINT_PATHS
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.scripted_backend import ScriptedBackend, json_reply, stream_reply
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.samples import encoded

# What clients ask where a case does not say it.
PLAIN: dict[str, JsonObject] = {
    "chat": {"messages": [{"role": "user", "content": "hi"}]},
    # Only its functions tell a legacy client from another.
    "legacy": {
        "messages": [{"role": "user", "content": "hi"}],
        "functions": [{"name": "f", "parameters": {"type": "object", "properties": {}}}],
    },
    "responses": {"input": "hi"},
}


def request_for(client: str, case: ReplyCase | StreamCase, model: str) -> JsonObject:
    """Ask in the client's dialect what the backend of a case had been asked."""
    asked = PLAIN[client]
    if bytes(case.request):
        asked = _translated(client, case)
    streams = isinstance(case, StreamCase)
    more: JsonObject = {"model": model, "stream": streams}
    if client == "responses":
        # What is kept is given an id of the gateway's; here the core's words alone are compared.
        more["store"] = False
    elif streams:
        more["stream_options"] = {"include_usage": True}
    return PLAIN[client] | asked | more


def _translated(client: str, case: ReplyCase | StreamCase) -> JsonObject:
    spoken = case.client or case.dialect
    theirs = PLAIN[spoken] if spoken != "legacy" else PLAIN["chat"]
    said = theirs | read_object(bytes(case.request)) | {"model": "m"}
    if client == "responses":
        # There nobody can ask for several answers.
        said.pop("n", None)
    if client == spoken:
        return said
    exchange = Exchange(spoken, client, ids=adapters.deterministic_ids())
    return read_object(exchange.request(encoded(said)).body)


def exchange_for(client: str, spoken: str, request: JsonObject) -> Exchange:
    """Make the exchange that the gateway must make for a request."""
    exchange = Exchange(client, spoken, ids=adapters.deterministic_ids())
    exchange.request(encoded(request))
    return exchange


# Ids in the order in which they come, and no times: so that two runs can be compared.
_PREFIXES = rb"resp|msg|fc|ctc|rs|call|chatcmpl|tsc|sh|lsh|apc|cu|cmp"
_MINTED = re.compile(rb'"((?:%b)[_-][A-Za-z0-9_-]*)"' % _PREFIXES)
# What the gateway seals, and the core alone does not.
_SEALED = re.compile(rb',"extra_content":\{"dragoman":\{[^{}]*\}\}')
_TIMES = re.compile(rb'"(created|created_at|completed_at)": ?\d+')


def comparable(body: bytes) -> bytes:
    names: dict[bytes, bytes] = {}
    numbers = itertools.count(1)

    def rename(found: re.Match[bytes]) -> bytes:
        name = found[1]
        if name not in names:
            names[name] = b'"id-%d"' % next(numbers)
        return names[name]

    return _TIMES.sub(rb'"\1":0', _MINTED.sub(rename, _SEALED.sub(b"", body)))


def crossed(cases: list[StreamCase] | list[ReplyCase] | list[ErrorCase]) -> list[object]:
    return [
        pytest.param(case, client, id=f"{case.dialect}-to-{client}/{case.name}")
        for case in cases
        for client in DIALECTS
    ]


@pytest.mark.parametrize(("case", "client"), crossed(STREAMS))
def test_stream(
    case: StreamCase, client: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(case.dialect)
    request = request_for(client, case, model)
    backend.enqueue(model, stream_reply(*_torn(case.body)))
    heard = raw_http.post(gateway.port, f"/v1{ENDPOINT_PATHS[client]}", request)
    exchange = exchange_for(client, case.dialect, request)
    machine = exchange.stream()
    told = machine.feed(case.body) + machine.finish(started=True).body
    collector = exchange.collect()
    collector.feed(case.body)
    whole = collector.finish()
    if whole.status == 200 or any(_is_output(read_object(data)) for data in _data_lines(told)):
        assert heard.status == 200
        assert heard.headers["content-type"].startswith("text/event-stream")
        assert comparable(heard.body) == comparable(told)
    else:
        # An error that came before any output has the status of one, and says what it would say
        # had the answer been whole (P158, P159).
        assert heard.status == whole.status
        assert heard.error == object_in(read_object(whole.body), "error")
        judge.judge_error(heard.body)


def _torn(body: bytes) -> list[bytes]:
    """Tear a stream into three, at places that nobody would choose."""
    third = len(body) // 3 + 1
    return [body[place : place + third] for place in range(0, len(body), third)]


def _data_lines(stream_bytes: bytes) -> list[bytes]:
    lines = [line for line in stream_bytes.split(b"\n") if line.startswith(b"data: ")]
    return [line.removeprefix(b"data: ") for line in lines if b"[DONE]" not in line]


def _is_output(payload: JsonObject) -> bool:
    choices = objects_in(payload, "choices") if "choices" in payload else []
    said = [value for choice in choices for value in object_in(choice, "delta").values()]
    beyond_role = [value for value in said if value and value != "assistant"]
    return "output" in str(payload.get("type")) or bool(beyond_role)


@pytest.mark.parametrize(("case", "client"), crossed(REPLIES))
def test_reply(
    case: ReplyCase, client: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(case.dialect)
    request = request_for(client, case, model)
    backend.enqueue(model, json_reply(bytes(case.body)))
    heard = raw_http.post(gateway.port, f"/v1{ENDPOINT_PATHS[client]}", request)
    exchange = exchange_for(client, case.dialect, request)
    try:
        told = exchange.reply(bytes(case.body))
    except adapters.InvalidReplyError as problem:
        told = exchange.own_error(problem)
    assert heard.status == told.status
    assert comparable(heard.body) == comparable(told.body)


@pytest.mark.parametrize(("case", "client"), crossed(ERRORS))
def test_error(
    case: ErrorCase, client: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(case.dialect)
    request: JsonObject = {**PLAIN[client], "model": model}
    backend.enqueue(model, json_reply(case.answer(), status=case.status))
    heard = raw_http.post(gateway.port, f"/v1{ENDPOINT_PATHS[client]}", request)
    told = exchange_for(client, case.dialect, request).error(case.status, case.answer())
    assert (heard.status, heard.body) == (told.status, told.body)
    object_in(read_object(heard.body), "error")
