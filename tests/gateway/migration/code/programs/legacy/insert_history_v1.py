import copy
import json

from openai import OpenAI

client = OpenAI()


class Memory(list):
    """The messages, with the instructions always in front."""

    def with_system(self, text):
        copied = copy.deepcopy(list(self))
        copied.insert(0, {"role": "system", "content": text})
        return copied


def add_days(date, days):
    year, month, day = map(int, date.split("-"))
    return f"{year}-{month:02}-{day + days:02}"


memory = Memory()
memory.append({"role": "user", "content": "What is ten days after 2024-02-03?"})
functions = [
    {
        "name": "add_days",
        "description": "Add days to a date",
        "parameters": {
            "type": "object",
            "properties": {"date": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["date", "days"],
        },
    }
]
while True:
    reply = client.chat.completions.create(
        model="gpt-4",
        messages=memory.with_system("Today is 2024-02-01."),
        functions=functions,
    ).choices[0].message.model_dump()
    if reply["function_call"] is None:
        break
    call = reply["function_call"]
    memory.append({"role": "assistant", "content": reply["content"], "function_call": call})
    memory.append({"role": "function", "name": call["name"], "content": add_days(**json.loads(call["arguments"]))})
print(reply["content"])
print(len(memory), "messages in the memory")
