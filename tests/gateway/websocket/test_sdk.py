"""The WebSocket clients of the openai and agents packages, over every backend."""

import asyncio
from typing import Any

import agents
import openai
from agents.models.openai_responses import OpenAIResponsesWSModel
from openai.types.responses import Response, ResponsesServerEvent
from openai.types.responses.response_steer_failed_event import ResponseSteerFailedEvent

from tests.gateway.backend_replies import Turn
from tests.gateway.conftest import Harness
from tests.gateway.sdk_clients import WEATHER_TOOL
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.gateway.websocket.test_websocket import OSLO
from tests.gateway.websocket_client import function_call, tool_output

UNTRACED = agents.RunConfig(tracing_disabled=True)
TURNS = (Turn("Let me see.", (OSLO,)), Turn("Sunny."))


def async_sdk(harness: Harness) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=harness.gateway.url, api_key="sk-test", max_retries=0)


def next_request(model: str, previous: Response | None) -> dict[str, Any]:
    """Return a question, or the output of the tool that the previous response calls."""
    shared: dict[str, Any] = {"model": model, "tools": [WEATHER_TOOL], "store": False}
    if previous is None:
        return {**shared, "input": "Oslo?"}
    output = tool_output(function_call(previous).call_id)
    return {**shared, "input": output, "previous_response_id": previous.id}


def completed(event: ResponsesServerEvent) -> Response | None:
    """Return the response of the last event of a turn."""
    assert event.type not in ("error", "response.failed"), event
    return event.response if event.type == "response.completed" else None


def test_sync_client(dialect: str, harness: Harness) -> None:
    model = harness.script(dialect, *TURNS)
    previous: Response | None = None
    with harness.sdk.responses.connect() as connection:
        for _ in range(2):
            connection.response.create(**next_request(model, previous))
            previous = next(it for it in map(completed, connection) if it)
    assert previous is not None
    assert previous.output_text == "Sunny."
    harness.assert_sent(model, "18 degrees")


def test_async_client(dialect: str, harness: Harness) -> None:
    model = harness.script(dialect, *TURNS)

    async def converse() -> str:
        previous: Response | None = None
        async with async_sdk(harness) as sdk, sdk.responses.connect() as connection:
            for _ in range(2):
                request = next_request(model, previous)
                await connection.response.create(**request, stream_id="lane")
                async for event in connection:
                    if last := completed(event):
                        previous = last
                        break
        assert previous is not None
        return previous.output_text

    assert asyncio.run(asyncio.wait_for(converse(), TIMEOUT_SECONDS)) == "Sunny."


def test_agents(dialect: str, harness: Harness) -> None:
    """The other package has its own WebSocket client."""
    model = harness.script(dialect, *TURNS)

    @agents.function_tool
    def weather(city: str) -> str:
        return f"{city}: 18 degrees"

    async def converse() -> object:
        async with async_sdk(harness) as sdk:
            websocket_model = OpenAIResponsesWSModel(model=model, openai_client=sdk)
            agent = agents.Agent(name="Vane", model=websocket_model, tools=[weather])
            result = await agents.Runner.run(agent, "Oslo?", run_config=UNTRACED)
            await websocket_model.close()
            return result.final_output

    assert asyncio.run(asyncio.wait_for(converse(), TIMEOUT_SECONDS)) == "Sunny."
    harness.assert_sent(model, "Oslo: 18 degrees")


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
