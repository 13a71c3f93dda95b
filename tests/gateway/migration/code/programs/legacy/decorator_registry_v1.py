import inspect
import json
from functools import wraps

from openai import OpenAI

REGISTRY = {}
TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}


def ai_function(func):
    signature = inspect.signature(func)
    properties = {
        name: {"type": TYPES.get(parameter.annotation, "string")}
        for name, parameter in signature.parameters.items()
    }
    required = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    REGISTRY[func.__name__] = {
        "call": func,
        "schema": {
            "name": func.__name__,
            "description": inspect.getdoc(func) or "",
            "parameters": {"type": "object", "properties": properties, "required": required},
        },
    }

    @wraps(func)
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapper


@ai_function
def factorial(n: int):
    """Return the factorial of a number."""
    return n * factorial(n - 1) if n > 1 else 1


@ai_function
def power(base: int, exponent: int = 2):
    """Raise a number to a power."""
    return base**exponent


def main():
    client = OpenAI()
    chat = [{"role": "user", "content": "Compute 2 to the 10th, then 3!"}]
    for _ in range(10):
        completion = client.chat.completions.create(
            model="gpt-4",
            messages=chat,
            functions=[entry["schema"] for entry in REGISTRY.values()],
        )
        msg = completion.choices[0].message
        if not msg.function_call:
            return msg.content
        chat.append(msg.model_dump(exclude_none=True))
        entry = REGISTRY[msg.function_call.name]
        value = entry["call"](**json.loads(msg.function_call.arguments))
        chat.append({"role": "function", "name": msg.function_call.name, "content": str(value)})
    return "gave up"


if __name__ == "__main__":
    print(main())
