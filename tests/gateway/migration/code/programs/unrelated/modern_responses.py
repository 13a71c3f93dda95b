import json

from openai import OpenAI

client = OpenAI()
items = [{"role": "user", "content": "How many users are there?"}]
TOOLS = [{"type": "function", "name": "count", "parameters": {"type": "object", "properties": {}}, "strict": False}]
while True:
    response = client.responses.create(model="gpt-5", input=items, tools=TOOLS)
    items += response.output
    calls = [item for item in response.output if item.type == "function_call"]
    if not calls:
        break
    for call in calls:
        print(call.name, json.loads(call.arguments))
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": "42"})
print(response.output_text)
