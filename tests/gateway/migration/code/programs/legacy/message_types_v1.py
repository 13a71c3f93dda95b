"""Replies are checked with isinstance and printed for debugging."""
import json
from typing import Optional

from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion_message import FunctionCall

client = OpenAI()
FUNCTIONS = [{"name": "vote", "parameters": {"type": "object", "properties": {"answer": {"type": "boolean"}}}}]


def first_call(completion: ChatCompletion) -> Optional[FunctionCall]:
    message: ChatCompletionMessage = completion.choices[0].message
    assert isinstance(message, ChatCompletionMessage)
    return message.function_call


def vote(answer: bool) -> str:
    return "counted" if answer else "ignored"


messages = [{"role": "user", "content": "Vote yes"}]
completion = client.chat.completions.create(model="gpt-4", messages=messages, functions=FUNCTIONS)
call: Optional[FunctionCall] = first_call(completion)
if call:
    output = vote(**json.loads(call.arguments))
    print(call.name, "->", output)
    messages.append(completion.choices[0].message)
    messages.append({"role": "function", "name": call.name, "content": output})
    completion = client.chat.completions.create(model="gpt-4", messages=messages, functions=FUNCTIONS)
print(completion.choices[0].message.content)
