"""Many concurrent streams, and backpressure from slow clients."""

import asyncio
import json
import time
from itertools import count

import pytest
from openai.types.chat import ChatCompletionChunk

from gateway.pytest_plugin.scripted_backend import (
    Gate,
    ReceivedRequest,
    Script,
    ScriptFactory,
    stream_reply,
)
from tests.gateway import raw_http
from tests.gateway.backend_replies import Call, Turn, stream_events
from tests.gateway.background.requests import events_of
from tests.gateway.conftest import Harness
from tests.gateway.gateway_process import memory
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.sdk_clients import chat_reply, join_chunks, responses_reply
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject

STREAMS = 500
MEBIBYTE = 1024 * 1024


def turn_of(number: int) -> Turn:
    """Return a turn that no other stream has."""
    words = " ".join(f"{number}.{word}" for word in range(12))
    return Turn(f"Stream {number}: {words}", (Call("f", json.dumps({"number": number})),))


def concurrent_replies(dialect: str) -> ScriptFactory:
    """Send the second half of each stream when all requests have arrived."""
    all_arrived, missing = Gate(), count(STREAMS - 1, -1)

    def reply(request: ReceivedRequest) -> Script:
        number = int(str(request.json()["model"]).rpartition(".")[2])
        events = stream_events(dialect, turn_of(number))
        if next(missing) == 0:
            all_arrived.open()
        half = len(events) // 2
        return stream_reply(*events[:half], all_arrived, *events[half:])

    return reply


async def fetch_all(port: int, client: str, models: list[str]) -> list[list[bytes]]:
    requests = [request_body(client, model, streamed=True) for model in models]
    fetches = [raw_http.fetch_chunks(port, request_path(client), body) for body in requests]
    async with asyncio.timeout(3 * TIMEOUT_SECONDS):
        return await asyncio.gather(*fetches)


@pytest.mark.parametrize(
    ("client", "dialect"), [("responses", "chat"), ("chat", "responses"), ("chat", "chat")]
)
def test_500_streams_at_once(client: str, dialect: str, harness: Harness) -> None:
    base, reply = harness.new_model(dialect), concurrent_replies(dialect)
    models = [f"{base}.{number}" for number in range(STREAMS)]
    for model in models:
        harness.backend.respond_with(model, reply)
    chunks = asyncio.run(fetch_all(harness.gateway.port, client, models))
    bodies = [b"".join(pieces) for pieces in chunks]
    for number, body in enumerate(bodies):
        assert join_deltas(client, body) == turn_of(number)
    # Validating every stream would take too long.
    for number in range(0, STREAMS, 50):
        assert validate_stream(client, bodies[number]) == turn_of(number)


def join_deltas(client: str, body: bytes) -> Turn:
    """Join the deltas of a stream and check its end."""
    events = events_of(body)
    if client == "responses":
        assert events[-1]["type"] == "response.completed"
        return Turn(_joined(events, "output_text"), (Call("f", _joined(events, "function_call")),))
    assert body.endswith(b"data: [DONE]\n\n")
    reply = chat_reply(join_chunks(map(ChatCompletionChunk.model_validate, events)))
    assert reply.finish == "tool_calls"
    return reply.turn


def _joined(events: list[JsonObject], kind: str) -> str:
    found = (event for event in events if str(event["type"]).startswith(f"response.{kind}"))
    return "".join(str(event["delta"]) for event in found if "delta" in event)


def validate_stream(client: str, body: bytes) -> Turn:
    """Read a stream with the SDK."""
    if client == "responses":
        return responses_reply(judge.judge_responses_stream(body)).turn
    completion = judge.judge_chat_stream(body)
    assert completion is not None
    return chat_reply(completion).turn


# Slow clients

PIECES = 1000


def flood(dialect: str) -> Script:
    """Return a stream of 64 MiB, far more than the buffers hold."""
    words = "x" * (64 * MEBIBYTE // PIECES)
    events = stream_events(dialect, Turn("@"))
    place = next(number for number, event in enumerate(events) if b"@" in event)
    delta = events[place].replace(b"@", words.encode())
    rest = [event.replace(b"@", b"") for event in events[place + 1 :]]
    return stream_reply(*events[:place], *[delta] * PIECES, *rest)


@pytest.mark.parametrize("client", ["chat", "responses"])
def test_slow_client_slows_the_backend_down(client: str, harness: Harness) -> None:
    model = harness.enqueue("chat", flood("chat"))
    before = memory(harness.gateway)
    with harness.stream(client, model) as response:
        request = harness.backend.wait_for_request(model)
        written_bytes = wait_until_blocked(request)
        # The buffers of the sockets and a little more, but not the whole stream.
        assert written_bytes < 32 * MEBIBYTE
        assert not request.script_done.is_set()
        assert memory(harness.gateway) - before < 32 * MEBIBYTE
        size = 0
        while piece := response.read_some():
            size += len(piece)
    assert size > 64 * MEBIBYTE
    assert request.script_done.wait(TIMEOUT_SECONDS)


def wait_until_blocked(request: ReceivedRequest) -> int:
    """Wait until a backend cannot write any more; return the bytes that it has written."""
    written = -1
    while request.bytes_written != written:
        written = request.bytes_written
        # A blocked write cannot be observed except by waiting.
        time.sleep(0.3)
    return written
