"""Other parts of version 0.28 are used too, such as its sessions and its error bodies."""
import asyncio
import json

import aiohttp
import openai


async def main():
    session = aiohttp.ClientSession()
    openai.aiosession.set(session)
    try:
        response = await openai.ChatCompletion.acreate(
            model="gpt-4",
            messages=[{"role": "user", "content": "Lock the door"}],
            functions=[{"name": "lock", "parameters": {"type": "object", "properties": {"door": {"type": "string"}}}}],
        )
        call = response["choices"][0]["message"].get("function_call")
        print(json.loads(call["arguments"]) if call else None)
    except openai.error.APIError as error:
        print(error.http_status, error.json_body, error.headers)
    finally:
        await session.close()


asyncio.run(main())
