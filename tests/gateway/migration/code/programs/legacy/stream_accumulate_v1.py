"""Print the reply while it arrives, and run the function that it asks for."""
import json
import sys

from openai import OpenAI

client = OpenAI()

functions = [
    {
        "name": "convert_currency",
        "description": "Convert an amount of money",
        "parameters": {
            "type": "object",
            "properties": {
                "amount": {"type": "number"},
                "source": {"type": "string"},
                "target": {"type": "string"},
            },
            "required": ["amount", "source", "target"],
        },
    }
]


def convert_currency(amount, source, target):
    rates = {("EUR", "USD"): 1.1, ("USD", "EUR"): 0.9}
    return {"amount": round(amount * rates[source, target], 2), "currency": target}


def stream_reply(messages):
    func_call = {"name": "", "arguments": ""}
    text = ""
    stream = client.chat.completions.create(
        model="gpt-3.5-turbo", messages=messages, functions=functions, stream=True
    )
    for chunk in stream:
        delta = chunk.choices[0].delta
        if delta.function_call:
            if delta.function_call.name:
                func_call["name"] += delta.function_call.name
            if delta.function_call.arguments:
                func_call["arguments"] += delta.function_call.arguments
        if delta.content:
            text += delta.content
            sys.stdout.write(delta.content)
        if chunk.choices[0].finish_reason == "function_call":
            return text, func_call
    return text, None


messages = [{"role": "user", "content": "How many dollars are 20 euros?"}]
text, call = stream_reply(messages)
if call:
    messages.append({"role": "assistant", "content": None, "function_call": call})
    result = convert_currency(**json.loads(call["arguments"]))
    messages.append({"role": "function", "name": call["name"], "content": json.dumps(result)})
    stream_reply(messages)
print()
