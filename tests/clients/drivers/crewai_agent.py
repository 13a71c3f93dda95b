"""CrewAI: an agent with its own OpenAI client."""

import os
import sys

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

import harness
from crewai import LLM, Agent
from crewai.tools import tool

APIS = {"chat": "completions", "responses": "responses"}


def conversation(run):
    @tool("get_weather")
    def get_weather(city: str) -> str:
        """Return the weather of a city."""
        return run.get_weather(city)

    @tool("get_time")
    def get_time(city: str) -> str:
        """Return the time in a city."""
        return run.get_time(city)

    model = LLM(
        model=f"openai/{run.model}",
        base_url=run.base_url,
        api_key="sk-test",
        api=APIS[sys.argv[1]],
        stream=run.stream,
        max_retries=0,
    )
    agent = Agent(
        role="Assistant",
        goal="Answer",
        backstory="You answer briefly.",
        llm=model,
        tools=[get_weather, get_time],
        max_iter=4,
    )
    messages = []
    for prompt in run.prompts:
        messages.append({"role": "user", "content": prompt})
        answer = agent.kickoff(messages).raw
        messages.append({"role": "assistant", "content": answer})
        yield answer


harness.main(lambda run: [*conversation(run)])
