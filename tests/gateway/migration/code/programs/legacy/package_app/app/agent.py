from openai import AsyncOpenAI

from .functions import Registry
from .history import History


class Agent:
    def __init__(self, registry: Registry, model: str = "gpt-4") -> None:
        self.client = AsyncOpenAI()
        self.registry = registry
        self.history = History()
        self.model = model

    async def chat(self, text: str) -> str:
        self.history.add_user(text)
        while True:
            completion = await self.client.chat.completions.create(
                model=self.model,
                messages=self.history.messages,
                functions=self.registry.schemas,
            )
            message = completion.choices[0].message
            if message.function_call is None:
                self.history.add_assistant(message.content)
                return message.content
            self.history.add_call(message)
            result = await self.registry.execute(message.function_call)
            self.history.add_result(message.function_call.name, result)
