"""The rewritten form of single Python constructs."""

import pytest

from gateway.migration.code.python.migrate import migrate_python

CREATE = "client.chat.completions.create(messages=m, tools=TOOLS, parallel_tool_calls=False)\n"
NESTED = """{"type": "function", "function": {"name": "f"}}"""
FIRST = "message.tool_calls[0] if message.tool_calls else None"

# Legacy code, and the code that replaces it; None if a person must decide.
REWRITTEN: dict[str, tuple[str, str | None]] = {
    "functions": (
        "client.chat.completions.create(messages=m, functions=F)\n",
        CREATE.replace("TOOLS", '[{"type": "function", "function": function} for function in F]'),
    ),
    "a list of functions": (
        'client.chat.completions.create(messages=m, functions=[F, {"name": "f"}])\n',
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
        f"call = {FIRST}\nif call:\n    print(call.function.arguments)\n",
    ),
    "a reason": (
        'print(choice.finish_reason == "function_call")\n',
        'print(choice.finish_reason == "tool_calls")\n',
    ),
    "a result without its call": (
        'messages.append({"role": "function", "name": n, "content": c})\n',
        None,
    ),
    "a call that is stored": (
        "self.call = message.function_call\nprint(self.call.name)\n",
        f"self.call = {FIRST}\nprint(self.call.function.name)\n",
    ),
}


@pytest.mark.parametrize("case", REWRITTEN)
def test_code_is_rewritten_or_left(case: str) -> None:
    code, expected = ("import openai\n" + (one or "") for one in REWRITTEN[case])
    is_left = REWRITTEN[case][1] is None
    result = migrate_python(code)
    assert result.findings
    assert any(one.reason for one in result.findings) == is_left
    if is_left:
        lines = result.text.splitlines(keepends=True)
        assert lines.pop(1).startswith("# dragoman: ")
        assert "".join(lines) == code
    else:
        assert result.text == expected
    assert migrate_python(result.text).text == result.text


@pytest.mark.parametrize(
    "code",
    ["", "def function(call):\n    return call\n", "functions = {'name': 1}\n", "x = 'role'\n"],
)
def test_other_code_is_not_changed(code: str) -> None:
    result = migrate_python(code)
    assert (result.findings, result.text) == ((), code)
