import json

import openai

client = openai.OpenAI()


def user_message(text):
    return {"role": "user", "content": text}


def function_message(name, content):
    return {"role": "function", "name": name, "content": content}


def call_message(call):
    return {
        "role": "assistant",
        "content": None,
        "function_call": {"name": call.name, "arguments": call.arguments},
    }


SCHEMAS = [
    {
        "name": "search_books",
        "description": "Search the catalogue of the library.",
        "parameters": {
            "type": "object",
            "properties": {"author": {"type": "string"}},
            "required": ["author"],
        },
    }
]
BOOKS = {"Lem": ["Solaris", "The Cyberiad"]}


def search_books(author):
    return BOOKS.get(author, [])


def chat(messages):
    return client.chat.completions.create(
        model="gpt-3.5-turbo-16k", messages=messages, functions=SCHEMAS
    ).choices[0].message


conversation = [user_message("Which books by Lem do you have?")]
reply = chat(conversation)
while reply.function_call:
    call = reply.function_call
    found = search_books(**json.loads(call.arguments))
    conversation.append(call_message(call))
    conversation.append(function_message(call.name, json.dumps(found)))
    reply = chat(conversation)
print(reply.content)
