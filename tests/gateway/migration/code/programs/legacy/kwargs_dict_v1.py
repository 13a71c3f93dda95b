import json
from openai import OpenAI

client = OpenAI()


def shipping_cost(weight_kg, country):
    base = 4 if country == "DE" else 12
    return {"cost": base + 2 * weight_kg}


def complete(history, use_functions=True):
    kwargs = dict(model="gpt-3.5-turbo", messages=history, max_tokens=200)
    if use_functions:
        kwargs["functions"] = [{
            "name": "shipping_cost",
            "parameters": {
                "type": "object",
                "properties": {"weight_kg": {"type": "number"}, "country": {"type": "string"}},
            },
        }]
        kwargs["function_call"] = "auto"
    return client.chat.completions.create(**kwargs).choices[0]


history = [{"role": "user", "content": "What does it cost to send 3 kg to France?"}]
choice = complete(history)
if choice.finish_reason == "function_call":
    fn = choice.message.function_call
    history.append({"role": "assistant", "content": "", "function_call": {"name": fn.name, "arguments": fn.arguments}})
    history.append({"role": "function", "name": fn.name, "content": json.dumps(shipping_cost(**json.loads(fn.arguments)))})
    choice = complete(history, use_functions=False)
print(choice.message.content)
