import json
import os

import openai

openai.api_type = "azure"
openai.api_base = os.environ["AZURE_OPENAI_ENDPOINT"]
openai.api_key = os.environ["AZURE_OPENAI_KEY"]
openai.api_version = "2023-07-01-preview"

messages = [
    {"role": "system", "content": "You help customers of a hotel."},
    {"role": "user", "content": "Is a double room free on 3 May?"},
]
functions = [
    {
        "name": "find_rooms",
        "description": "Find free rooms",
        "parameters": {
            "type": "object",
            "properties": {
                "date": {"type": "string"},
                "beds": {"type": "integer"},
            },
            "required": ["date", "beds"],
        },
    }
]


def find_rooms(date, beds):
    return json.dumps([{"room": 12, "beds": beds, "date": date, "price": 90}])


response = openai.ChatCompletion.create(
    engine="gpt-35-turbo", messages=messages, functions=functions, function_call="auto"
)
message = response["choices"][0]["message"]
if message.get("function_call"):
    arguments = json.loads(message["function_call"]["arguments"])
    messages.append(
        {
            "role": message["role"],
            "function_call": {
                "name": message["function_call"]["name"],
                "arguments": message["function_call"]["arguments"],
            },
            "content": None,
        }
    )
    messages.append({"role": "function", "name": "find_rooms", "content": find_rooms(**arguments)})
    response = openai.ChatCompletion.create(engine="gpt-35-turbo", messages=messages)
print(response["choices"][0]["message"]["content"])
