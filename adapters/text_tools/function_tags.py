"""Tags for the function and for each parameter, as Qwen3-Coder and others write them.

    <tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>
    <function_calls><invoke name="NAME"><parameter name="KEY">value</parameter></invoke> …

The wrapper may be missing. Llama puts all arguments as JSON between the tags of the function.
"""

from msgspec import Raw
from msgspec.json import Encoder

from adapters.json_text import is_complete_json
from adapters.text_tools.cursor import Cursor, NotAToolCallError, Parse
from adapters.text_tools.declared import DeclaredTools
from adapters.text_tools.json_calls import TextToolCall
from adapters.text_tools.markup import Calls, TextCallFormat, known

_WRAPPERS = {
    "<tool_call>": "</tool_call>",
    "<function_calls>": "</function_calls>",
    "<minimax:tool_call>": "</minimax:tool_call>",
}
# How the tag of a function begins, and how it ends; then the tag that closes the function.
_FUNCTIONS = {
    "<function=": (">", "</function>"),
    '<function name="': ('">', "</function>"),
    '<invoke name="': ('">', "</invoke>"),
}
_ASSIGNED = "<parameter="
_PARAMETERS = {_ASSIGNED: ">", '<parameter name="': '">'}
_END_OF_VALUE = "</parameter>"
_STRAY = "</tool_call>"

_ENCODER = Encoder()


def _parse(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    wrapper = yield from cursor.skip(*_WRAPPERS)
    yield from cursor.skip_space()
    calls: Calls = ()
    while not calls or (wrapper and (yield from cursor.peek_any(*_FUNCTIONS))):
        calls += ((yield from _parse_function(cursor, tools)),)
        yield from cursor.skip_space()
    if wrapper is None:
        # Models forget the tag at the beginning and remember the one at the end.
        yield from cursor.skip(_STRAY)
        return known(calls, tools)
    if not (yield from cursor.expect_end_tag(_WRAPPERS[wrapper])):
        raise NotAToolCallError
    return calls


def _parse_function(cursor: Cursor, tools: DeclaredTools) -> Parse[TextToolCall]:
    end_of_tag, end = _FUNCTIONS[(yield from cursor.expect(*_FUNCTIONS))]
    name = yield from cursor.name()
    yield from cursor.expect(end_of_tag)
    yield from cursor.skip_space()
    if (yield from cursor.peek_any("{")):
        arguments = yield from cursor.json()
        yield from cursor.skip_space()
    else:
        arguments = yield from _parse_parameters(cursor, name, tools)
    yield from cursor.expect(end)
    if not is_complete_json(arguments):
        raise NotAToolCallError
    return TextToolCall(name, arguments)


def _parse_parameters(cursor: Cursor, tool: str, tools: DeclaredTools) -> Parse[str]:
    values: dict[str, Raw] = {}
    while begin := (yield from cursor.skip(*_PARAMETERS)):
        name = yield from cursor.name()
        yield from cursor.expect(_PARAMETERS[begin])
        text = yield from cursor.until(_END_OF_VALUE)
        values[name] = tools.coerce_argument(tool, name, _unpadded(text, begin))
        yield from cursor.skip_space()
    return _ENCODER.encode(values).decode()


def _unpadded(text: str, begin: str) -> str:
    """Take away the line breaks that stand between a value and its tags, one on each side.

    Only in the one form are they always there; in the other, one alone is part of the value.
    """
    if begin == _ASSIGNED or (text.startswith("\n") and text.endswith("\n")):
        return text.removeprefix("\n").removesuffix("\n")
    return text


FUNCTION_TAGS = TextCallFormat((*_WRAPPERS, *_FUNCTIONS), _parse)
