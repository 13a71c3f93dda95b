"""JSON in a fence: three backticks and `json`, then what could be a bare call."""

from adapters.text_tools.bare import parse_bare
from adapters.text_tools.cursor import Cursor, NotAToolCallError, Parse
from adapters.text_tools.declared import DeclaredTools
from adapters.text_tools.markup import Calls, TextCallFormat

_FENCE = "```"
# The second also in the plural.
_BEGINS = (f"{_FENCE}json", f"{_FENCE}tool_call")


def _parse(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(*_BEGINS)
    yield from cursor.skip("s")
    yield from cursor.skip_space()
    calls = yield from parse_bare(cursor, tools)
    if not (yield from cursor.expect_end_tag(_FENCE)):
        raise NotAToolCallError
    return calls


FENCED = TextCallFormat(_BEGINS, _parse)
