import json
import os
import sys

import openai

openai.api_key = os.environ.get("OPENAI_API_KEY") or sys.exit("set OPENAI_API_KEY")

schema = json.loads("""
{
  "name": "play_song",
  "description": "Play a song",
  "parameters": {
    "type": "object",
    "properties": {"title": {"type": "string"}, "volume": {"type": "integer"}},
    "required": ["title"]
  }
}
""")


def play_song(title, volume=5):
    return f"playing {title} at volume {volume}"


messages = [{"role": "user", "content": "Play Bolero, quietly"}]
for _ in range(3):
    response = openai.chat.completions.create(model="gpt-3.5-turbo-1106", messages=messages, functions=[schema])
    choice = response.choices[0]
    if choice.finish_reason == "function_call":
        fc = choice.message.function_call
        try:
            output = play_song(**json.loads(fc.arguments))
        except TypeError as e:
            output = repr(e)
        messages.append({"role": "assistant", "content": None, "function_call": fc})
        messages.append({"role": "function", "name": fc.name, "content": output})
    elif choice.finish_reason in ("stop", "length"):
        print(choice.message.content)
        break
else:
    print("no answer")
