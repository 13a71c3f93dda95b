"""Yield what happens, so that a user interface can show it."""
import json
from typing import Iterator

from openai import OpenAI

client = OpenAI()
FUNCTIONS = [
    {
        "name": "get_distance",
        "description": "Distance of two cities in kilometres",
        "parameters": {
            "type": "object",
            "properties": {"start": {"type": "string"}, "end": {"type": "string"}},
            "required": ["start", "end"],
        },
    }
]


def get_distance(start: str, end: str) -> int:
    return abs(len(start) - len(end)) * 100 + 50


def events(messages: list) -> Iterator[tuple[str, object]]:
    while True:
        function_name = ""
        function_args = ""
        content = ""
        for chunk in client.chat.completions.create(
            model="gpt-4", messages=messages, functions=FUNCTIONS, stream=True
        ):
            delta = chunk.choices[0].delta
            if delta.content:
                content += delta.content
                yield "text", delta.content
            elif delta.function_call:
                function_name += delta.function_call.name or ""
                function_args += delta.function_call.arguments or ""
        if not function_name:
            yield "end", content
            return
        yield "call", function_name
        output = get_distance(**json.loads(function_args))
        yield "output", output
        messages.append(
            {
                "role": "assistant",
                "content": content or None,
                "function_call": {"name": function_name, "arguments": function_args},
            }
        )
        messages.append({"role": "function", "name": function_name, "content": str(output)})


for kind, value in events([{"role": "user", "content": "How far is Ulm from Bonn, and from Trier?"}]):
    if kind != "text":
        print(f"{kind}: {value}")
