"""An example in the history shows the model how to call the function."""
from openai import OpenAI

client = OpenAI()
EXAMPLE = [
    {"role": "user", "content": "two plus two"},
    {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": '{"a": 2, "b": 2}'}},
    {"role": "function", "name": "add", "content": "4"},
    {"role": "assistant", "content": "four"},
]
ADD = {
    "name": "add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
}
reply = client.chat.completions.create(
    model="gpt-4",
    messages=[*EXAMPLE, {"role": "user", "content": "three plus four"}],
    functions=[ADD],
).choices[0].message
if reply.function_call:
    print(reply.function_call.name, reply.function_call.arguments)
