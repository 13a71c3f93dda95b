import json

from openai import OpenAI

client = OpenAI()

PRICES = {"apple": 0.5, "pear": 0.75, "melon": 3.0}


def get_price(fruit: str) -> float:
    return PRICES[fruit]


def add(a: float, b: float) -> float:
    return a + b


FUNCTIONS = [
    {
        "name": "get_price",
        "description": "Look up the price of a fruit.",
        "parameters": {
            "type": "object",
            "properties": {"fruit": {"type": "string"}},
            "required": ["fruit"],
        },
    },
    {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
]
TOOLS = {"get_price": get_price, "add": add}

messages = [
    {"role": "system", "content": "You are a greengrocer."},
    {"role": "user", "content": "What do an apple and a melon cost together?"},
]

while True:
    response = client.chat.completions.create(
        model="gpt-4-0613", messages=messages, functions=FUNCTIONS, temperature=0
    )
    message = response.choices[0].message
    if message.function_call is None:
        print(message.content)
        break
    messages.append(message)
    function_name = message.function_call.name
    kwargs = json.loads(message.function_call.arguments)
    print(f"calling {function_name} with {kwargs}")
    result = TOOLS[function_name](**kwargs)
    messages.append({"role": "function", "name": function_name, "content": str(result)})
