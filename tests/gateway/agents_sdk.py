"""An agent of the Agents SDK, with both of its kinds of models."""

import agents
import openai

from tests.gateway.backend_replies import Call, Turn

TURNS = (
    Turn("I ask both.", (Call("weather", '{"city":"Zürich"}'), Call("weather", '{"city":"東京"}'))),
    Turn(None, (Call("weather", '{"city": "Oslo"}'),)),
    Turn("Everywhere the sun shines ☀."),
)

# Traces would be sent to OpenAI.
_CONFIG = agents.RunConfig(tracing_disabled=True)

MODELS: dict[str, type[agents.OpenAIChatCompletionsModel | agents.OpenAIResponsesModel]] = {
    "chat": agents.OpenAIChatCompletionsModel,
    "responses": agents.OpenAIResponsesModel,
}


async def run_agent(
    client: str, model: str, url: str, *, streamed: bool
) -> tuple[object, list[str]]:
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
            model=MODELS[client](model, sdk),
            model_settings=agents.ModelSettings(parallel_tool_calls=True),
        )
        if not streamed:
            whole = await agents.Runner.run(agent, "How is it?", run_config=_CONFIG)
            return whole.final_output, cities
        result = agents.Runner.run_streamed(agent, "How is it?", run_config=_CONFIG)
        async for _ in result.stream_events():
            pass
        return result.final_output, cities
