"""The result of a function is sent without the call, which only legacy functions allow."""
from openai import OpenAI

client = OpenAI()
messages = [
    {"role": "user", "content": "What is on the menu?"},
    {"role": "function", "name": "get_menu", "content": "soup, bread"},
]
reply = client.chat.completions.create(
    model="gpt-4",
    messages=messages,
    functions=[{"name": "get_menu", "parameters": {"type": "object", "properties": {}}}],
)
print(reply.choices[0].message.content)
