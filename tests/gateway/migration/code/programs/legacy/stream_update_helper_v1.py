import json

from openai import OpenAI

client = OpenAI()
SCHEMA = {
    "name": "weigh",
    "description": "Weigh a parcel",
    "parameters": {"type": "object", "properties": {"parcel": {"type": "string"}}},
}


class Accumulator:
    def __init__(self):
        self.content = ""
        self.name = ""
        self.arguments = ""

    def add(self, delta):
        self.content += delta.content or ""
        if delta.function_call is not None:
            self.name += delta.function_call.name or ""
            self.arguments += delta.function_call.arguments or ""

    def to_message(self):
        message = {"role": "assistant", "content": self.content or None}
        if self.name:
            message["function_call"] = {"name": self.name, "arguments": self.arguments}
        return message


def weigh(parcel):
    return f"{len(parcel)} kg"


messages = [{"role": "user", "content": "Weigh the red parcel"}]
while True:
    accumulator = Accumulator()
    for chunk in client.chat.completions.create(
        model="gpt-4", messages=messages, functions=[SCHEMA], stream=True
    ):
        accumulator.add(chunk.choices[0].delta)
    messages.append(accumulator.to_message())
    if not accumulator.name:
        break
    output = weigh(**json.loads(accumulator.arguments))
    messages.append({"role": "function", "name": accumulator.name, "content": output})
print(accumulator.content)
