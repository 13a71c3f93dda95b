import asyncio
import json

from openai import AsyncOpenAI

client = AsyncOpenAI()

FUNCTIONS = [
    {
        "name": "sunrise",
        "description": "Time of the sunrise",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "date": {"type": "string"}},
            "required": ["place"],
        },
    }
]


async def sunrise(place, date="today"):
    return f"06:4{len(place)} ({date})"


async def stream_completion(messages):
    response = await client.chat.completions.create(
        model="gpt-4-1106-preview",
        messages=messages,
        functions=FUNCTIONS,
        stream=True,
    )
    collected = {"role": "assistant", "content": "", "function_call": {"name": "", "arguments": ""}}
    async for chunk in response:
        choice = chunk.choices[0]
        if choice.delta.content is not None:
            collected["content"] += choice.delta.content
        if choice.delta.function_call is not None:
            if choice.delta.function_call.name is not None:
                collected["function_call"]["name"] = choice.delta.function_call.name
            if choice.delta.function_call.arguments is not None:
                collected["function_call"]["arguments"] += choice.delta.function_call.arguments
    if not collected["function_call"]["name"]:
        del collected["function_call"]
    return collected


async def main():
    messages = [{"role": "user", "content": "When does the sun rise in Riga?"}]
    while "function_call" in (message := await stream_completion(messages)):
        messages.append(message)
        arguments = json.loads(message["function_call"]["arguments"])
        messages.append({
            "role": "function",
            "name": message["function_call"]["name"],
            "content": await sunrise(**arguments),
        })
    print(message["content"])


asyncio.run(main())
