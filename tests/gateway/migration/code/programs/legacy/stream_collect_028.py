import json
import openai

SCHEMA = {"name": "score", "description": "Score a move", "parameters": {"type": "object", "properties": {"move": {"type": "string"}}}}


def score(move):
    return {"e4": 0.3}.get(move, 0.0)


def collect(messages, **options):
    collected = []
    for chunk in openai.ChatCompletion.create(model="gpt-4", messages=messages, stream=True, **options):
        collected.append(chunk["choices"][0]["delta"])
    return collected


messages = [{"role": "user", "content": "Is e4 good?"}]
deltas = collect(messages, functions=[SCHEMA])
calls = [delta["function_call"] for delta in deltas if "function_call" in delta]
if calls:
    name = "".join(call.get("name", "") for call in calls)
    arguments = "".join(call.get("arguments", "") for call in calls)
    messages.append({"role": "assistant", "content": None, "function_call": {"name": name, "arguments": arguments}})
    messages.append({"role": "function", "name": name, "content": str(score(**json.loads(arguments)))})
    deltas = collect(messages)
print("".join(delta.get("content") or "" for delta in deltas))
