"""Mirascope."""

import sys

import harness
from mirascope import llm

SUFFIX = {"chat": "completions", "responses": "responses"}


def conversation(run):
    llm.register_provider("openai", base_url=run.base_url, api_key="sk-test")
    model = llm.Model(f"openai/{run.model}:{SUFFIX[sys.argv[1]]}")
    tools = [llm.tool(run.get_weather), llm.tool(run.get_time)]
    messages = [llm.messages.system("Be brief.")]
    for prompt in run.prompts:
        messages.append(llm.messages.user(prompt))
        response = (model.stream if run.stream else model.call)(messages, tools=tools)
        while True:
            if run.stream:
                response.finish()
            if not response.tool_calls:
                break
            response = response.resume(response.execute_tools())
        messages = [*response.messages]
        yield response.text()


harness.main(lambda run: [*conversation(run)])
