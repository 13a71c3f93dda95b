"""Two steps that are both forced: outline a text, then write it."""
import json

from openai import OpenAI

client = OpenAI()
outline_schema = {
    "name": "outline",
    "parameters": {"type": "object", "properties": {"headings": {"type": "array", "items": {"type": "string"}}}},
}
write_schema = {
    "name": "write",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
}


def forced(messages, schema):
    response = client.chat.completions.create(
        model="gpt-4", messages=messages, functions=[schema], function_call={"name": schema["name"]}
    )
    return response.choices[0].message


messages = [{"role": "user", "content": "A text about bridges"}]
first = forced(messages, outline_schema)
headings = json.loads(first.function_call.arguments)["headings"]
print("headings:", "; ".join(headings))

messages.append(first)
messages.append({"role": "function", "name": "outline", "content": "accepted"})
second = forced(messages, write_schema)
print(json.loads(second.function_call.arguments)["text"])
