import json
from typing import Any, Optional

from openai import NOT_GIVEN, OpenAI

client = OpenAI()


def get_completion(
    messages: list[dict[str, Any]],
    functions: Optional[list[dict[str, Any]]] = None,
    function_call: str = "auto",
    model: str = "gpt-3.5-turbo-1106",
    temperature: float = 0,
):
    response = client.chat.completions.create(
        model=model,
        messages=messages,
        functions=functions or NOT_GIVEN,
        function_call=function_call if functions else NOT_GIVEN,
        temperature=temperature,
    )
    return response.choices[0].message


def add_numbers(num1: int, num2: int) -> str:
    return str(num1 + num2)


functions = [
    {
        "name": "add_numbers",
        "description": "Add two integers",
        "parameters": {
            "type": "object",
            "properties": {"num1": {"type": "integer"}, "num2": {"type": "integer"}},
            "required": ["num1", "num2"],
        },
    }
]

print(get_completion([{"role": "user", "content": "Hello"}]).content)
messages = [{"role": "user", "content": "What is 735 + 891?"}]
response = get_completion(messages, functions=functions)
if response.function_call:
    messages.append(response)
    arguments = json.loads(response.function_call.arguments)
    messages.append(
        {"role": "function", "name": response.function_call.name, "content": add_numbers(**arguments)}
    )
    response = get_completion(messages, functions=functions)
print(response.content)
