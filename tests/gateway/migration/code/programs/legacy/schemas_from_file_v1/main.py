import importlib
import json
from pathlib import Path

from openai import OpenAI

HERE = Path(__file__).parent
with open(HERE / "functions.json") as file:
    functions = json.load(file)

client = OpenAI()
messages = [{"role": "user", "content": "Where is article 12?"}]
response = client.chat.completions.create(model="gpt-4", messages=messages, functions=functions)
message = response.choices[0].message
if message.function_call:
    # Each function is a module with the function `main`.
    module = importlib.import_module(f"plugin_{message.function_call.name}")
    output = module.main(json.loads(message.function_call.arguments))
    messages.append(message)
    messages.append({"role": "function", "name": message.function_call.name, "content": output})
    response = client.chat.completions.create(model="gpt-4", messages=messages, functions=functions)
print(response.choices[0].message.content)
