import json

from openai import OpenAI

client = OpenAI()
functions = [
    {
        "name": "ping_host",
        "description": "Measure the round trip to a host",
        "parameters": {
            "type": "object",
            "properties": {"host": {"type": "string"}},
            "required": ["host"],
        },
    }
]


def ping_host(host: str) -> dict:
    return {"host": host, "ms": 12}


messages = [{"role": "user", "content": "Is the gateway reachable?"}]
raw = client.chat.completions.with_raw_response.create(
    model="gpt-4", messages=messages, functions=functions
)
print("type:", raw.headers["content-type"])
completion = raw.parse()
message = completion.choices[0].message
if message.function_call is not None:
    messages.append(message)
    messages.append(
        {
            "role": "function",
            "name": message.function_call.name,
            "content": json.dumps(ping_host(**json.loads(message.function_call.arguments))),
        }
    )
    raw = client.chat.completions.with_raw_response.create(model="gpt-4", messages=messages)
    completion = raw.parse()
print(completion.choices[0].message.content)
