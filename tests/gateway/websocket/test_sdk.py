"""The WebSocket clients of the openai and agents packages, over every backend."""

import asyncio
from collections.abc import Iterable

import agents
import openai
import pytest
from agents.models.openai_responses import OpenAIResponsesWSModel
from openai.types.responses import FunctionToolParam, Response, ResponsesServerEvent
from openai.types.responses.response_input_item_param import FunctionCallOutput
from openai.types.responses.response_steer_failed_event import ResponseSteerFailedEvent

from tests.gateway.backend_replies import Turn
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.gateway.websocket.test_websocket import OSLO, heard, says

UNTRACED = agents.RunConfig(tracing_disabled=True)
TOOL: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}


def completed(events: Iterable[ResponsesServerEvent]) -> Response:
    for event in events:
        if event.type == "response.completed":
            return event.response
        assert event.type not in ("error", "response.failed"), event
    raise AssertionError("it ended without a response")


def answering(response: Response) -> FunctionCallOutput:
    call = next(item for item in response.output if item.type == "function_call")
    output: FunctionCallOutput = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": "18 degrees",
    }
    return output


@pytest.mark.parametrize("dialect", DIALECTS)
def test_sync_client(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("Let me see.", (OSLO,)), Turn("Sunny."))
    with harness.sdk.responses.connect() as connection:
        connection.response.create(model=model, input="Oslo?", tools=[TOOL], store=False)
        first = completed(connection)
        connection.response.create(
            model=model,
            input=[answering(first)],
            tools=[TOOL],
            store=False,
            previous_response_id=first.id,
        )
        second = completed(connection)
    assert second.output_text == "Sunny."
    assert "18 degrees" in heard(harness, model)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_async_client(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("Let me see.", (OSLO,)), Turn("Sunny."))

    async def converse() -> str:
        async with (
            openai.AsyncOpenAI(
                base_url=harness.gateway.url, api_key="sk-test", max_retries=0
            ) as sdk,
            sdk.responses.connect() as connection,
        ):
            previous: Response | None = None
            for _ in range(2):
                await connection.response.create(
                    model=model,
                    input="Oslo?" if previous is None else [answering(previous)],
                    tools=[TOOL],
                    store=False,
                    previous_response_id=None if previous is None else previous.id,
                    stream_id="lane",
                )
                async for event in connection:
                    assert event.type not in ("error", "response.failed"), event
                    if event.type == "response.completed":
                        previous = event.response
                        break
            assert previous is not None
            return previous.output_text

    assert asyncio.run(asyncio.wait_for(converse(), TIMEOUT_SECONDS)) == "Sunny."


@pytest.mark.parametrize("dialect", DIALECTS)
def test_agents(dialect: str, harness: Harness) -> None:
    """The other package, whose socket is its own."""
    model = says(harness, dialect, Turn("Let me see.", (OSLO,)), Turn("Sunny."))

    @agents.function_tool
    def weather(city: str) -> str:
        return f"{city}: 18 degrees"

    async def converse() -> object:
        async with openai.AsyncOpenAI(
            base_url=harness.gateway.url, api_key="sk-test", max_retries=0
        ) as sdk:
            spoken = OpenAIResponsesWSModel(model=model, openai_client=sdk)
            agent = agents.Agent(name="Vane", model=spoken, tools=[weather])
            result = await agents.Runner.run(agent, "Oslo?", run_config=UNTRACED)
            await spoken.close()
            return result.final_output

    assert asyncio.run(asyncio.wait_for(converse(), TIMEOUT_SECONDS)) == "Sunny."
    assert "Oslo: 18 degrees" in heard(harness, model)


def test_errors_are_parsed(harness: Harness) -> None:
    with harness.sdk.responses.connect() as connection:
        connection.response.create(model="chat-1", input="x", previous_response_id="resp_none")
        event = connection.recv()
    assert event.type == "error"
    assert event.status == 400
    assert event.error.code == "previous_response_not_found"


def test_steering_is_refused_and_returns_the_input(harness: Harness) -> None:
    with harness.sdk.responses.connect() as connection:
        connection.response.steer(input="Rather in Bergen.", previous_response_id="resp_1")
        event = connection.recv()
    assert isinstance(event, ResponseSteerFailedEvent)
    assert event.error.code == "steering_not_supported"
    assert (event.steer.input, event.steer.previous_response_id) == ("Rather in Bergen.", "resp_1")
    ResponseSteerFailedEvent.model_validate(event.to_dict(), strict=True)
