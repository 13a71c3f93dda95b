"""The Agents SDK runs its loop through the gateway, over both of its kinds of models."""

import asyncio
from collections.abc import Iterator

import openai
import pytest
from agents import (
    Agent,
    Model,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    RunResult,
    RunResultStreaming,
    function_tool,
    set_tracing_disabled,
)

from tests.gateway.asked import read_asked
from tests.gateway.conftest import DIALECTS, Fresh
from tests.gateway.process import Gateway
from tests.gateway.scripted import ScriptedBackend
from tests.gateway.speech import Call, Turn, script

TURNS = (
    Turn("I ask both.", (Call("weather", '{"city":"Zürich"}'), Call("weather", '{"city":"東京"}'))),
    Turn(None, (Call("weather", '{"city": "Oslo"}'),)),
    Turn("Everywhere the sun shines ☀."),
)


@pytest.fixture(autouse=True)
def _no_traces() -> Iterator[None]:
    # They would be sent to a server of their maker.
    set_tracing_disabled(disabled=True)
    yield
    set_tracing_disabled(disabled=False)


def make_model(client: str, name: str, sdk: openai.AsyncOpenAI) -> Model:
    if client == "chat":
        return OpenAIChatCompletionsModel(name, sdk)
    return OpenAIResponsesModel(name, sdk)


async def run(
    client: str, name: str, url: str, *, streamed: bool
) -> tuple[RunResult | RunResultStreaming, list[str]]:
    cities: list[str] = []

    @function_tool
    def weather(city: str) -> str:
        """Tell the weather."""
        cities.append(city)
        return f"sun in {city}"

    async with openai.AsyncOpenAI(base_url=url, api_key="sk-test", max_retries=0) as sdk:
        agent = Agent[None](
            "Tester",
            instructions="Ask the weather.",
            tools=[weather],
            model=make_model(client, name, sdk),
            model_settings=ModelSettings(parallel_tool_calls=True),
        )
        if not streamed:
            return await Runner.run(agent, "How is it?"), cities
        result = Runner.run_streamed(agent, "How is it?")
        async for _ in result.stream_events():
            pass
        return result, cities


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("spoken", DIALECTS)
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_agent_runs_its_loop(
    client: str,
    spoken: str,
    streamed: bool,  # noqa: FBT001 - pytest gives it by its name
    gateway: Gateway,
    backend: ScriptedBackend,
    fresh: Fresh,
) -> None:
    model = fresh(spoken)
    turns = [turn.for_legacy() if spoken == "legacy" else turn for turn in TURNS]
    left = iter(turns)
    backend.play_always(model, lambda it: script(spoken, next(left), it.json()))
    result, cities = asyncio.run(run(client, model, gateway.url, streamed=streamed))
    assert result.final_output == TURNS[-1].text
    calls = [call for turn in turns for call in turn.calls]
    assert sorted(cities) == sorted(
        ["Zürich", "東京", "Oslo"] if len(calls) == 3 else ["Zürich", "Oslo"]
    )
    last = read_asked(spoken, backend.wait(model, 3), passed=True)
    assert [call for call, _ in last.done] == calls
