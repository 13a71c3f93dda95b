import asyncio
import json
import os

import openai

openai.api_key = os.environ["TEAM_KEY"]
openai.api_base = os.environ["TEAM_URL"]

FUNCTION = {
    "name": "keywords",
    "description": "Return the keywords of a text",
    "parameters": {
        "type": "object",
        "properties": {"words": {"type": "array", "items": {"type": "string"}}},
        "required": ["words"],
    },
}


async def keywords(text: str, semaphore: asyncio.Semaphore) -> list:
    async with semaphore:
        response = await openai.ChatCompletion.acreate(
            model="gpt-3.5-turbo-0613",
            messages=[{"role": "user", "content": text}],
            functions=[FUNCTION],
            function_call={"name": "keywords"},
        )
    return json.loads(response.choices[0].message.function_call.arguments)["words"]


async def main(texts):
    semaphore = asyncio.Semaphore(2)
    for text, words in zip(texts, await asyncio.gather(*(keywords(text, semaphore) for text in texts))):
        print(f"{text}: {', '.join(words)}")


asyncio.run(main(["The cat sleeps", "A dog barks"]))
