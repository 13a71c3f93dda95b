"""A state machine: the call is kept between two methods."""
import json

from openai import OpenAI


class Machine:
    functions = [
        {
            "name": "drill",
            "description": "Drill a hole",
            "parameters": {"type": "object", "properties": {"depth": {"type": "integer"}}},
        }
    ]

    def __init__(self, prompt):
        self.client = OpenAI()
        self.messages = [{"role": "user", "content": prompt}]
        self.call = None
        self.text = None

    def think(self):
        message = self.client.chat.completions.create(
            model="gpt-4", messages=self.messages, functions=self.functions
        ).choices[0].message
        self.messages.append(message)
        self.call = message.function_call
        self.text = message.content

    def act(self):
        output = drill(**json.loads(self.call.arguments))
        self.messages.append({"role": "function", "name": self.call.name, "content": output})
        self.call = None

    def run(self):
        self.think()
        while self.call:
            self.act()
            self.think()
        return self.text


def drill(depth):
    return f"{depth} mm deep"


print(Machine("Drill a hole").run())
