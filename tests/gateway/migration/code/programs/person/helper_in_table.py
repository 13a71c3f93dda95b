"""The helper that builds the message is called by other code through a table."""
import json

from openai import OpenAI


def user_message(content, name=None):
    return {"role": "user", "content": content}


def function_message(content, name=None):
    return {"role": "function", "name": name, "content": content}


BUILDERS = {"user": user_message, "function": function_message}


def build(events):
    return [BUILDERS[kind](content, name) for kind, content, name in events]


client = OpenAI()
events = [("user", "Feed the cat", None)]
FUNCTIONS = [{"name": "feed", "parameters": {"type": "object", "properties": {"animal": {"type": "string"}}}}]
reply = client.chat.completions.create(model="gpt-4", messages=build(events), functions=FUNCTIONS).choices[0].message
if reply.function_call:
    animal = json.loads(reply.function_call.arguments)["animal"]
    events.append(("function", f"the {animal} is fed", reply.function_call.name))
    print(client.chat.completions.create(model="gpt-4", messages=build(events)).choices[0].message.content)
