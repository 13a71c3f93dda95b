"""A function that asks the model itself."""
import json

from openai import OpenAI

client = OpenAI()


def ask(prompt, functions=None, handlers=None):
    messages = [{"role": "user", "content": prompt}]
    while True:
        extra = {"functions": functions} if functions else {}
        message = client.chat.completions.create(model="gpt-4", messages=messages, **extra).choices[0].message
        if not functions or not message.function_call:
            return message.content
        call = message.function_call
        messages.append(message)
        messages.append({"role": "function", "name": call.name, "content": handlers[call.name](**json.loads(call.arguments))})


def summarize(text):
    return ask(f"Summarize: {text}")


SUMMARIZE = {
    "name": "summarize",
    "description": "Summarize a text",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
print(ask("Explain the essay", [SUMMARIZE], {"summarize": summarize}))
