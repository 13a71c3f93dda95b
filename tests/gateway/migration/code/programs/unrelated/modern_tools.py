"""A program that uses tools already."""
import json

from openai import OpenAI

client = OpenAI()
functions = {"now": lambda: "12:00"}
tools = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]
messages = [{"role": "user", "content": "What time is it?"}]
while True:
    message = client.chat.completions.create(model="gpt-4o", messages=messages, tools=tools).choices[0].message
    messages.append(message)
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        output = functions[call.function.name](**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
print(message.content)
