"""LlamaIndex: a loop on `chat_with_tools`, with its options, and `FunctionAgent`."""

import sys

import harness
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI, OpenAIResponses
from llama_index.llms.openai_like import OpenAILike

# What the first request of a prompt has besides the tools.
OPTIONS = {
    "": {},
    "tool_required": {"tool_required": True},
    "tool_choice": {"tool_choice": "get_weather"},
    "serial": {"allow_parallel_tool_calls": False},
}


def make_llm(run, kind):
    if kind == "OpenAIResponses":
        return OpenAIResponses(run.model, api_base=run.base_url, max_retries=0)
    if kind == "OpenAILike":
        settings = {"is_chat_model": True, "is_function_calling_model": True}
        return OpenAILike(run.model, api_base=run.base_url, max_retries=0, **settings)
    return OpenAI(run.model, api_base=run.base_url, max_retries=0)


def last(replies):
    *_, reply = replies
    return reply


def loop(run, llm, options):
    tools = [FunctionTool.from_defaults(tool) for tool in (run.get_weather, run.get_time)]
    by_name = {tool.metadata.name: tool for tool in tools}
    messages = [ChatMessage(role="system", content="Be brief.")]
    for number, prompt in enumerate(run.prompts):
        messages.append(ChatMessage(role="user", content=prompt))
        settings = {"allow_parallel_tool_calls": True} | ({} if number else options)
        while True:
            if run.stream:
                reply = last(llm.stream_chat_with_tools(tools, chat_history=messages, **settings))
            else:
                reply = llm.chat_with_tools(tools, chat_history=messages, **settings)
            messages.append(reply.message)
            calls = llm.get_tool_calls_from_response(reply, error_on_no_tool_call=False)
            if not calls:
                break
            for call in calls:
                output = by_name[call.tool_name](**call.tool_kwargs)
                fields = {"tool_call_id": call.tool_id}
                result = ChatMessage(role="tool", content=str(output), additional_kwargs=fields)
                messages.append(result)
            settings.pop("tool_required", None)
            settings.pop("tool_choice", None)
        yield reply.message.content


async def agent_conversation(run, llm):
    agent = FunctionAgent(
        tools=[run.get_weather, run.get_time],
        llm=llm,
        system_prompt="Be brief.",
        streaming=run.stream,
    )
    context = Context(agent)
    return [str(await agent.run(prompt, ctx=context)) for prompt in run.prompts]


def conversation(run):
    kind, option = sys.argv[1:]
    llm = make_llm(run, kind)
    if option == "FunctionAgent":
        return agent_conversation(run, llm)
    return [*loop(run, llm, OPTIONS[option])]


harness.main(conversation)
