from __future__ import annotations

import json

from openai import OpenAI
from openai.types.chat import (
    ChatCompletionFunctionMessageParam,
    ChatCompletionMessageParam,
    ChatCompletionUserMessageParam,
)
from openai.types.chat.completion_create_params import Function

client = OpenAI()

functions: list[Function] = [
    Function(
        name="lookup_isbn",
        description="Find the title of a book",
        parameters={
            "type": "object",
            "properties": {"isbn": {"type": "string"}},
            "required": ["isbn"],
        },
    )
]


def lookup_isbn(isbn: str) -> str:
    return {"978-0": "A Book"}.get(isbn, "?")


def main() -> None:
    messages: list[ChatCompletionMessageParam] = [
        ChatCompletionUserMessageParam(role="user", content="Which book is 978-0?")
    ]
    completion = client.chat.completions.create(
        model="gpt-4-1106-preview", messages=messages, functions=functions
    )
    message = completion.choices[0].message
    call = message.function_call
    if call is None:
        print(message.content)
        return
    messages.append(
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": call.name, "arguments": call.arguments},
        }
    )
    messages.append(
        ChatCompletionFunctionMessageParam(
            role="function",
            name=call.name,
            content=lookup_isbn(**json.loads(call.arguments)),
        )
    )
    final = client.chat.completions.create(
        model="gpt-4-1106-preview", messages=messages, functions=functions
    )
    print(final.choices[0].message.content)


main()
