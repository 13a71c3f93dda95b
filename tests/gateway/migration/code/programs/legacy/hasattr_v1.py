import json
import openai

client = openai.OpenAI()

TOOLBOX = {}


def tool(function):
    TOOLBOX[function.__name__] = function
    return function


@tool
def hex_to_int(digits):
    return int(digits, 16)


@tool
def int_to_bin(number):
    return bin(number)


def has_function_call(message):
    return hasattr(message, "function_call") and message.function_call is not None


functions = [
    {"name": "hex_to_int", "parameters": {"type": "object", "properties": {"digits": {"type": "string"}}}},
    {"name": "int_to_bin", "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}}},
]
messages = [{"role": "user", "content": "ff as binary, please"}]
answer = None
while answer is None:
    message = client.chat.completions.create(
        model="gpt-3.5-turbo-0613", messages=messages, functions=functions
    ).choices[0].message
    if has_function_call(message):
        called = TOOLBOX[message.function_call.name]
        value = called(**json.loads(message.function_call.arguments))
        messages.append({
            "role": "assistant",
            "content": message.content,
            "function_call": {
                "name": message.function_call.name,
                "arguments": message.function_call.arguments,
            },
        })
        messages.append({"role": "function", "content": str(value), "name": message.function_call.name})
    else:
        answer = message.content
print(answer)
