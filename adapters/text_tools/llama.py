"""Llama: `<|python_tag|>{"name": …, "parameters": {…}}`, several with semicolons between them."""

from adapters.text_tools.cursor import Cursor, Parse
from adapters.text_tools.declared import DeclaredTools
from adapters.text_tools.json_calls import read_calls
from adapters.text_tools.markup import Calls, TextCallFormat

_BEGIN = "<|python_tag|>"
_ENDS = ("<|eom_id|>", "<|eot_id|>")


def _parse(cursor: Cursor, _tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(_BEGIN)
    yield from cursor.skip_space()
    calls: Calls = ()
    # What follows the tag may as well be Python: then it is no call.
    while not calls or (yield from cursor.peek_any("{")):
        calls += read_calls((yield from cursor.json()))
        yield from cursor.skip_space()
        yield from cursor.skip(";")
        yield from cursor.skip_space()
    yield from cursor.skip(*_ENDS)
    return calls


LLAMA = TextCallFormat((_BEGIN,), _parse)
