"""The formats by their names."""

from collections.abc import Callable

from msgspec import Raw, Struct
from msgspec.json import Encoder

from adapters.capabilities import TextFormat
from adapters.json_text import is_complete_json
from adapters.text_tools.parser import (
    Cursor,
    DeclaredTools,
    NotAToolCallError,
    Parse,
    TextToolCall,
    read_calls,
)

# What every format of calls in text is.


Calls = tuple[TextToolCall, ...]


class TextCallFormat(Struct, frozen=True):
    """One way of writing calls into a text."""

    # What a block of calls begins with.
    markers: tuple[str, ...]
    # Reads a block from its marker on; raises `NoCall` if it is none.
    parse: Callable[[Cursor, DeclaredTools], Parse[Calls]]
    # Stands for the whole answer: nothing is said before it.
    is_whole_reply: bool = False

    def may_start_at(self, text: str, at: int) -> bool:
        """Tell whether a text, as far as it has come, has a marker at a place."""
        return any(marker.startswith(text[at : at + len(marker)]) for marker in self.markers)


def known(calls: Calls, tools: DeclaredTools) -> Calls:
    """Take only calls of declared tools, where the markup may be meant as something else."""
    if not all(tools.knows(call.name) for call in calls):
        raise NotAToolCallError
    return calls


# Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.


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


# Llama: `<|python_tag|>{"name": …, "parameters": {…}}`, several with semicolons between them.


_BEGIN = "<|python_tag|>"
_ENDS = ("<|eom_id|>", "<|eot_id|>")


def _llama_parse(cursor: Cursor, _tools: DeclaredTools) -> Parse[Calls]:
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


LLAMA = TextCallFormat((_BEGIN,), _llama_parse)


# Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, and newer `[TOOL_CALLS]name[ARGS]{…}`.


_MISTRAL_BEGIN = "[TOOL_CALLS]"


def _mistral_parse(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(_MISTRAL_BEGIN)
    yield from cursor.skip_space()
    if (yield from cursor.peek_any("[", "{")):
        return read_calls((yield from cursor.json()))
    name = yield from cursor.name()
    end_of_name = cursor.consumed
    yield from cursor.skip_space()
    spaced = cursor.consumed > end_of_name
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


MISTRAL = TextCallFormat((_MISTRAL_BEGIN,), _mistral_parse)


# Tags for the function and for each parameter, as Qwen3-Coder and others write them.
#
#     <tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>
#     <function_calls><invoke name="NAME"><parameter name="KEY">value</parameter></invoke> …
#
# The wrapper may be missing. Llama puts all arguments as JSON between the tags of the function.


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


def _function_tags_parse(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
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


FUNCTION_TAGS = TextCallFormat((*_WRAPPERS, *_FUNCTIONS), _function_tags_parse)


# JSON as the whole answer: `{"tool_calls": […]}`, `{"name": …, "arguments": {…}}` or a list.


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


def _bare_parse(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    calls = yield from parse_bare(cursor, tools)
    if not cursor.at_end():
        raise NotAToolCallError
    return calls


BARE = TextCallFormat(("{", "["), _bare_parse, is_whole_reply=True)


# JSON in a fence: three backticks and `json`, then what could be a bare call.


_FENCE = "```"
# The second also in the plural.
_BEGINS = (f"{_FENCE}json", f"{_FENCE}tool_call")


def _fenced_parse(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(*_BEGINS)
    yield from cursor.skip("s")
    yield from cursor.skip_space()
    calls = yield from parse_bare(cursor, tools)
    if not (yield from cursor.expect_end_tag(_FENCE)):
        raise NotAToolCallError
    return calls


FENCED = TextCallFormat(_BEGINS, _fenced_parse)


FORMATS: dict[TextFormat, TextCallFormat] = {
    "hermes": HERMES,
    "qwen3_coder": FUNCTION_TAGS,
    "mistral": MISTRAL,
    "llama": LLAMA,
    "json": BARE,
    "fenced_json": FENCED,
}
