"""Stop sequences for backends without them: the reply is cut, and the backend's work cancelled."""

from collections.abc import Iterator

import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from gateway.pytest_plugin.scripted_backend import Gate, Script, ScriptedBackend, stream_reply
from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import STREAMED_OR_NOT, backend_table, capability_table
from tests.gateway.waiting import TIMEOUT_SECONDS

TURN = Turn("One two three END four five six.")
CUT = "One two three "


@pytest.fixture(scope="module")
def lacking(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """Run a gateway with a Chat backend that rejects `stop`, and one that never streams."""
    without = capability_table('unsupported_fields = ["stop"]')
    config = backend_table(backend.address, "lacking-chat", "chat", without)
    without = capability_table('unsupported_fields = ["stop"]\nstreaming = "never"')
    config += backend_table(backend.address, "whole-chat", "chat", without)
    with run_harness(backend, config, tmp_path_factory.mktemp("lacking")) as harness:
        yield harness


def waiting_stream(dialect: str, turn: Turn, marker: bytes) -> Script:
    """Return a stream that ends after the event with a marker, and is never completed."""
    events = stream_events(dialect, turn)
    last = next(number for number, event in enumerate(events) if marker in event)
    return stream_reply(*events[: last + 1], Gate())


@pytest.mark.parametrize("client", ["chat", "legacy"])
def test_stream_is_cut_and_the_connection_closed(client: str, harness: Harness) -> None:
    model = harness.enqueue("responses", waiting_stream("responses", TURN, b"END"))
    options = {"include_usage": True}
    with harness.stream(client, model, stop=["END"], stream_options=options) as response:
        body = response.read_all()
        loss = response.headers["dragoman-loss"]
    received = harness.backend.wait_for_request(model)
    assert received.closed.wait(TIMEOUT_SECONDS), "the request to the backend is still open"
    assert "stop" not in received.json()
    assert 'changed;path="stop";severity=hint' in loss
    assert body.endswith(b"data: [DONE]\n\n")
    assert b'"finish_reason":"stop"' in body
    assert b'"usage":{"prompt_tokens":0,' in body
    assert b"END" not in body


@pytest.mark.parametrize("stop", ["END", ["", "four", "END"]])
@STREAMED_OR_NOT
def test_sdk_reads_the_text_before_the_sequence(
    stop: str | list[str], harness: Harness, *, streamed: bool
) -> None:
    model = harness.script("responses", TURN)
    create = harness.sdk.chat.completions.create
    messages: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hi"}]
    if streamed:
        stream = create(model=model, messages=messages, stop=stop, stream=True)
        chunks = [chunk.choices[0] for chunk in stream if chunk.choices]
        assert "".join(chunk.delta.content or "" for chunk in chunks) == CUT
        assert chunks[-1].finish_reason == "stop"
    else:
        completion = create(model=model, messages=messages, stop=stop)
        assert completion.choices[0].message.content == CUT
        assert completion.choices[0].finish_reason == "stop"
        assert completion.usage is not None
        assert completion.usage.total_tokens == 12


def test_chat_backend_without_stop(lacking: Harness) -> None:
    model = lacking.enqueue("lacking-chat", waiting_stream("chat", TURN, b"END"))
    with lacking.stream("chat", model, stop="END") as response:
        body = response.read_all()
    received = lacking.backend.wait_for_request(model)
    assert received.closed.wait(TIMEOUT_SECONDS), "the request to the backend is still open"
    assert "stop" not in received.json()
    assert body.endswith(b"data: [DONE]\n\n")
    assert b"END" not in body
    # Without stop sequences, the reply is forwarded unchanged.
    events = stream_events("chat", TURN)
    with lacking.stream("chat", lacking.enqueue("lacking-chat", stream_reply(*events))) as response:
        assert response.read_all() == b"".join(events)


def test_whole_reply_is_cut_for_a_streaming_client(lacking: Harness) -> None:
    model = lacking.script("whole-chat", TURN)
    options = {"include_usage": True}
    with lacking.stream("chat", model, stop="END", stream_options=options) as response:
        body = response.read_all()
    assert b'"content":"One two three "' in body
    assert b"END" not in body
    # The backend has sent its usage with the whole reply.
    assert b'"usage":{"prompt_tokens":7,' in body


def test_connection_of_a_complete_stream_is_kept(lacking: Harness) -> None:
    model = lacking.script("lacking-chat", "No end.", "No end.")
    for _ in range(2):
        with lacking.stream("chat", model, stop="END") as response:
            assert b'"finish_reason": "stop"' in response.read_all().replace(b'":"', b'": "')
    first, second = lacking.backend.received(model)
    assert first.closed is second.closed


def test_too_many_stop_sequences_are_refused(harness: Harness) -> None:
    for stop in (["END"] * 65, "x" * 1001):
        response = harness.request("chat", harness.new_model("responses"), stop=stop)
        assert response.status == 400
        assert response.error["param"] == "stop"
