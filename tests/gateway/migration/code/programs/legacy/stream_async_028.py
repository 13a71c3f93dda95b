import asyncio
import json

import openai

FUNCTIONS = [
    {
        "name": "translate",
        "description": "Translate a word",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string"}, "language": {"type": "string"}},
            "required": ["word", "language"],
        },
    }
]


def translate(word, language):
    return {"cat": {"de": "Katze", "fr": "chat"}}[word][language]


async def converse(messages):
    name, arguments = None, ""
    async for chunk in await openai.ChatCompletion.acreate(
        model="gpt-3.5-turbo-0613", messages=messages, functions=FUNCTIONS, stream=True
    ):
        delta = chunk["choices"][0]["delta"]
        if "function_call" in delta:
            if "name" in delta["function_call"]:
                name = delta["function_call"]["name"]
            arguments += delta["function_call"].get("arguments", "")
        elif delta.get("content"):
            print(delta["content"], end="", flush=True)
    if name is None:
        print()
        return
    result = translate(**json.loads(arguments))
    messages.append({"role": "assistant", "content": None, "function_call": {"name": name, "arguments": arguments}})
    messages.append({"role": "function", "name": name, "content": result})
    await converse(messages)


asyncio.run(converse([{"role": "user", "content": "Cat in German, please."}]))
