import json
import sys
import time
from functools import wraps

import openai
from openai.error import APIError, InvalidRequestError, RateLimitError, Timeout


def retry(times, delay=0.01):
    def decorator(function):
        @wraps(function)
        def wrapper(*args, **kwargs):
            for attempt in range(times):
                try:
                    return function(*args, **kwargs)
                except (RateLimitError, Timeout, APIError) as e:
                    print(f"{type(e).__name__}, attempt {attempt + 1}", file=sys.stderr)
                    time.sleep(delay * 2**attempt)
            raise SystemExit("the service is not available")
        return wrapper
    return decorator


@retry(times=3)
def complete(messages, **options):
    return openai.ChatCompletion.create(model="gpt-4-0613", messages=messages, **options)


def get_population(country: str) -> int:
    return {"Iceland": 376_000, "Malta": 519_000}[country]


FUNCTIONS = [{
    "name": "get_population",
    "description": "Population of a country",
    "parameters": {"type": "object", "properties": {"country": {"type": "string"}}, "required": ["country"]},
}]

messages = [{"role": "user", "content": "How many people live in Malta?"}]
try:
    reply = complete(messages, functions=FUNCTIONS)
    message = reply.choices[0].message
    if message.get("function_call"):
        call = message["function_call"]
        messages.append(message)
        messages.append({"role": "function", "name": call["name"], "content": str(get_population(**json.loads(call["arguments"])))})
        reply = complete(messages)
    print(reply.choices[0].message["content"])
except InvalidRequestError as e:
    print("invalid:", e)
except openai.error.OpenAIError as e:
    print("failed:", e)
