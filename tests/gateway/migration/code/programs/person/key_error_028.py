"""The program relies on the exception for a key that is not in the reply."""
import json

import openai

response = openai.ChatCompletion.create(
    model="gpt-4",
    messages=[{"role": "user", "content": "Open the window"}],
    functions=[{"name": "open_window", "parameters": {"type": "object", "properties": {"room": {"type": "string"}}}}],
)
message = response["choices"][0]["message"]
try:
    call = message["function_call"]
except KeyError:
    print(message["content"])
else:
    print(call["name"], json.loads(call["arguments"]))
