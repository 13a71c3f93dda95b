"""A step returns the call's name and arguments, and not the call."""
import json

from openai import OpenAI

client = OpenAI()
functions = [
    {
        "name": "spell",
        "description": "Spell a word",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    }
]


def spell(word):
    return "-".join(word)


def step(messages):
    message = client.chat.completions.create(
        model="gpt-4", messages=messages, functions=functions
    ).choices[0].message
    messages.append(message)
    if message.function_call:
        return message.function_call.name, json.loads(message.function_call.arguments)
    return None, message.content


messages = [{"role": "user", "content": "Spell hut"}]
name, value = step(messages)
while name:
    messages.append({"role": "function", "name": name, "content": globals()[name](**value)})
    name, value = step(messages)
print(value)
