"""What tests of things that are kept share: the real client, and what a backend says and hears."""

import time
from collections.abc import Callable

import openai
from openai.types.responses import FunctionToolParam

from tests.gateway.process import Gateway
from tests.gateway.scripted import PATIENCE, ScriptedBackend
from tests.gateway.speech import Turn, script

WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}


def client_of(gateway: Gateway, key: str = "sk-me") -> openai.OpenAI:
    """Give the real client, which does not try again."""
    return openai.OpenAI(base_url=gateway.url, api_key=key, max_retries=0, timeout=PATIENCE)


def says(backend: ScriptedBackend, dialect: str, model: str, *turns: Turn) -> None:
    """Have the backend say these, one after the other, streamed or whole as it is asked."""
    left = iter(turns)
    backend.play_always(model, lambda received: script(dialect, next(left), received.json()))


def heard(backend: ScriptedBackend, model: str, place: int = -1) -> str:
    """Give what the backend was sent, by default the last."""
    return backend.received(model)[place].body.decode()


def line_about(gateway: Gateway, model: str) -> str:
    """Give the first line of the log that names a model; it may come later than the answer."""
    until(lambda: any(f'"{model}"' in line for line in gateway.lines))
    return next(line for line in gateway.lines if f'"{model}"' in line)


def until(done: Callable[[], bool]) -> None:
    """Wait for something that a process does by itself."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)
