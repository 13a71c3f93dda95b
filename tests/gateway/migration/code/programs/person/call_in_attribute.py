"""The call is kept in a queue and executed much later."""
import queue

from openai import OpenAI

client = OpenAI()
pending = queue.Queue()
FUNCTIONS = [{"name": "ping", "parameters": {"type": "object", "properties": {}}}]


def ask(messages):
    message = client.chat.completions.create(
        model="gpt-4", messages=messages, functions=FUNCTIONS
    ).choices[0].message
    if message.function_call:
        pending.put((messages, message.function_call))


ask([{"role": "user", "content": "Ping the server"}])
messages, job = pending.get()
print(job.name)
messages.append({"role": "function", "name": job.name, "content": "pong"})
