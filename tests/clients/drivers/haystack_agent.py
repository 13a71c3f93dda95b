"""Haystack: its `Agent` component."""

import sys

import harness
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function

GENERATORS = {"chat": OpenAIChatGenerator, "responses": OpenAIResponsesChatGenerator}


def conversation(run):
    generator = GENERATORS[sys.argv[1]](
        model=run.model,
        api_base_url=run.base_url,
        max_retries=0,
        streaming_callback=(lambda _: None) if run.stream else None,
    )
    tools = [create_tool_from_function(tool) for tool in (run.get_weather, run.get_time)]
    agent = Agent(chat_generator=generator, tools=tools, system_prompt="Be brief.")
    messages = []
    for prompt in run.prompts:
        messages.append(ChatMessage.from_user(prompt))
        messages = agent.run(messages=messages)["messages"]
        yield messages[-1].text


harness.main(lambda run: [*conversation(run)])
