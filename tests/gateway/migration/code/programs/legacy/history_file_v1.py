"""A chat that is continued after a restart: the history is kept in a file."""
import json
import pathlib

from openai import OpenAI

FILE = pathlib.Path("history.json")
client = OpenAI()
NOTES = []

functions = [
    {
        "name": "add_note",
        "description": "Write down a note",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    }
]


def add_note(text):
    NOTES.append(text)
    return f"note {len(NOTES)} saved"


def load():
    return json.loads(FILE.read_text()) if FILE.exists() else []


def save(history):
    FILE.write_text(json.dumps(history, indent=2))


def turn(text):
    history = load()
    history.append({"role": "user", "content": text})
    while True:
        message = client.chat.completions.create(
            model="gpt-4", messages=history, functions=functions
        ).choices[0].message.model_dump(exclude_none=True)
        history.append(message)
        save(history)
        if "function_call" not in message:
            return message["content"]
        call = message["function_call"]
        output = add_note(**json.loads(call["arguments"]))
        history.append({"role": "function", "name": call["name"], "content": output})


print(turn("Remember the milk."))
print(turn("Remember the bread and the salt."))
