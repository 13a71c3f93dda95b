import json
import logging
import sys

import openai

logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level=logging.WARNING)
log = logging.getLogger("agent")
client = openai.OpenAI(max_retries=0)

functions = [
    {
        "name": "divide",
        "description": "Divide a by b",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    }
]


def divide(a, b):
    return a / b


def run(prompt):
    messages = [{"role": "user", "content": prompt}]
    for attempt in range(8):
        try:
            response = client.chat.completions.create(
                model="gpt-3.5-turbo", messages=messages, functions=functions
            )
        except openai.RateLimitError:
            log.warning("busy")
            continue
        message = response.choices[0].message
        if message.function_call:
            messages.append(
                {
                    "role": "assistant",
                    "function_call": {
                        "name": message.function_call.name,
                        "arguments": message.function_call.arguments,
                    },
                    "content": None,
                }
            )
            try:
                arguments = json.loads(message.function_call.arguments)
                result = divide(**arguments)
            except (json.JSONDecodeError, TypeError, ZeroDivisionError) as error:
                result = f"Error: {error}"
                log.error("%s failed: %s", message.function_call.name, error)
            messages.append(
                {"role": "function", "name": message.function_call.name, "content": str(result)}
            )
        else:
            return message.content
    return None


print(run("What is 7 divided by 0, or else by 2?"))
