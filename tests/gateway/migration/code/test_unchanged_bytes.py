"""What a migration does not rewrite keeps its bytes."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.migration.code.python.migrate import migrate_python
from gateway.migration.code.run import migrate_files

LEGACY = "print(client.chat.completions.create(messages=m, functions=[F]))"
TOOLS = (
    'print(client.chat.completions.create(messages=m, tools=[{"type": "function", "function": F}], '
    "parallel_tool_calls=False))"
)
# Source files whose form is easily lost.
FORMS: dict[str, bytes] = {
    "carriage returns": b"import openai\r\n\r\nx = '''a\r\nb'''\r\n%s\r\n",
    "mixed line ends": b"import openai\n%s\r\nx = 1\n",
    "byte order mark": b"\xef\xbb\xbfimport openai\n%s\n",
    "another encoding": b'# -*- coding: latin-1 -*-\nname = "\xe9"\n%s\n',
    "tabs": b"if True:\n\tif  x :\n\t\t%s\n",
    "form feed": b"import openai\n\x0c\n%s\n",
    "no final line end": b"import openai\n%s",
    "trailing spaces": b"x = 1   \n%s  \n\n\n",
    "continued lines": b"x = 1 + \\\n    2\n%s ; y = 3\n",
}


def _migrated(path: Path) -> tuple[bytes, int]:
    """Migrate a file, and return its new content and the number of findings."""
    [result] = migrate_files([path], lambda _: None).files
    if result.is_changed:
        result.file.write(result.text)
    return path.read_bytes(), len(result.findings)


@pytest.mark.parametrize("form", FORMS)
def test_form_of_a_file_is_kept(form: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_bytes(FORMS[form] % LEGACY.encode())
    expected = FORMS[form] % TOOLS.encode()
    assert _migrated(path) == (expected, 1)
    assert _migrated(path) == (expected, 0)


@pytest.mark.parametrize("form", FORMS)
def test_file_without_findings_is_not_changed(form: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_bytes(FORMS[form] % b"functions = ['function_call']")
    written = path.read_bytes()
    assert _migrated(path) == (written, 0)


_NAMES = st.sampled_from(("message", "call", "reply", "x"))
_EXPRESSIONS = st.sampled_from((
    "reply.choices[0].message",
    "message.function_call",
    "message.function_call.name",
    "json.loads(call.arguments)",
    "message.get('function_call')",
    "reply['choices'][0]",
    "client.chat.completions.create(messages=m, functions=F, function_call='auto')",
    "openai.ChatCompletion.create(engine='e', messages=m, **x)",
    "{'role': 'function', 'name': call.name, 'content': x}",
    "[message, {'role': 'assistant', 'function_call': call}]",
    "reply.choices[0].finish_reason == 'function_call'",
    "'function_call' in message",
    "getattr(message, 'function_call', None) or {}",
    "[part for part in reply]",
    "lambda call: call.name",
    "f'{message.function_call.name}'",
    "x",
))  # fmt: skip
_SIMPLE = st.builds("{} = {}".format, _NAMES, _EXPRESSIONS) | st.builds(
    "messages.append({})".format, _EXPRESSIONS
)
_BLOCKS = st.builds(
    "{}:\n    {}\n    {}".format,
    st.builds("if {}".format, _EXPRESSIONS)
    | st.builds("while {}".format, _EXPRESSIONS)
    | st.builds("for {} in {}".format, _NAMES, _EXPRESSIONS)
    | st.builds("def {}(message, call=None)".format, _NAMES),
    _SIMPLE,
    _SIMPLE | st.builds("print({})".format, _EXPRESSIONS),
)
_PROGRAMS = st.lists(_SIMPLE | _BLOCKS, min_size=1, max_size=8).map(
    lambda statements: "\n".join(["import json, openai", *statements, ""])
)


@given(_PROGRAMS, st.sampled_from(("chat", "responses")))
def test_migration_is_idempotent_and_leaves_python(code: str, target: str) -> None:
    result = migrate_python(code, target)
    ast.parse(result.text)
    is_left = any(one.reason is not None for one in result.findings)
    if is_left:
        # Only comments are added.
        lines = result.text.splitlines(keepends=True)
        kept = "".join(line for line in lines if not line.lstrip().startswith("# dragoman: "))
        assert kept == code
    again = migrate_python(result.text, target)
    assert again.text == result.text
    assert bool(again.findings) == is_left
