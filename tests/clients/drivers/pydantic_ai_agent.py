"""Pydantic AI."""

import sys

import harness
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

MODELS = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}


async def conversation(run):
    provider = OpenAIProvider(base_url=run.base_url, api_key="sk-test")
    model = MODELS[sys.argv[1]](run.model, provider=provider)
    agent = Agent(model, instructions="Be brief.", tools=[run.get_weather, run.get_time])
    history, texts = [], []
    for prompt in run.prompts:
        if run.stream:
            async with agent.run_stream(prompt, message_history=history) as result:
                texts.append(await result.get_output())
        else:
            result = await agent.run(prompt, message_history=history)
            texts.append(result.output)
        history = result.all_messages()
    return texts


harness.main(conversation)
