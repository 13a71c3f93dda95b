import asyncio
import json
from typing import AsyncIterator

import openai

client = openai.AsyncClient()
FUNCTIONS = [
    {
        "name": "get_menu",
        "description": "Menu of a day",
        "parameters": {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
    }
]


async def get_menu(day: str) -> str:
    return {"friday": "fish"}.get(day, "soup")


async def answer(messages: list[dict]) -> AsyncIterator[str]:
    response = await client.chat.completions.create(
        model="gpt-4", messages=messages, functions=FUNCTIONS, function_call="auto", stream=True
    )
    name = arguments = ""
    async for chunk in response:
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        if (piece := delta.function_call) is not None:
            name += piece.name or ""
            arguments += piece.arguments or ""
        if delta.content:
            yield delta.content
        if chunk.choices[0].finish_reason == "function_call":
            result = await get_menu(**json.loads(arguments))
            messages.append({"role": "assistant", "content": None, "function_call": {"name": name, "arguments": arguments}})
            messages.append({"role": "function", "name": name, "content": result})
            async for token in answer(messages):
                yield token


async def main() -> None:
    parts = [token async for token in answer([{"role": "user", "content": "What is there on Friday?"}])]
    print("".join(parts))


if __name__ == "__main__":
    asyncio.run(main())
