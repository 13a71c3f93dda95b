"""The Agents SDK runs its loop through the gateway with both of its kinds of models."""

import asyncio
from collections.abc import Iterator

import agents
import openai
import pytest

from tests.gateway.backend_replies import Call, Turn
from tests.gateway.backend_requests import parse_request
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT

TURNS = (
    Turn("I ask both.", (Call("weather", '{"city":"Zürich"}'), Call("weather", '{"city":"東京"}'))),
    Turn(None, (Call("weather", '{"city": "Oslo"}'),)),
    Turn("Everywhere the sun shines ☀."),
)


@pytest.fixture(autouse=True)
def _no_traces() -> Iterator[None]:
    # Traces would be sent to OpenAI.
    agents.set_tracing_disabled(disabled=True)
    yield
    agents.set_tracing_disabled(disabled=False)


MODELS: dict[str, type[agents.OpenAIChatCompletionsModel | agents.OpenAIResponsesModel]] = {
    "chat": agents.OpenAIChatCompletionsModel,
    "responses": agents.OpenAIResponsesModel,
}


async def run(client: str, name: str, url: str, *, streamed: bool) -> tuple[object, list[str]]:
    """Return the final output and the cities that the agent asked for."""
    cities: list[str] = []

    @agents.function_tool
    def weather(city: str) -> str:
        """Tell the weather."""
        cities.append(city)
        return f"sun in {city}"

    async with openai.AsyncOpenAI(base_url=url, api_key="sk-test", max_retries=0) as sdk:
        agent = agents.Agent[None](
            "Tester",
            instructions="Ask the weather.",
            tools=[weather],
            model=MODELS[client](name, sdk),
            model_settings=agents.ModelSettings(parallel_tool_calls=True),
        )
        if not streamed:
            return (await agents.Runner.run(agent, "How is it?")).final_output, cities
        result = agents.Runner.run_streamed(agent, "How is it?")
        async for _ in result.stream_events():
            pass
        return result.final_output, cities


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("client", MODELS)
def test_agent_loop(client: str, dialect: str, *, streamed: bool, harness: Harness) -> None:
    turns = [turn.for_legacy() if dialect == "legacy" else turn for turn in TURNS]
    model = harness.script(dialect, *turns)
    output, cities = asyncio.run(run(client, model, harness.gateway.url, streamed=streamed))
    assert output == TURNS[-1].text
    calls = [call for turn in turns for call in turn.calls]
    expected = ["Zürich", "東京", "Oslo"] if len(calls) == 3 else ["Zürich", "Oslo"]
    assert sorted(cities) == sorted(expected)
    last = parse_request(dialect, harness.backend.wait_for_request(model, 3), is_passthrough=True)
    assert [call for call, _ in last.results] == calls
