"""The program and the SDK work with the fixtures."""

import subprocess
import sys
from pathlib import Path

import openai
import pytest
import weather

from gateway.pytest_plugin.backend import Backend

pytestmark = pytest.mark.usefixtures("dragoman_gateway")

CALLS = [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Bergen"})]
TEXT = "It is 18 degrees in both."
QUESTION = "Is it warm?"


def test_program_calls_its_tools(dragoman_backend: Backend) -> None:
    dragoman_backend.reply(calls=CALLS)
    dragoman_backend.reply(TEXT)
    assert weather.answer(QUESTION) == TEXT
    assert [request.target for request in dragoman_backend.requests] == ["/v1/chat/completions"] * 2
    assert "18 degrees" in dragoman_backend.last_request.body.decode()


def test_program_runs_in_a_process_of_its_own(dragoman_backend: Backend) -> None:
    dragoman_backend.reply(TEXT, chunk_size=7)
    command = [sys.executable, str(Path(weather.__file__)), QUESTION]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == f"{TEXT}\n"


@pytest.mark.parametrize("dragoman_config", [{"backends": [{"dialect": "responses"}]}], ids=[""])
def test_backend_in_another_dialect(dragoman_backend: Backend) -> None:
    dragoman_backend.reply(calls=CALLS)
    dragoman_backend.reply(TEXT)
    assert weather.answer(QUESTION) == TEXT
    assert [request.target for request in dragoman_backend.requests] == ["/v1/responses"] * 2


def test_stream(dragoman_backend: Backend) -> None:
    dragoman_backend.reply(TEXT, chunk_size=5)
    with openai.OpenAI().responses.stream(model="m", input=QUESTION) as stream:
        assert stream.get_final_response().output_text == TEXT


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_async_reply_and_stream(dragoman_backend: Backend) -> None:
    dragoman_backend.reply(TEXT)
    dragoman_backend.reply(TEXT, pause=0.001)
    async with openai.AsyncOpenAI() as client:
        response = await client.responses.create(model="m", input=QUESTION)
        assert response.output_text == TEXT
        async with client.responses.stream(model="m", input=QUESTION) as stream:
            assert (await stream.get_final_response()).output_text == TEXT


def test_faults(dragoman_backend: Backend) -> None:
    client = openai.OpenAI(max_retries=1)
    dragoman_backend.fail(429, retry_after=0)
    dragoman_backend.reply(TEXT)
    assert client.responses.create(model="m", input=QUESTION).output_text == TEXT
    dragoman_backend.reply(TEXT, cut_after=3)
    with pytest.raises(openai.APIError), client.responses.stream(model="m", input="Hi") as stream:
        stream.until_done()
