"""The formats of calls that consist of special tokens, or of tags of their own.

The names of the models are those of the first models with the format; others share it.
"""

from typing import Literal

from msgspec import Raw
from msgspec.json import Encoder

from adapters.text_tools.parser import (
    Calls,
    Cursor,
    DeclaredTools,
    NotAToolCallError,
    Parse,
    TextToolCall,
    is_json,
)

# What the text after a marker is: that of the message, or reasoning.
TextChannel = Literal["text", "reasoning"]

_ENCODER = Encoder()


# Harmony (gpt-oss): messages with a header and a channel.
#
#     <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>
#     {…}<|call|>
#
# The recipient may also precede the channel. Servers that do not know the format often remove its
# special tokens and leave the words between them.

_HEADER_STARTS = ("<|start|>assistant", "<|channel|>")
_CHANNELS: dict[str, TextChannel] = {
    "analysis": "reasoning",
    "commentary": "text",
    "final": "text",
}
_RECIPIENT = "to="
_NAMESPACE = "functions."
# The ends of a message, of which the first is a call's.
_MESSAGE_ENDS = ("<|call|>", "<|end|>", "<|return|>")
_BARE_HEADERS = tuple(f"assistant{channel}" for channel in _CHANNELS)
HARMONY_MARKERS = (*_HEADER_STARTS, *_MESSAGE_ENDS, *_BARE_HEADERS)
# A prompt often ends with `<|start|>assistant`, so that a reply may begin with the recipient.
_BEFORE_RECIPIENT = ("", " ", "assistant ", "commentary ")
HARMONY_LINE_MARKERS = tuple(f"{words}to=functions." for words in _BEFORE_RECIPIENT)
_CONTENT_TYPES = ("json", "code")


def parse_harmony(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls | TextChannel]:
    """Parse the header of a message, and its content if it is a call."""
    if (yield from cursor.skip(*_MESSAGE_ENDS)):
        return (yield from _parse_message_end(cursor))
    if (yield from cursor.skip(*_HEADER_STARTS)) is None:
        return (yield from _parse_bare_header(cursor, tools))
    return (yield from _parse_header(cursor))


def _parse_message_end(cursor: Cursor) -> Parse[Calls]:
    """Parse the end of a message: only the next message or the end of the text may follow it."""
    yield from cursor.skip_space()
    if cursor.at_end() or (yield from cursor.peek_any(*_HEADER_STARTS)):
        return ()
    raise NotAToolCallError


def _parse_header(cursor: Cursor) -> Parse[Calls | TextChannel]:
    name = yield from _parse_recipient(cursor)
    yield from cursor.skip("<|channel|>")
    channel = yield from cursor.skip(*_CHANNELS)
    if name is None:
        name = yield from _parse_recipient(cursor)
    yield from _skip_content_type(cursor)
    yield from cursor.expect("<|message|>")
    if name is None:
        return _CHANNELS.get(channel or "", "text")
    return (yield from _parse_call(cursor, name))


def _parse_recipient(cursor: Cursor) -> Parse[str | None]:
    yield from cursor.skip_space()
    if not (yield from cursor.skip(_RECIPIENT)):
        return None
    name = yield from cursor.name()
    yield from cursor.skip_space()
    return name.removeprefix(_NAMESPACE)


def _skip_content_type(cursor: Cursor) -> Parse[None]:
    yield from cursor.skip_space()
    yield from cursor.skip("<|constrain|>")
    yield from cursor.skip(*_CONTENT_TYPES)
    yield from cursor.skip_space()


def _parse_bare_header(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls | TextChannel]:
    """Parse a header without its special tokens.

    The text follows without a space, or the header names a declared tool.
    """
    has_role = yield from cursor.skip("assistant")
    channel = yield from cursor.skip(*_CHANNELS)
    if has_role and channel:
        following = yield from cursor.peek()
        if following and not (following.isspace() or following.islower()):
            return _CHANNELS[channel]
    name = yield from _parse_recipient(cursor)
    if name is None or not (cursor.begins_line or (has_role and channel)):
        raise NotAToolCallError
    for word in _CHANNELS:
        if not tools.is_declared(name):
            # The recipient preceded the channel.
            name = name.removesuffix(word)
    yield from cursor.skip("<|channel|>")
    yield from cursor.skip(*_CHANNELS)
    yield from _skip_content_type(cursor)
    yield from cursor.skip("<|message|>")
    if not (yield from cursor.peek_any("{")):
        raise NotAToolCallError
    return tools.check_declared((yield from _parse_call(cursor, name)))


def _parse_call(cursor: Cursor, name: str) -> Parse[Calls]:
    yield from cursor.skip_space()
    arguments = ""
    if not (yield from cursor.peek_any("<|call|>")) and not cursor.at_end():
        arguments = yield from cursor.object()
    yield from cursor.skip_end_tag("<|call|>")
    return (TextToolCall(name, arguments),)


# Kimi: calls with ids of the form `functions.NAME:NUMBER`
#
#     <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}
#     <|tool_call_end|><|tool_calls_section_end|>

_SECTION_START, _SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_CALL_START, _CALL_END = "<|tool_call_begin|>", "<|tool_call_end|>"
_ARGUMENTS_START = "<|tool_call_argument_begin|>"
KIMI_MARKERS = (_SECTION_START, _CALL_START)


def parse_kimi(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    """Parse a section of calls, or one call without its section."""
    section = yield from cursor.skip(_SECTION_START)
    yield from cursor.skip_space()
    calls: Calls = ()
    while (yield from cursor.skip(_CALL_START)):
        calls += ((yield from _parse_kimi_call(cursor, tools)),)
        yield from cursor.skip_space()
    return (yield from _end_block(cursor, calls, _SECTION_END if section or calls else None))


def _end_block(cursor: Cursor, calls: Calls, end: str | None) -> Parse[Calls]:
    """Parse the end of a block, which may be missing, and return its calls."""
    if calls and end is not None:
        yield from cursor.skip_end_tag(end)
    elif end is not None:
        yield from cursor.expect(end)
    elif not calls:
        raise NotAToolCallError
    return calls


def _parse_kimi_call(cursor: Cursor, tools: DeclaredTools) -> Parse[TextToolCall]:
    yield from cursor.skip_space()
    call_id = yield from cursor.name()
    yield from cursor.skip_space()
    yield from cursor.expect(_ARGUMENTS_START)
    yield from cursor.skip_space()
    arguments = yield from cursor.object()
    yield from cursor.skip_space()
    yield from cursor.skip_end_tag(_CALL_END)
    return TextToolCall(_kimi_name(call_id, tools), arguments, call_id)


def _kimi_name(call_id: str, tools: DeclaredTools) -> str:
    """Return the name in an id: `functions.NAME:NUMBER`, or in newer models `NAME_NUMBER`."""
    name = call_id.removeprefix(_NAMESPACE)
    before, colon, number = name.rpartition(":")
    if colon and number.isdecimal():
        return before
    before, _, number = name.rpartition("_")
    if before and number.isdecimal() and not tools.has(name):
        return before
    return name


# GLM: a tag with the name, and tags for each argument
#
#     <tool_call>NAME
#     <arg_key>KEY</arg_key>
#     <arg_value>VALUE</arg_value>
#     </tool_call>

GLM_MARKER, _GLM_END = "<tool_call>", "</tool_call>"
_KEY_START, _KEY_END = "<arg_key>", "</arg_key>"
_VALUE_START, _VALUE_END = "<arg_value>", "</arg_value>"


def parse_glm(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    """Parse one call."""
    yield from cursor.expect(GLM_MARKER)
    yield from cursor.skip_space()
    name = yield from cursor.name()
    yield from cursor.skip_space()
    values: dict[str, Raw] = {}
    while (yield from cursor.skip(_KEY_START)):
        key = (yield from cursor.until(_KEY_END)).strip()
        yield from cursor.skip_space()
        yield from cursor.expect(_VALUE_START)
        text = yield from cursor.until(_VALUE_END)
        values[key] = tools.coerce_argument(name, key, text)
        yield from cursor.skip_space()
    # Other models put JSON into the same tag.
    is_ended = (yield from cursor.skip_end_tag(_GLM_END)) or (
        yield from cursor.peek_any(GLM_MARKER)
    )
    if not is_ended:
        raise NotAToolCallError
    return tools.check_declared((TextToolCall(name, _ENCODER.encode(values).decode()),))


# DSML (DeepSeek): a tag for each call, and one for each parameter that says whether it is a string.
# All its bars are fullwidth:
#
#     <|DSML|function_calls>
#     <|DSML|invoke name="NAME">
#     <|DSML|parameter name="KEY" string="true">VALUE</|DSML|parameter>
#     </|DSML|invoke>
#     </|DSML|function_calls>

_DSML = "\N{FULLWIDTH VERTICAL LINE}DSML\N{FULLWIDTH VERTICAL LINE}"
_BLOCKS = {f"<{_DSML}{name}>": f"</{_DSML}{name}>" for name in ("function_calls", "tool_calls")}
_INVOKE_START, _INVOKE_END = f'<{_DSML}invoke name="', f"</{_DSML}invoke>"
_PARAMETER_START, _PARAMETER_END = f'<{_DSML}parameter name="', f"</{_DSML}parameter>"
_IS_STRING, _IS_JSON = ' string="true"', ' string="false"'
DSML_MARKERS = (*_BLOCKS, _INVOKE_START)


def parse_dsml(cursor: Cursor, tools: DeclaredTools) -> Parse[Calls]:
    """Parse a block of calls, or calls without their block."""
    block = yield from cursor.skip(*_BLOCKS)
    yield from cursor.skip_space()
    calls: Calls = ()
    while (yield from cursor.skip(_INVOKE_START)):
        calls += ((yield from _parse_invoke(cursor, tools)),)
        yield from cursor.skip_space()
    return (yield from _end_block(cursor, calls, _BLOCKS.get(block or "")))


def _parse_invoke(cursor: Cursor, tools: DeclaredTools) -> Parse[TextToolCall]:
    name = yield from cursor.until('"')
    yield from cursor.expect(">")
    yield from cursor.skip_space()
    if (yield from cursor.peek_any("{")):
        arguments = yield from cursor.object()
    else:
        arguments = yield from _parse_dsml_parameters(cursor, name, tools)
    yield from cursor.skip_space()
    is_ended = (yield from cursor.skip_end_tag(_INVOKE_END)) or (
        yield from cursor.peek_any(_INVOKE_START, *_BLOCKS.values())
    )
    if not is_ended:
        raise NotAToolCallError
    return TextToolCall(name, arguments)


def _parse_dsml_parameters(cursor: Cursor, tool: str, tools: DeclaredTools) -> Parse[str]:
    values: dict[str, Raw] = {}
    while (yield from cursor.skip(_PARAMETER_START)):
        name = yield from cursor.until('"')
        kind = yield from cursor.skip(_IS_STRING, _IS_JSON)
        yield from cursor.expect(">")
        text = yield from cursor.until(_PARAMETER_END)
        if kind == _IS_STRING:
            values[name] = Raw(_ENCODER.encode(text))
        elif kind == _IS_JSON and is_json(text.strip()):
            values[name] = Raw(text.strip().encode())
        else:
            values[name] = tools.coerce_argument(tool, name, text)
        yield from cursor.skip_space()
    return _ENCODER.encode(values).decode()
