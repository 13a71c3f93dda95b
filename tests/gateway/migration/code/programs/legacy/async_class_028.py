import asyncio
import json

import openai


class Planner:
    def __init__(self, model="gpt-4-0613"):
        self.model = model
        self.history = []
        self.functions = [{
            "name": "book_table",
            "description": "Book a table in a restaurant",
            "parameters": {
                "type": "object",
                "properties": {"people": {"type": "integer"}, "time": {"type": "string"}},
                "required": ["people", "time"],
            },
        }]

    async def book_table(self, people, time):
        await asyncio.sleep(0)
        return {"table": 7, "people": people, "time": time}

    async def _request(self):
        response = await openai.ChatCompletion.acreate(
            model=self.model,
            messages=self.history,
            functions=self.functions,
            temperature=0,
        )
        return response["choices"][0]

    async def run(self, text):
        self.history.append({"role": "user", "content": text})
        for _ in range(4):
            choice = await self._request()
            self.history.append(choice["message"])
            if choice["finish_reason"] == "stop":
                return choice["message"]["content"]
            await self._answer(choice["message"]["function_call"])

    async def _answer(self, function_call):
        method = getattr(self, function_call["name"])
        result = await method(**json.loads(function_call["arguments"]))
        self.history.append({
            "role": "function",
            "name": function_call["name"],
            "content": json.dumps(result, sort_keys=True),
        })


async def main():
    planner = Planner()
    print(await planner.run("A table for four at eight, please."))
    print(len(planner.history), "messages")


if __name__ == "__main__":
    asyncio.run(main())
