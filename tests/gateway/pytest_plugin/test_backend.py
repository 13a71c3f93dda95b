"""The scripted backend of users' tests, read by the OpenAI SDK."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

import adapters
from gateway.pytest_plugin.backend import Arguments, Backend, run_backend
from tests.gateway import raw_http
from tests.gateway.waiting import TIMEOUT_SECONDS

CALLS: list[tuple[str, Arguments]] = [("get_weather", {"city": "Oslo"}), ("get_time", "{}")]
TEXT = "It rains in Oslo."
DIALECTS = pytest.mark.parametrize("dialect", ["chat", "responses", "legacy"])
PATHS = {dialect.name: f"/v1{dialect.path}" for dialect in adapters.DIALECTS.values()}


@pytest.fixture
def backend() -> Iterator[Backend]:
    with run_backend() as running:
        yield running


@pytest.fixture
def sdk(backend: Backend) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=backend.url, api_key="x", max_retries=0) as client:
        yield client


def port(backend: Backend) -> int:
    return int(backend.url.rpartition(":")[2].removesuffix("/v1"))


def request(dialect: str, *, streamed: bool) -> raw_http.Body:
    message = {"role": "user", "content": "Hi"}
    items = {"input": "Hi"} if dialect == "responses" else {"messages": [message]}
    functions = {"functions": [{"name": "get_weather"}]} if dialect == "legacy" else {}
    return {"model": "m", "stream": streamed, **items, **functions}


@DIALECTS
def test_reply_has_the_dialect_of_the_request(backend: Backend, dialect: str) -> None:
    backend.reply(TEXT, calls=CALLS[:1])
    backend.reply(TEXT, calls=CALLS[:1])
    sent = request(dialect, streamed=True)
    stream = raw_http.post(port(backend), PATHS[dialect], sent).body
    assert adapters.check(dialect, stream) == []
    whole = raw_http.post(port(backend), PATHS[dialect], request(dialect, streamed=False)).body
    for text in ('{\\"city\\":\\"Oslo\\"}', TEXT):
        assert text in whole.decode()
    assert ("function_call" in whole.decode()) == (dialect != "chat")
    assert backend.requests[0].json() == sent


def test_calls_have_new_ids_unless_they_are_duplicates(
    backend: Backend, sdk: openai.OpenAI
) -> None:
    ids: list[str] = []
    for duplicates in (False, False, True):
        backend.reply(calls=CALLS, duplicate_ids=duplicates)
        output = sdk.responses.create(model="m", input="Hi").output
        ids += [item.call_id for item in output if item.type == "function_call"]
    assert ids == ["call_1", "call_2", "call_3", "call_4", "call_5", "call_5"]


def test_stream_is_sent_in_pieces(backend: Backend) -> None:
    backend.reply_stream([{"type": "response.created"}], chunk_size=4, pause=0.001)
    whole = raw_http.post(port(backend), "/any/path", {"x": 1})
    assert whole.body == b'event: response.created\ndata: {"type":"response.created"}\n\n'
    assert backend.last_request.script_done.wait(TIMEOUT_SECONDS)
    assert backend.last_request.write_sizes[1:-1] == [9] * 14 + [8]
    assert backend.last_request.target == "/any/path"


@pytest.mark.parametrize("fault", ["cut_after", "silent_after"])
def test_stream_ends_early(backend: Backend, fault: str) -> None:
    sent = request("chat", streamed=True)
    if fault == "cut_after":
        backend.reply(TEXT, cut_after=2)
    else:
        backend.reply(TEXT, silent_after=2)
    with raw_http.StreamedResponse(port(backend), PATHS["chat"], sent) as stream:
        read = stream.read_some()
        while read.count(b"\n\n") < 2:
            read += stream.read_some()
        assert b'"It"' in read
        assert TEXT[2:].encode() not in read
        if fault == "cut_after":
            with pytest.raises(Exception, match="IncompleteRead"):
                stream.read_all()


def test_errors_and_lost_connections(backend: Backend, sdk: openai.OpenAI) -> None:
    backend.fail(429, "slow down", retry_after=1.5, code="rate_limit")
    with pytest.raises(openai.RateLimitError) as raised:
        sdk.responses.create(model="m", input="Hi")
    assert raised.value.response.headers["retry-after"] == "1.5"
    assert raised.value.code == "rate_limit"
    backend.disconnect()
    with pytest.raises(openai.APIConnectionError):
        sdk.responses.create(model="m", input="Hi")
    backend.stay_silent()
    with pytest.raises(openai.APITimeoutError):
        sdk.responses.create(model="m", input="Hi", timeout=0.2)
    with pytest.raises(openai.BadRequestError, match="no reply is left for this request"):
        sdk.responses.create(model="m", input="Hi")


def test_recording_is_sent(backend: Backend, sdk: openai.OpenAI, tmp_path: Path) -> None:
    (tmp_path / "exchange.json").write_text(
        '{"format": 1, "client": {"dialect": "chat"}, "calls": ['
        '{"dialect": "chat", "status": 429, "reply_headers": {"retry-after": "0"}},'
        '{"dialect": "chat"}]}'
    )
    (tmp_path / "backend-reply.json").write_text('{"error": {"message": "slow down"}}')
    chunk = '{"id":"c","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}'
    (tmp_path / "backend-reply-2.sse").write_text(f"data: {chunk}\n\ndata: [DONE]\n\n")
    backend.reply_recorded(tmp_path)
    with pytest.raises(openai.RateLimitError) as raised:
        sdk.chat.completions.create(model="m", messages=[])
    assert raised.value.response.headers["retry-after"] == "0"
    [read] = sdk.chat.completions.create(model="m", messages=[], stream=True)
    assert read.choices[0].delta.content == "Hi"


def test_recording_of_lost_connections_is_sent(
    backend: Backend, sdk: openai.OpenAI, tmp_path: Path
) -> None:
    (tmp_path / "exchange.json").write_text(
        '{"format": 1, "client": {"dialect": "chat"}, "calls": ['
        '{"dialect": "chat", "status": null, "error": "ConnectError"},'
        '{"dialect": "chat", "status": 200, "error": "ReadError"}]}'
    )
    chunk = '{"id":"c","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}'
    (tmp_path / "backend-reply-2.sse").write_text(f"data: {chunk}\n\n")
    backend.reply_recorded(tmp_path)
    with pytest.raises(openai.APIConnectionError):
        sdk.chat.completions.create(model="m", messages=[])
    stream = sdk.chat.completions.create(model="m", messages=[], stream=True)
    assert next(stream).choices[0].delta.content == "Hi"
    with pytest.raises(openai.APIConnectionError):
        next(stream)


def test_models_are_listed(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == ["test-model"]


def test_missing_request_is_an_error(backend: Backend) -> None:
    with pytest.raises(AssertionError, match="the backend has received no request"):
        _ = backend.last_request
