import asyncio
import json
import os

import httpx

SCHEMA = {
    "name": "lookup_part",
    "description": "Look up a part by its number",
    "parameters": {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]},
}


async def lookup_part(number: str) -> str:
    return {"A1": "hinge", "B2": "spring"}[number]


async def post(client: httpx.AsyncClient, payload: dict) -> dict:
    response = await client.post("chat/completions", json=payload)
    response.raise_for_status()
    return response.json()["choices"][0]


async def main() -> None:
    payload = {
        "model": "gpt-4",
        "messages": [{"role": "user", "content": "What are A1 and B2?"}],
        "functions": [SCHEMA],
        "function_call": "auto",
    }
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"]) as client:
        choice = await post(client, payload)
        while choice["finish_reason"] == "function_call":
            call = choice["message"]["function_call"]
            output = await lookup_part(**json.loads(call["arguments"]))
            payload["messages"] += [
                choice["message"],
                {"role": "function", "name": call["name"], "content": output},
            ]
            choice = await post(client, payload)
    print(choice["message"]["content"])


asyncio.run(main())
