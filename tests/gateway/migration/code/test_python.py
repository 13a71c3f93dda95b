"""The rewritten form of single Python constructs."""

import pytest

from gateway.migration.code.python.migrate import migrate_python

CREATE = "client.chat.completions.create(messages=m, tools=TOOLS, parallel_tool_calls=False)\n"
NESTED = """{"type": "function", "function": {'name': 'f'}}"""

# Legacy code, and the code that replaces it; None if a person must decide.
REWRITTEN: dict[str, tuple[str, str | None]] = {
    "functions": (
        "client.chat.completions.create(messages=m, functions=F)\n",
        CREATE.replace("TOOLS", '[{"type": "function", "function": function} for function in F]'),
    ),
    "a list of functions": (
        "client.chat.completions.create(messages=m, functions=[F, {'name': 'f'}])\n",
        CREATE.replace("TOOLS", '[{"type": "function", "function": F}, ' + NESTED + "]"),
    ),
    "a condition": (
        "if message.function_call:\n    print(message.function_call.name)\n",
        "if message.tool_calls:\n    print(message.tool_calls[0].function.name)\n",
    ),
    "a comparison with None": (
        "done = message.function_call is None\n",
        "done = not message.tool_calls\n",
    ),
    "a dictionary": (
        'if m.get("function_call"):\n    f = m["function_call"]["name"]\n',
        'if m.get("tool_calls"):\n    f = m["tool_calls"][0]["function"]["name"]\n',
    ),
    "a variable": (
        "call = message.function_call\nif call:\n    print(call.arguments)\n",
        "call = (message.tool_calls or [None])[0]\nif call:\n    print(call.function.arguments)\n",
    ),
    "a reason": (
        'print(choice.finish_reason == "function_call")\n',
        'print(choice.finish_reason == "tool_calls")\n',
    ),
    "a result without its call": (
        'messages.append({"role": "function", "name": n, "content": c})\n',
        None,
    ),
    "a call that is stored": ("self.call = message.function_call\n", None),
}


@pytest.mark.parametrize("case", REWRITTEN)
def test_code_is_rewritten_or_left(case: str) -> None:
    code, expected = REWRITTEN[case]
    result = migrate_python(code)
    assert result.findings
    assert result.rewritten == expected
    assert result.commented == (code if expected else f"{result.commented.splitlines()[0]}\n{code}")
    assert (result.commented.startswith("# dragoman: ")) == (expected is None)
    again = migrate_python(expected or result.commented)
    assert (again.rewritten or again.commented) == (expected or result.commented)


@pytest.mark.parametrize(
    "code",
    ["", "def function(call):\n    return call\n", "functions = {'name': 1}\n", "x = 'role'\n"],
)
def test_other_code_is_not_changed(code: str) -> None:
    result = migrate_python(code)
    assert (result.findings, result.rewritten, result.commented) == ((), code, code)
