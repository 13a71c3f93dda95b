import json

import openai as ai


class Calculator:
    """The functions that the model may call."""

    @staticmethod
    def square(x):
        return x * x

    @staticmethod
    def cube(x):
        return x**3


def describe(name, text):
    return {
        "name": name,
        "description": text,
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    }


fns = [describe("square", "Square of x"), describe("cube", "Cube of x")]
msgs = [{"role": "user", "content": "4 squared and 2 cubed?"}]

resp = ai.ChatCompletion.create(model="gpt-3.5-turbo-0613", messages=msgs, functions=fns, function_call="auto")
while resp["choices"][0]["message"].get("function_call"):
    msg = resp["choices"][0]["message"]
    fname = msg["function_call"]["name"]
    fargs = json.loads(msg["function_call"]["arguments"])
    fresult = getattr(Calculator, fname)(**fargs)
    msgs.extend([msg, {"role": "function", "name": fname, "content": f"{fresult}"}])
    resp = ai.ChatCompletion.create(model="gpt-3.5-turbo-0613", messages=msgs, functions=fns, function_call="auto")
print(resp["choices"][0]["message"]["content"])
