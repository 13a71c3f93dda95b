import json

from openai import OpenAI

client = OpenAI()
FUNCTIONS = [{"name": "beep", "parameters": {"type": "object", "properties": {"times": {"type": "integer"}}}}]
history = [{"role": "user", "content": "Beep twice"}]
last_call = None


def beep(times):
    return " ".join(["beep"] * times)


def think():
    global last_call
    message = client.chat.completions.create(
        model="gpt-4", messages=history, functions=FUNCTIONS
    ).choices[0].message
    last_call = message.function_call
    history.append(message)
    return message.content


def act():
    result = beep(**json.loads(last_call.arguments))
    history.append({"role": "function", "name": last_call.name, "content": result})


text = think()
while last_call is not None:
    act()
    text = think()
print(text)
