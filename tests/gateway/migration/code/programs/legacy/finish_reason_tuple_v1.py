import json
from openai import OpenAI

client = OpenAI()
DONE = ("stop", "length", "content_filter")


def measure(body, unit="kg"):
    return {"moon": 7.3e22, "feather": 0.00001}[body]


messages = [
    {"role": "system", "content": "Be exact."},
    {"role": "user", "content": "How heavy is the moon?"},
]
choice = None
while choice is None or choice.finish_reason not in DONE:
    if choice is not None and choice.finish_reason in ("function_call",):
        arguments = json.loads(choice.message.function_call.arguments)
        messages.append(choice.message)
        messages.append({
            "role": "function",
            "name": choice.message.function_call.name,
            "content": "%g" % measure(**arguments),
        })
    choice = client.chat.completions.create(
        model="gpt-4-0613",
        messages=messages,
        functions=[{
            "name": "measure",
            "parameters": {
                "type": "object",
                "properties": {"body": {"type": "string"}, "unit": {"type": "string"}},
                "required": ["body"],
            },
        }],
    ).choices[0]
print(choice.message.content)
