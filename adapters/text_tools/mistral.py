"""Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, and newer `[TOOL_CALLS]name[ARGS]{…}`."""

from adapters.json_text import is_complete_json
from adapters.text_tools.cursor import Cursor, NotAToolCallError, Parse
from adapters.text_tools.declared import DeclaredTools
from adapters.text_tools.json_calls import TextToolCall, read_calls
from adapters.text_tools.markup import Calls, TextCallFormat, known

_BEGIN = "[TOOL_CALLS]"


def _parse(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(_BEGIN)
    yield from cursor.skip_space()
    if (yield from cursor.peek_any("[", "{")):
        return read_calls((yield from cursor.json()))
    name = yield from cursor.name()
    end_of_name = cursor.read
    yield from cursor.skip_space()
    spaced = cursor.read > end_of_name
    if (yield from cursor.skip("[CALL_ID]")):
        # Ids of a text are not to be trusted: the model may count from one in every turn.
        yield from cursor.name()
        yield from cursor.skip_space()
    marked = yield from cursor.skip("[ARGS]")
    yield from cursor.skip_space()
    if not (yield from cursor.peek_any("{")):
        raise NotAToolCallError
    arguments = yield from cursor.json()
    if not is_complete_json(arguments):
        raise NotAToolCallError
    call = (TextToolCall(name, arguments),)
    # A word behind the marker and then an object may as well be about it.
    return known(call, tools) if spaced and not marked else call


MISTRAL = TextCallFormat((_BEGIN,), _parse)
