import json

from openai import OpenAI
from openai.types.chat.chat_completion_message import FunctionCall

client = OpenAI()
stock: dict[str, int] = {"bolt": 10}


def schema(name: str, **properties: str) -> dict:
    return {
        "name": name,
        "parameters": {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in properties.items()},
            "required": sorted(properties),
        },
    }


def execute(call: FunctionCall) -> str:
    match call.name, json.loads(call.arguments):
        case "take", {"part": part, "count": count}:
            stock[part] = stock.get(part, 0) - count
            return f"{stock[part]} left"
        case "put", {"part": part, "count": count}:
            stock[part] = stock.get(part, 0) + count
            return f"{stock[part]} now"
        case name, arguments:
            return f"cannot {name} {arguments}"


messages = [{"role": "user", "content": "Take three bolts and put 5 nuts"}]
functions = [schema("take", part="string", count="integer"), schema("put", part="string", count="integer")]
while (message := client.chat.completions.create(
    model="gpt-4", messages=messages, functions=functions
).choices[0].message).function_call:
    messages.extend(
        (
            message,
            {"role": "function", "name": message.function_call.name, "content": execute(message.function_call)},
        )
    )
print(message.content)
