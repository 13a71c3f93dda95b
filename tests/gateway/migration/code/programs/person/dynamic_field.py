"""The name of the field is chosen at run time, for servers with names of their own."""
import sys

from openai import OpenAI

client = OpenAI()
FIELD = sys.argv[1] if len(sys.argv) > 1 else "function_call"
message = client.chat.completions.create(
    model="gpt-4",
    messages=[{"role": "user", "content": "Go"}],
    functions=[{"name": "go", "parameters": {"type": "object", "properties": {}}}],
).choices[0].message
call = getattr(message, FIELD)
if call is not None:
    print(call.name)
