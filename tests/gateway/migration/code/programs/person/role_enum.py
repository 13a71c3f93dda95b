"""Roles are members of an enumeration, which other modules use too."""
import json
from enum import Enum

from openai import OpenAI


class Role(str, Enum):
    USER = "user"
    ASSISTANT = "assistant"
    FUNCTION = "function"


def message(role: Role, content: str, **fields: str) -> dict:
    return {"role": role.value, "content": content, **fields}


client = OpenAI()
messages = [message(Role.USER, "Ring the bell")]
FUNCTIONS = [{"name": "ring", "parameters": {"type": "object", "properties": {"times": {"type": "integer"}}}}]
reply = client.chat.completions.create(model="gpt-4", messages=messages, functions=FUNCTIONS).choices[0].message
if reply.function_call:
    times = json.loads(reply.function_call.arguments)["times"]
    messages.append(reply)
    messages.append(message(Role.FUNCTION, "ding " * times, name=reply.function_call.name))
    print(client.chat.completions.create(model="gpt-4", messages=messages).choices[0].message.content)
