from __future__ import annotations

import json
from typing import Any, Callable

from openai import OpenAI


class Assistant:
    """Keeps the conversation and the functions that may be called."""

    def __init__(self, system: str, model: str = "gpt-4") -> None:
        self.client = OpenAI()
        self.model = model
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
        self.functions: list[dict[str, Any]] = []
        self.callables: dict[str, Callable[..., Any]] = {}

    def register(self, function: Callable[..., Any], description: str, **parameters: str) -> None:
        properties = {name: {"type": kind} for name, kind in parameters.items()}
        self.functions.append({
            "name": function.__name__,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": list(parameters)},
        })
        self.callables[function.__name__] = function

    def ask(self, text: str) -> str:
        self.messages.append({"role": "user", "content": text})
        return self._complete()

    def _complete(self) -> str:
        response = self.client.chat.completions.create(
            model=self.model,
            messages=self.messages,
            functions=self.functions,
            function_call="auto",
        )
        message = response.choices[0].message
        if message.function_call:
            self.messages.append(message)
            self._call(message.function_call)
            return self._complete()
        self.messages.append({"role": "assistant", "content": message.content})
        return message.content

    def _call(self, function_call) -> None:
        function = self.callables[function_call.name]
        result = function(**json.loads(function_call.arguments))
        self.messages.append(
            {"role": "function", "name": function_call.name, "content": json.dumps(result)}
        )


def turn_on(room: str) -> dict:
    return {"room": room, "light": "on"}


def set_heating(room: str, degrees: float) -> dict:
    return {"room": room, "degrees": degrees}


home = Assistant("You control a house.")
home.register(turn_on, "Turn on the light of a room", room="string")
home.register(set_heating, "Set the heating of a room", room="string", degrees="number")
print(home.ask("It is dark and cold in the kitchen."))
print(home.ask("And in the bathroom it is dark."))
