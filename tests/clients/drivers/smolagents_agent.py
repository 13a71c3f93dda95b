"""smolagents: `ToolCallingAgent`."""

import harness
from smolagents import OpenAIModel, ToolCallingAgent, tool


def conversation(run):
    @tool
    def get_weather(city: str) -> str:
        """Return the weather of a city.

        Args:
            city: The name of the city.
        """
        return run.get_weather(city)

    @tool
    def get_time(city: str) -> str:
        """Return the time in a city.

        Args:
            city: The name of the city.
        """
        return run.get_time(city)

    model = OpenAIModel(
        run.model, api_base=run.base_url, api_key="sk-test", client_kwargs={"max_retries": 0}
    )
    agent = ToolCallingAgent(
        tools=[get_weather, get_time], model=model, stream_outputs=run.stream, max_steps=4
    )
    for number, prompt in enumerate(run.prompts):
        yield agent.run(prompt, reset=number == 0)


harness.main(lambda run: [*conversation(run)])
