import json
import os

import openai

openai.api_key = os.environ["OPENAI_API_KEY"]

cart = []


def add_to_cart(item, quantity=1):
    cart.append((item, quantity))
    return "added"


def show_cart():
    return ", ".join(f"{quantity} {item}" for item, quantity in cart) or "empty"


FUNCTIONS = [
    {
        "name": "add_to_cart",
        "description": "Put an item into the cart",
        "parameters": {
            "type": "object",
            "properties": {"item": {"type": "string"}, "quantity": {"type": "integer"}},
            "required": ["item"],
        },
    },
    {"name": "show_cart", "description": "Show the cart", "parameters": {"type": "object", "properties": {}}},
]

conversation = [{"role": "system", "content": "You sell vegetables."}]


def send():
    completion = openai.ChatCompletion.create(
        model="gpt-3.5-turbo", messages=conversation, functions=FUNCTIONS
    )
    return completion.choices[0].message


while True:
    try:
        text = input("> ")
    except EOFError:
        break
    if text == "quit":
        break
    conversation.append({"role": "user", "content": text})
    message = send()
    while message.get("function_call"):
        name = message["function_call"]["name"]
        arguments = json.loads(message["function_call"]["arguments"] or "{}")
        if name == "add_to_cart":
            output = add_to_cart(**arguments)
        elif name == "show_cart":
            output = show_cart()
        else:
            output = "unknown function"
        conversation.append(message)
        conversation.append({"role": "function", "name": name, "content": output})
        message = send()
    conversation.append({"role": "assistant", "content": message["content"]})
    print("bot:", message["content"])
