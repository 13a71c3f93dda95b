"""The variable of the reply has another value when the result is sent."""
import json

from openai import OpenAI

client = OpenAI()
FUNCTIONS = [{
    "name": "count_votes",
    "description": "Count the votes for a candidate",
    "parameters": {"type": "object", "properties": {"candidate": {"type": "string"}}},
}]


def count_votes(candidate):
    return {"Ann": 12, "Bob": 7}[candidate]


messages = [{"role": "user", "content": "Who won?"}]
message = client.chat.completions.create(model="gpt-4", messages=messages, functions=FUNCTIONS).choices[0].message
while message.function_call:
    name = message.function_call.name
    arguments = json.loads(message.function_call.arguments)
    messages.append(message)
    message = f"Counting the votes for {arguments['candidate']}"
    print(message)
    messages.append({"role": "function", "name": name, "content": str(count_votes(**arguments))})
    message = client.chat.completions.create(
        model="gpt-4", messages=messages, functions=FUNCTIONS
    ).choices[0].message
print(message.content)
