import json
from typing import Any, NamedTuple, Optional

from openai import OpenAI


class Step(NamedTuple):
    text: Optional[str]
    function: Optional[str]
    arguments: dict[str, Any]


client = OpenAI()
FUNCTIONS = [{"name": "zoom", "parameters": {"type": "object", "properties": {"factor": {"type": "number"}}}}]


def zoom(factor: float) -> str:
    return f"zoomed {factor:g} times"


def next_step(messages: list) -> Step:
    message = client.chat.completions.create(
        model="gpt-4", messages=messages, functions=FUNCTIONS
    ).choices[0].message
    messages.append(message)
    if message.function_call:
        return Step(None, message.function_call.name, json.loads(message.function_call.arguments))
    return Step(message.content, None, {})


messages: list = [{"role": "user", "content": "Zoom in"}]
while (step := next_step(messages)).function:
    messages.append({"role": "function", "name": step.function, "content": zoom(**step.arguments)})
print(step.text)
