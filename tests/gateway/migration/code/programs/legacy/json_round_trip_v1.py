import json

from openai import OpenAI

client = OpenAI()


def make_request(messages, functions=None):
    kwargs = {"model": "gpt-4", "messages": messages}
    if functions:
        kwargs.update({"functions": functions, "function_call": "auto"})
    completion = client.chat.completions.create(**kwargs)
    return json.loads(completion.model_dump_json(exclude_none=True))


def find_flight(origin, destination):
    return [{"flight": "XY 12", "from": origin, "to": destination}]


schema = {
    "name": "find_flight",
    "description": "Find flights",
    "parameters": {
        "type": "object",
        "properties": {"origin": {"type": "string"}, "destination": {"type": "string"}},
        "required": ["origin", "destination"],
    },
}
messages = [
    {"role": "system", "content": "You are a travel agent."},
    {"role": "user", "content": "From Graz to Rome"},
]
data = make_request(messages, [schema])
message = data["choices"][0]["message"]
if message.get("function_call"):
    messages.append(message)
    flights = find_flight(**json.loads(message["function_call"]["arguments"]))
    messages.append({"role": "function", "name": message["function_call"]["name"], "content": json.dumps(flights)})
    message = make_request(messages)["choices"][0]["message"]
print(message["content"])
