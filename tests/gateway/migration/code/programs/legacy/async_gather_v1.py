import asyncio
import json

from openai import AsyncOpenAI

client = AsyncOpenAI(max_retries=0)

COUNT_WORDS = {
    "name": "count_words",
    "description": "Count the words of a text",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


async def count_words(text: str) -> str:
    await asyncio.sleep(0)
    return str(len(text.split()))


async def ask(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    first = await client.chat.completions.create(
        model="gpt-3.5-turbo-1106", messages=messages, functions=[COUNT_WORDS]
    )
    reply = first.choices[0].message
    if not reply.function_call:
        return reply.content
    arguments = json.loads(reply.function_call.arguments)
    messages += [
        reply,
        {
            "role": "function",
            "name": reply.function_call.name,
            "content": await count_words(**arguments),
        },
    ]
    second = await client.chat.completions.create(model="gpt-3.5-turbo-1106", messages=messages)
    return second.choices[0].message.content


async def main():
    answers = await asyncio.gather(
        ask("Count: to be or not to be"),
        ask("Count: hello world"),
    )
    print("\n".join(answers))


asyncio.run(main())
