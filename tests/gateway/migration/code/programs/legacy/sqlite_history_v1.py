import json
import sqlite3

from openai import OpenAI

client = OpenAI()
database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, chat TEXT, body TEXT)")

FUNCTIONS = [{
    "name": "set_alarm",
    "description": "Set an alarm",
    "parameters": {"type": "object", "properties": {"time": {"type": "string"}}, "required": ["time"]},
}]


def set_alarm(time):
    return f"alarm at {time}"


def remember(chat, message):
    database.execute("INSERT INTO messages (chat, body) VALUES (?, ?)", (chat, json.dumps(message)))


def recall(chat):
    rows = database.execute("SELECT body FROM messages WHERE chat = ? ORDER BY id", (chat,))
    return [json.loads(body) for (body,) in rows]


def talk(chat, text):
    remember(chat, {"role": "user", "content": text})
    message = complete(chat)
    while message.function_call:
        call = message.function_call
        remember(chat, {
            "role": "assistant",
            "content": None,
            "function_call": {"name": call.name, "arguments": call.arguments},
        })
        remember(chat, {"role": "function", "name": call.name, "content": set_alarm(**json.loads(call.arguments))})
        message = complete(chat)
    remember(chat, {"role": "assistant", "content": message.content})
    return message.content


def complete(chat):
    return client.chat.completions.create(
        model="gpt-4", messages=recall(chat), functions=FUNCTIONS
    ).choices[0].message


print(talk("a", "Wake me at six and at seven"))
print(talk("b", "Wake me at nine"))
print(database.execute("SELECT count(*) FROM messages").fetchone()[0])
