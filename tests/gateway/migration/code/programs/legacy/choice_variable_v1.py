import json
from typing import Literal, Union

from openai import OpenAI

client = OpenAI()
Choice = Union[Literal["auto", "none"], dict]

SCHEMAS = {
    "plan": {
        "name": "plan",
        "description": "Write down the steps",
        "parameters": {
            "type": "object",
            "properties": {"steps": {"type": "array", "items": {"type": "string"}}},
            "required": ["steps"],
        },
    },
    "finish": {
        "name": "finish",
        "description": "Report that a step is done",
        "parameters": {"type": "object", "properties": {"step": {"type": "string"}}},
    },
}
done = []


def plan(steps):
    return f"{len(steps)} steps"


def finish(step):
    done.append(step)
    return "ok"


def ask(messages, choice: Choice = "auto"):
    response = client.chat.completions.create(
        model="gpt-4",
        messages=messages,
        functions=list(SCHEMAS.values()),
        function_call=choice,
    )
    return response.choices[0].message


messages = [{"role": "user", "content": "Bake a cake"}]
# First a plan, then whatever the model wants.
choice: Choice = {"name": "plan"}
for _ in range(5):
    message = ask(messages, choice)
    choice = "auto"
    if not message.function_call:
        break
    call = message.function_call
    function = {"plan": plan, "finish": finish}[call.name]
    messages.append({"role": "assistant", "content": None, "function_call": call.model_dump()})
    messages.append({"role": "function", "name": call.name, "content": function(**json.loads(call.arguments))})
print(message.content, done)
