"""JSON as the whole answer: `{"tool_calls": […]}`, `{"name": …, "arguments": {…}}` or a list."""

from adapters.text_tools.cursor import Cursor, NotAToolCallError, Parse
from adapters.text_tools.declared import DeclaredTools
from adapters.text_tools.json_calls import read_calls
from adapters.text_tools.markup import Calls, TextCallFormat, known

# What a call can begin with: any other object is known for an answer by its first word.
_FIRST_KEYS = ('"name"', '"arguments"', '"parameters"', '"tool_calls"', '"function"', '"id"')
_OTHER_FIRST_KEYS = ('"type"', '"index"', '"role"', '"content"')


def parse_bare(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    """Read one or more objects, or lists of objects, that are calls."""
    calls: Calls = ()
    while not calls or (yield from cursor.peek_any("{", "[")):
        opened = yield from _parse_beginning(cursor)
        calls += read_calls((yield from cursor.json(opened)), alone=True)
        yield from cursor.skip_space()
        yield from cursor.skip(";")
        yield from cursor.skip_space()
    return known(calls, tools)


def _parse_beginning(cursor: Cursor) -> Parse[str]:
    """Read the brackets, and look whether what follows can be a call."""
    opened = ""
    if (yield from cursor.skip("[")):
        opened = "["
        yield from cursor.skip_space()
    opened += yield from cursor.expect("{")
    yield from cursor.skip_space()
    if not (yield from cursor.peek_any(*_FIRST_KEYS, *_OTHER_FIRST_KEYS)):
        raise NotAToolCallError
    return opened


def _parse(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    calls = yield from parse_bare(cursor, tools)
    if not cursor.at_end():
        raise NotAToolCallError
    return calls


BARE = TextCallFormat(("{", "["), _parse, whole=True)
