"""Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`."""

from adapters.text_tools.cursor import Cursor, NotAToolCallError, Parse
from adapters.text_tools.declared import DeclaredTools
from adapters.text_tools.json_calls import read_calls
from adapters.text_tools.markup import Calls, TextCallFormat

BEGIN = "<tool_call>"
END = "</tool_call>"


def _parse(cursor: Cursor, _tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(BEGIN)
    yield from cursor.skip_space()
    calls: Calls = ()
    # Some models put several calls into one block.
    while not calls or (yield from cursor.peek_any("{", "[")):
        calls += read_calls((yield from cursor.json()))
        yield from cursor.skip_space()
    # Or they begin the next block without having ended this one.
    if not (yield from cursor.expect_end_tag(END)) and not (yield from cursor.peek_any(BEGIN)):
        raise NotAToolCallError
    return calls


HERMES = TextCallFormat((BEGIN,), _parse)
