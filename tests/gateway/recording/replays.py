"""Recordings of single exchanges, and running replays of them."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
from msgspec.structs import replace

from adapters import translate_request
from gateway.recording.format import (
    BackendCall,
    Client,
    Exchange,
    Recording,
    make_body,
    write_recording,
)
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.gateway.gateway_process import COMMAND, Gateway, run_server
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import JsonObject
from tests.judges.samples import encoded

MODEL = "recorded-model"
WEATHER_TOOL: JsonObject = {
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
WEATHER_CALL = Call("weather", '{"city":"Oslo"}')
CALLING = Turn("Let me see.", (WEATHER_CALL,))


def question(text: str = "How is Oslo?", model: str = MODEL, **more: object) -> JsonObject:
    """Return a Chat request with a tool."""
    tools = [{"type": "function", "function": WEATHER_TOOL}]
    messages = [{"role": "user", "content": text}]
    return {"model": model, "messages": messages, "tools": tools, **more}


def question_in(dialect: str, text: str = "How is Oslo?", model: str = MODEL) -> JsonObject:
    """Return the question in the dialect of a client."""
    translated = translate_request(question(text, model), client="chat", backend=dialect)
    body: JsonObject = json.loads(translated.body)
    return body


def record(
    folder: Path,
    dialect: str = "chat",
    turn: Turn = CALLING,
    request: JsonObject | None = None,
    *,
    streamed: bool = False,
    body: bytes | None = None,
    **call: Any,
) -> None:
    """Write the recording of a reply to a Chat client; its reads are 100 milliseconds apart."""
    given = question(stream=streamed) if request is None else request
    events = stream_events(dialect, turn) if streamed else [reply_body(dialect, turn)]
    reads = tuple((100.0 * number, len(event)) for number, event in enumerate(events, start=1))
    backend_call = replace(BackendCall("backend", dialect, status=200, reads=reads), **call)
    reply = make_body(b"".join(events) if body is None else body)
    bodies = {
        "client-request": make_body(encoded(given)),
        "backend-request": make_body(translate_request(given, client="chat", backend=dialect).body),
        "backend-reply": reply,
    }
    if dialect == "chat":
        bodies["client-reply"] = reply
    client = Client("chat", status=backend_call.status)
    exchange = Exchange(1, model=str(given["model"]), client=client, calls=(backend_call,))
    write_recording(folder, Recording(exchange, bodies))


@contextmanager
def replaying(folder: Path, *options: str) -> Generator[Gateway]:
    """Run a replay of the recordings in a folder."""
    with run_server([*COMMAND, "replay", str(folder), *options], folder) as gateway:
        yield gateway


def async_client(gateway: Gateway) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=gateway.url, api_key="none", max_retries=0, timeout=TIMEOUT_SECONDS
    )
