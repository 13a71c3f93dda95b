"""The name of the field is computed, so that one loop serves several servers."""
import sys

from openai import OpenAI

client = OpenAI()
field = sys.argv[1] if len(sys.argv) > 1 else "function_call"
message = client.chat.completions.create(
    model="gpt-4",
    messages=[{"role": "user", "content": "Go"}],
    functions=[{"name": "go", "parameters": {"type": "object", "properties": {}}}],
).choices[0].message
call = getattr(message, field, None) or message.function_call
handlers = {field: lambda value: print(value.name)}
handlers[field](call)
