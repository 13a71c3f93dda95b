import json
from abc import ABC, abstractmethod

from openai import OpenAI


class BaseAgent(ABC):
    model = "gpt-4"

    def __init__(self):
        self.client = OpenAI()
        self.log = []

    @abstractmethod
    def functions(self):
        ...

    @abstractmethod
    def execute(self, name, arguments):
        ...

    def result_message(self, name, result):
        return {"role": "function", "name": name, "content": result}

    def run(self, text):
        self.log.append({"role": "user", "content": text})
        while True:
            message = self.client.chat.completions.create(
                model=self.model, messages=self.log, functions=self.functions()
            ).choices[0].message
            self.log.append(message)
            if not message.function_call:
                return message.content
            result = self.execute(message.function_call.name, json.loads(message.function_call.arguments))
            self.log.append(self.result_message(message.function_call.name, result))


class Librarian(BaseAgent):
    def functions(self):
        return [{"name": "shelf", "parameters": {"type": "object", "properties": {"title": {"type": "string"}}}}]

    def execute(self, name, arguments):
        return getattr(self, name)(**arguments)

    def result_message(self, name, result):
        message = super().result_message(name, result)
        message["content"] = message["content"].upper()
        return message

    def shelf(self, title):
        return f"shelf {len(title)}"


print(Librarian().run("Where is Emma?"))
