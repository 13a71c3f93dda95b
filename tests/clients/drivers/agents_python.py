"""The Agents SDK for Python."""

import sys

import agents
import harness
from openai import AsyncOpenAI

MODELS = {
    "chat": agents.OpenAIChatCompletionsModel,
    "responses": agents.OpenAIResponsesModel,
}


async def conversation(run):
    client = AsyncOpenAI(base_url=run.base_url, max_retries=0)
    model = MODELS[sys.argv[1]](model=run.model, openai_client=client)
    tools = [agents.function_tool(run.get_weather), agents.function_tool(run.get_time)]
    agent = agents.Agent(name="Agent", instructions="Be brief.", model=model, tools=tools)
    items, texts = [], []
    for prompt in run.prompts:
        items.append({"role": "user", "content": prompt})
        if run.stream:
            result = agents.Runner.run_streamed(agent, items)
            async for _ in result.stream_events():
                pass
        else:
            result = await agents.Runner.run(agent, items)
        items = result.to_input_list()
        texts.append(result.final_output)
    return texts


agents.set_tracing_disabled(disabled=True)
harness.main(conversation)
