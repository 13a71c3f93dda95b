"""LangChain for Python: an agent on `ChatOpenAI`."""

import sys

import harness
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI


def conversation(run):
    model = ChatOpenAI(
        model=run.model,
        base_url=run.base_url,
        use_responses_api=sys.argv[1] == "responses",
        streaming=run.stream,
        max_retries=0,
    )
    tools = [StructuredTool.from_function(tool) for tool in (run.get_weather, run.get_time)]
    agent = create_agent(model, tools, system_prompt="Be brief.")
    messages = []
    for prompt in run.prompts:
        state = {"messages": [*messages, {"role": "user", "content": prompt}]}
        if run.stream:
            for kind, value in agent.stream(state, stream_mode=["messages", "values"]):
                state = value if kind == "values" else state
        else:
            state = agent.invoke(state)
        messages = state["messages"]
        yield messages[-1].text


harness.main(lambda run: [*conversation(run)])
