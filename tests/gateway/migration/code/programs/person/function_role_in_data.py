"""Conversations are read from a file that other programs write."""
import json
import sys

from openai import OpenAI

client = OpenAI()
for line in sys.stdin:
    record = json.loads(line)
    if any(message["role"] == "function" for message in record["messages"]):
        reply = client.chat.completions.create(
            model="gpt-4", messages=record["messages"], functions=record["functions"]
        )
        print(reply.choices[0].message.content or reply.choices[0].message.function_call.name)
