"""The helper of the SDK that accumulates a stream."""
import json

from openai import OpenAI

client = OpenAI()
FUNCTIONS = [
    {
        "name": "paint",
        "description": "Paint a wall",
        "parameters": {
            "type": "object",
            "properties": {"wall": {"type": "string"}, "colour": {"type": "string"}},
        },
    }
]


def paint(wall, colour):
    return f"{wall} is {colour}"


messages = [{"role": "user", "content": "Paint the north wall blue"}]
with client.chat.completions.stream(model="gpt-4", messages=messages, functions=FUNCTIONS) as stream:
    for event in stream:
        if event.type == "content.delta":
            print(event.delta, end="")
    message = stream.get_final_completion().choices[0].message
if message.function_call:
    messages.append({
        "role": "assistant",
        "content": None,
        "function_call": {"name": message.function_call.name, "arguments": message.function_call.arguments},
    })
    output = paint(**json.loads(message.function_call.arguments))
    messages.append({"role": "function", "name": "paint", "content": output})
    with client.chat.completions.stream(model="gpt-4", messages=messages) as stream:
        print(stream.get_final_completion().choices[0].message.content)
