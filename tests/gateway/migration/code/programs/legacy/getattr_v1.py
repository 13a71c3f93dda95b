import json
from openai import OpenAI

client = OpenAI()

def capital(country):
    return dict(France="Paris", Peru="Lima")[country]

FUNCTIONS = [{"name": "capital", "parameters": {"type": "object", "properties": {"country": {"type": "string"}}}}]
messages = [{"role": "user", "content": "Capital of Peru?"}]
response = client.chat.completions.create(model="gpt-4", messages=messages, functions=FUNCTIONS)
message = response.choices[0].message

function_call = getattr(message, "function_call", None)
if function_call is not None:
    arguments = json.loads(getattr(function_call, "arguments", "{}"))
    messages.append(message)
    messages.append({"role": "function", "name": getattr(function_call, "name"), "content": capital(**arguments)})
    response = client.chat.completions.create(model="gpt-4", messages=messages, functions=FUNCTIONS)
    message = response.choices[0].message

print(message.content if getattr(message, "content", None) else "nothing")
