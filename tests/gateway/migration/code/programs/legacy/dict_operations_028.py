import json
import openai

functions = [
    {"name": "toss", "description": "Toss a coin", "parameters": {"type": "object", "properties": {}}}
]


def toss():
    return "heads"


history = [{"role": "user", "content": "Toss a coin"}]
answer = ""
while not answer:
    response = openai.ChatCompletion.create(model="gpt-4", messages=history, functions=functions)
    for choice in response.get("choices", []):
        message = dict(choice.get("message", {}))
        history.append({key: value for key, value in message.items() if key != "name"})
        if "function_call" in message:
            call = message["function_call"]
            arguments = call.get("arguments") or "{}"
            history.append({
                "role": "function",
                "name": call.get("name"),
                "content": toss(**json.loads(arguments)),
            })
        elif message.get("content"):
            answer = message["content"]
print(answer)
