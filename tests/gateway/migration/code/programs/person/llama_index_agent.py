from llama_index.agent import OpenAIAgent
from llama_index.llms import ChatMessage, OpenAI
from llama_index.tools import FunctionTool


def multiply(a: int, b: int) -> int:
    """Multiply two integers."""
    return a * b


llm = OpenAI(model="gpt-3.5-turbo-0613")
response = llm.chat(
    [ChatMessage(role="user", content="What is 6 times 7?")],
    functions=[FunctionTool.from_defaults(fn=multiply).metadata.to_openai_function()],
)
call = response.message.additional_kwargs.get("function_call")
if call:
    print(call["name"], call["arguments"])
agent = OpenAIAgent.from_tools([FunctionTool.from_defaults(fn=multiply)], llm=llm)
print(agent.chat("What is 6 times 7?"))
