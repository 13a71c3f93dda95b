"""Gemini calls a part of its replies `function_call` too; that API has no legacy form."""


def collect(response):
    found = []
    for part in response.candidates[0].content.parts:
        if part.function_call:
            found.append((part.function_call.name, dict(part.function_call.args)))
    return found


def contents(history, name, result):
    return history + [{"role": "function", "parts": [{"function_response": {"name": name, "response": result}}]}]


print(contents([], "f", {"ok": True}))
