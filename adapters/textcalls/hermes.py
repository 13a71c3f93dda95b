"""Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`."""

from adapters.textcalls.cursor import Cursor, NoCall, Parse
from adapters.textcalls.declared import Declared
from adapters.textcalls.markup import Calls, Markup
from adapters.textcalls.spoken import read_calls

BEGIN = "<tool_call>"
END = "</tool_call>"


def _parse(cursor: Cursor, _tools: Declared) -> Parse[Calls]:
    yield from cursor.expect(BEGIN)
    yield from cursor.skip_space()
    calls: Calls = ()
    # Some models put several calls into one block.
    while not calls or (yield from cursor.sees("{", "[")):
        calls += read_calls((yield from cursor.json()))
        yield from cursor.skip_space()
    # Or they begin the next block without having ended this one.
    if not (yield from cursor.closes(END)) and not (yield from cursor.sees(BEGIN)):
        raise NoCall
    return calls


HERMES = Markup((BEGIN,), _parse)
