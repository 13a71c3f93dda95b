"""Agno."""

import sys

import harness
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat, OpenAIResponses

MODELS = {"chat": OpenAIChat, "responses": OpenAIResponses}


def conversation(run):
    model = MODELS[sys.argv[1]](
        id=run.model, base_url=run.base_url, api_key="sk-test", max_retries=0
    )
    agent = Agent(
        model=model,
        tools=[run.get_weather, run.get_time],
        db=InMemoryDb(),
        add_history_to_context=True,
        telemetry=False,
    )
    for prompt in run.prompts:
        if run.stream:
            events = agent.run(prompt, session_id="s", stream=True)
            yield "".join(str(event.content) for event in events if event.event == "RunContent")
        else:
            yield agent.run(prompt, session_id="s").content


harness.main(lambda run: [*conversation(run)])
