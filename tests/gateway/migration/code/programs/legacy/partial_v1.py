import json
from functools import partial

from openai import OpenAI

FUNCTIONS = [
    {
        "name": "uppercase",
        "description": "Convert a text to upper case",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    }
]

complete = partial(
    OpenAI().chat.completions.create,
    model="gpt-3.5-turbo",
    functions=FUNCTIONS,
    temperature=0.0,
)


def uppercase(text):
    return text.upper()


log = [{"role": "user", "content": "Shout hello"}]
message = complete(messages=log).choices[0].message
if message.function_call:
    log.append(message)
    log.append(
        {
            "role": "function",
            "name": message.function_call.name,
            "content": uppercase(**json.loads(message.function_call.arguments)),
        }
    )
    message = complete(messages=log, function_call="none").choices[0].message
print(message.content)
