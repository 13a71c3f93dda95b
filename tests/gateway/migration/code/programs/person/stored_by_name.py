"""Results are found by the name of their function, which is no id."""
import json

from openai import OpenAI

client = OpenAI()
FUNCTIONS = [{"name": "rate", "parameters": {"type": "object", "properties": {"pair": {"type": "string"}}}}]


class Results:
    def __init__(self):
        self.by_name = {}

    def add(self, name, value):
        self.by_name[name] = value

    def as_messages(self):
        return [
            {"role": "function", "name": name, "content": json.dumps(value)}
            for name, value in self.by_name.items()
        ]


results = Results()
results.add("rate", {"EURUSD": 1.1})
messages = [{"role": "user", "content": "EUR to USD?"}, *results.as_messages()]
print(client.chat.completions.create(model="gpt-4", messages=messages, functions=FUNCTIONS))
