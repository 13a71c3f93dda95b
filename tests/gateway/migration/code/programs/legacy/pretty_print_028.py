import json

import openai

MODEL = "gpt-3.5-turbo-0613"


class Conversation:
    """A conversation that can be displayed."""

    def __init__(self):
        self.conversation_history = []

    def add_message(self, role, content, **fields):
        self.conversation_history.append({"role": role, "content": content, **fields})

    def display(self):
        for message in self.conversation_history:
            if message["role"] == "function":
                print(f"function ({message['name']}): {message['content']}")
            elif message["role"] == "assistant" and message.get("function_call"):
                print(f"assistant: {message['function_call']['name']}{message['function_call']['arguments']}")
            else:
                print(f"{message['role']}: {message['content']}")


def read_sensor(name):
    return "22.4"


functions = [{
    "name": "read_sensor",
    "description": "Read a sensor",
    "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}]

conversation = Conversation()
conversation.add_message("user", "What does the sensor t1 show?")
response = openai.ChatCompletion.create(
    model=MODEL, messages=conversation.conversation_history, functions=functions
)
message = response["choices"][0]["message"]
if message.get("function_call"):
    call = message["function_call"]
    conversation.add_message("assistant", None, function_call=call)
    conversation.add_message("function", read_sensor(**json.loads(call["arguments"])), name=call["name"])
    response = openai.ChatCompletion.create(
        model=MODEL, messages=conversation.conversation_history, functions=functions
    )
    conversation.add_message("assistant", response["choices"][0]["message"]["content"])
conversation.display()
