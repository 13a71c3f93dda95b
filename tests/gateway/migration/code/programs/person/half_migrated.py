"""Some models receive functions and others tools."""
import json

from openai import OpenAI

client = OpenAI()
SCHEMA = {"name": "flip", "parameters": {"type": "object", "properties": {"side": {"type": "string"}}}}
OLD_MODELS = {"gpt-3.5-turbo-0613", "gpt-4-0613"}


def ask(model, messages):
    if model in OLD_MODELS:
        fields = {"functions": [SCHEMA]}
    else:
        fields = {"tools": [{"type": "function", "function": SCHEMA}]}
    message = client.chat.completions.create(model=model, messages=messages, **fields).choices[0].message
    if message.function_call:
        return message.function_call
    if message.tool_calls:
        return message.tool_calls[0].function
    return None


call = ask("gpt-4-0613", [{"role": "user", "content": "Flip it"}])
print(json.loads(call.arguments) if call else None)
