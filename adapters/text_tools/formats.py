"""The formats in which models write tool calls into their text."""

from collections.abc import Callable

from msgspec import Raw, Struct
from msgspec.json import Encoder

from adapters.capabilities import TextFormat
from adapters.json_text import is_complete_json
from adapters.text_tools.parser import (
    CALL_FIELDS,
    MESSAGE_FIELDS,
    Calls,
    Cursor,
    DeclaredTools,
    NotAToolCallError,
    Parse,
    TextToolCall,
    read_calls,
)
from adapters.text_tools.token_formats import (
    DSML_MARKERS,
    GLM_MARKER,
    HARMONY_LINE_MARKERS,
    HARMONY_MARKERS,
    KIMI_MARKERS,
    TextChannel,
    parse_dsml,
    parse_glm,
    parse_harmony,
    parse_kimi,
)


class TextCallFormat(Struct, frozen=True):
    """A format for tool calls in text."""

    # The strings with which a block of calls may start.
    markers: tuple[str, ...]
    # Parses a block that starts with its marker, or raises `NotAToolCallError`. The result is its
    # calls, or the channel of the text after it.
    parse: Callable[[Cursor, DeclaredTools], Parse[Calls] | Parse[TextChannel | Calls]]
    # Markers that are only recognized at the start of a line, or right after another block.
    line_markers: tuple[str, ...] = ()
    # True if the calls must be the whole reply.
    is_whole_reply: bool = False
    # True if its markup also divides replies without calls.
    has_channels: bool = False

    def may_start_at(self, text: str, position: int) -> bool:
        """Whether the text at a position starts with a marker or is an incomplete marker."""
        return any(
            marker.startswith(text[position : position + len(marker)])
            for marker in (*self.markers, *self.line_markers)
        )


# Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`

_HERMES_START, _HERMES_END = "<tool_call>", "</tool_call>"


def _parse_hermes(cursor: Cursor, _tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(_HERMES_START)
    yield from cursor.skip_space()
    calls: Calls = ()
    # Some models write several calls into one block.
    while not calls or (yield from cursor.peek_any("{", "[")):
        calls += read_calls((yield from cursor.json()))
        yield from cursor.skip_space()
    # Other models start the next block without ending this one.
    if (yield from cursor.skip_end_tag(_HERMES_END)) or (yield from cursor.peek_any(_HERMES_START)):
        return calls
    raise NotAToolCallError


# Llama: `<|python_tag|>{"name": …, "parameters": {…}}`, several separated by semicolons

_LLAMA_START, _LLAMA_ENDS = "<|python_tag|>", ("<|eom_id|>", "<|eot_id|>")


def _parse_llama(cursor: Cursor, _tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(_LLAMA_START)
    yield from cursor.skip_space()
    calls: Calls = ()
    # The tag may also be followed by Python code, which is not a tool call.
    while not calls or (yield from cursor.peek_any("{")):
        calls += read_calls((yield from cursor.json()))
        yield from _skip_semicolon(cursor)
    yield from cursor.skip(*_LLAMA_ENDS)
    return calls


def _skip_semicolon(cursor: Cursor) -> Parse[None]:
    yield from cursor.skip_space()
    yield from cursor.skip(";")
    yield from cursor.skip_space()


# Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, and newer `[TOOL_CALLS]name[ARGS]{…}`

_MISTRAL_START = "[TOOL_CALLS]"


def _parse_mistral(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(_MISTRAL_START)
    yield from cursor.skip_space()
    if (yield from cursor.peek_any("[", "{")):
        return read_calls((yield from cursor.json()))
    name = yield from cursor.name()
    end_of_name = cursor.consumed
    yield from cursor.skip_space()
    has_space = cursor.consumed > end_of_name
    if (yield from cursor.skip("[CALL_ID]")):
        # The id is ignored, because models may restart the numbering in every turn.
        yield from cursor.name()
        yield from cursor.skip_space()
    has_marker = yield from cursor.skip("[ARGS]")
    yield from cursor.skip_space()
    if not (yield from cursor.peek_any("{")):
        raise NotAToolCallError
    arguments = yield from cursor.json()
    if not is_complete_json(arguments):
        raise NotAToolCallError
    calls = (TextToolCall(name, arguments),)
    # A word, a space and an object after the marker may also be a text about the format.
    return tools.check_declared(calls) if has_space and not has_marker else calls


# Tags for the function and its parameters, as in Qwen3-Coder and other models:
#
#     <tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>
#     <function_calls><invoke name="NAME"><parameter name="KEY">value</parameter></invoke> …
#
# The outer tag may be missing. Llama writes all arguments as JSON into the function tag.

_OUTER_TAGS = {
    "<tool_call>": "</tool_call>",
    "<function_calls>": "</function_calls>",
    "<minimax:tool_call>": "</minimax:tool_call>",
}
# Maps the start of an opening tag to the end of that tag and the closing tag.
_FUNCTION_TAGS = {
    "<function=": (">", "</function>"),
    '<function name="': ('">', "</function>"),
    '<invoke name="': ('">', "</invoke>"),
}
_ASSIGNED_PARAMETER = "<parameter="
_PARAMETER_TAGS = {_ASSIGNED_PARAMETER: ">", '<parameter name="': '">'}
_PARAMETER_END = "</parameter>"

_ENCODER = Encoder()


def _parse_function_tags(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    outer_tag = yield from cursor.skip(*_OUTER_TAGS)
    yield from cursor.skip_space()
    calls: Calls = ()
    while not calls or (outer_tag and (yield from cursor.peek_any(*_FUNCTION_TAGS))):
        calls += ((yield from _parse_function(cursor, tools)),)
        yield from cursor.skip_space()
    if outer_tag is None:
        # Some models write the closing tag without the opening one.
        yield from cursor.skip("</tool_call>")
        return tools.check_declared(calls)
    if not (yield from cursor.skip_end_tag(_OUTER_TAGS[outer_tag])):
        raise NotAToolCallError
    return calls


def _parse_function(cursor: Cursor, tools: DeclaredTools) -> Parse[TextToolCall]:
    tag_end, closing_tag = _FUNCTION_TAGS[(yield from cursor.expect(*_FUNCTION_TAGS))]
    name = yield from cursor.name()
    yield from cursor.expect(tag_end)
    yield from cursor.skip_space()
    if (yield from cursor.peek_any("{")):
        arguments = yield from cursor.json()
        yield from cursor.skip_space()
    else:
        arguments = yield from _parse_parameters(cursor, name, tools)
    yield from cursor.expect(closing_tag)
    if not is_complete_json(arguments):
        raise NotAToolCallError
    return TextToolCall(name, arguments)


def _parse_parameters(cursor: Cursor, tool: str, tools: DeclaredTools) -> Parse[str]:
    values: dict[str, Raw] = {}
    while tag := (yield from cursor.skip(*_PARAMETER_TAGS)):
        name = yield from cursor.name()
        yield from cursor.expect(_PARAMETER_TAGS[tag])
        text = yield from cursor.until(_PARAMETER_END)
        values[name] = tools.coerce_argument(tool, name, _without_padding(text, tag))
        yield from cursor.skip_space()
    return _ENCODER.encode(values).decode()


def _without_padding(text: str, tag: str) -> str:
    """Remove one line break on each side of a value.

    With `<parameter name=`, a line break on only one side is part of the value.
    """
    if tag == _ASSIGNED_PARAMETER or (text.startswith("\n") and text.endswith("\n")):
        return text.removeprefix("\n").removesuffix("\n")
    return text


# JSON as the whole reply: `{"tool_calls": […]}`, `{"name": …, "arguments": {…}}` or an array

# The possible first fields of a call. An object that starts with another field is a normal JSON
# reply, so parsing stops immediately.
_FIRST_FIELDS = tuple(f'"{field}"' for field in sorted(CALL_FIELDS | MESSAGE_FIELDS))


def _parse_json(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    calls = yield from _parse_bare_calls(cursor, tools)
    if not cursor.at_end():
        raise NotAToolCallError
    return calls


def _parse_bare_calls(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    """Parse objects, or arrays of objects, that are calls."""
    calls: Calls = ()
    while not calls or (yield from cursor.peek_any("{", "[")):
        opened = yield from _parse_opening(cursor)
        calls += read_calls((yield from cursor.json(opened)), bare=True)
        yield from _skip_semicolon(cursor)
    return tools.check_declared(calls)


def _parse_opening(cursor: Cursor) -> Parse[str]:
    """Read the opening brackets, and check that the first field may belong to a call."""
    opened = (yield from cursor.skip("[")) or ""
    if opened:
        yield from cursor.skip_space()
    opened += yield from cursor.expect("{")
    yield from cursor.skip_space()
    if not (yield from cursor.peek_any(*_FIRST_FIELDS)):
        raise NotAToolCallError
    return opened


# The same JSON in a fenced code block

_FENCE = "```"
# `tool_call` may also be written as `tool_calls`.
_FENCE_STARTS = (f"{_FENCE}json", f"{_FENCE}tool_call")


def _parse_fenced(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    yield from cursor.expect(*_FENCE_STARTS)
    yield from cursor.skip("s")
    yield from cursor.skip_space()
    calls = yield from _parse_bare_calls(cursor, tools)
    if not (yield from cursor.skip_end_tag(_FENCE)):
        raise NotAToolCallError
    return calls


FORMATS: dict[TextFormat, TextCallFormat] = {
    "hermes": TextCallFormat((_HERMES_START,), _parse_hermes),
    "qwen3_coder": TextCallFormat((*_OUTER_TAGS, *_FUNCTION_TAGS), _parse_function_tags),
    "mistral": TextCallFormat((_MISTRAL_START,), _parse_mistral),
    "llama": TextCallFormat((_LLAMA_START,), _parse_llama),
    "json": TextCallFormat(("{", "["), _parse_json, is_whole_reply=True),
    "fenced_json": TextCallFormat(_FENCE_STARTS, _parse_fenced),
    "harmony": TextCallFormat(
        HARMONY_MARKERS, parse_harmony, HARMONY_LINE_MARKERS, has_channels=True
    ),
    "kimi": TextCallFormat(KIMI_MARKERS, parse_kimi),
    "glm": TextCallFormat((GLM_MARKER,), parse_glm),
    "dsml": TextCallFormat(DSML_MARKERS, parse_dsml),
}


def formats_with_channels(names: tuple[TextFormat, ...]) -> tuple[TextFormat, ...]:
    """Return the formats whose markup must be removed even if no tool is declared."""
    return tuple(name for name in names if FORMATS[name].has_channels)
