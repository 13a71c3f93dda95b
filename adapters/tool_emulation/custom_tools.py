"""Custom tools as functions, and their raw input as the arguments of a function.

The function has one required string, `{"input": …}`. The description of that string contains the
grammar of the input, because the model reads it when it writes the string; see
https://github.com/router-for-me/CLIProxyAPI/issues/4414. A regular expression that JSON Schema can
express also becomes the `pattern` of the string, for backends that enforce schemas.

Models do not always follow that schema: they use another field
(https://github.com/caozhiyuan/copilot-api/issues/242), write the bare text or truncate the string.
`CustomInputParser` reads all these forms, whole or streamed.
"""

import json
import re
from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.ir.types import CustomTool, FunctionTool
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.wire.json_object import Json

INPUT_FIELD = "input"
INPUT_PREFIX = '{"input":"'
INPUT_SUFFIX = '"}'
# The reason of a loss.
INPUT_WRAPPED = "custom tools are not supported; the input is wrapped in JSON"

_ENCODER = msgspec.json.Encoder()


# Declaration

_INSTRUCTION = "Pass the raw text, all of it, as `input`."
# Overrides descriptions with an instruction not to wrap the text.
_AS_FUNCTION = "Here it is a function. "

# Tokens of a regular expression with the same meaning in JSON Schema: an escape, a class, a group
# that does not capture, a quantifier, or one character. Backreferences are not among them, because
# groups may get other numbers.
_REGEX_ESCAPE = r"\\(?:[dDwWsSbBnrtfv^$\\.*+?()\[\]{}|/]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})"
_CLASS = rf"\[\^?(?:{_REGEX_ESCAPE}|\\-|[^\]\[\\])+\]"
_QUANTIFIER = r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?"
_TOKEN = re.compile(rf"{_REGEX_ESCAPE}|{_CLASS}|\(\?:?|{_QUANTIFIER}|.", re.DOTALL)
# Tokens with another meaning, or none, in JSON Schema: other escapes, stray brackets and braces,
# flags and named groups, possessive quantifiers, and operations on classes.
_UNSUPPORTED_TOKEN = re.compile(
    r"[\\\[\]{}]|\(\?|(?:[*+?]|\{.*\})\+|\[.*(?:--|&&|~~|\|\|).*", re.DOTALL
)


def custom_tool_as_function(tool: CustomTool, *, strict: bool) -> FunctionTool:
    """Return the function that emulates a custom tool, strict only if it has a `pattern`."""
    pattern = json_schema_pattern(tool)
    description = f"{tool.description}\n\n{_AS_FUNCTION}" if tool.description else ""
    input_schema = {"type": "string", "description": _describe_input(tool)}
    if pattern is not None:
        input_schema["pattern"] = pattern
    schema = {
        "type": "object",
        "properties": {INPUT_FIELD: input_schema},
        "required": [INPUT_FIELD],
        "additionalProperties": False,
    }
    return FunctionTool(
        name=tool.name,
        description=description + _INSTRUCTION,
        parameters=Raw(_ENCODER.encode(schema)),
        strict=strict and pattern is not None,
        extras=tuple(extra for extra in tool.extras if not extra.name.startswith("format.")),
    )


def _describe_input(tool: CustomTool) -> str:
    if tool.format != "grammar" or not tool.definition:
        return "The raw text."
    kind = "regular expression" if tool.syntax == "regex" else f"{tool.syntax or 'lark'} grammar"
    return f"The raw text. All of it must match this {kind}:\n{tool.definition}"


def json_schema_pattern(tool: CustomTool) -> str | None:
    """Return the regular expression of a custom tool for JSON Schema, anchored at both ends."""
    if tool.format != "grammar" or tool.syntax != "regex" or not tool.definition:
        return None
    tokens: list[str] = _TOKEN.findall(tool.definition)
    if any(map(_UNSUPPORTED_TOKEN.fullmatch, tokens)) or not _compiles(tool.definition):
        return None
    if _has_top_level_alternatives(tokens):
        # Without a group, an anchor would apply to one alternative only. The group captures,
        # because some backends do not support other groups.
        return f"^({tool.definition})$"
    start = "" if tokens[0] == "^" else "^"
    end = "" if tokens[-1] == "$" else "$"
    return start + tool.definition + end


def _compiles(expression: str) -> bool:
    try:
        re.compile(expression)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _has_top_level_alternatives(tokens: list[str]) -> bool:
    depth = 0
    for symbol in tokens:
        depth += symbol.startswith("(") - (symbol == ")")
        if symbol == "|" and not depth:
            return True
    return False


# Input as arguments


def wrap_input(text: str) -> str:
    """Return the function arguments that contain some raw input."""
    return INPUT_PREFIX + escape(text) + INPUT_SUFFIX


def input_as_arguments(text: str, *, is_complete: bool) -> str:
    """Return raw input as arguments: an object unchanged, anything else wrapped.

    Truncated input must not look complete, or the client runs the call.
    """
    if not text or (text.lstrip()[:1] == "{" and (not is_complete or is_complete_json(text))):
        return text
    return wrap_input(text) if is_complete else wrap_input(text).removesuffix(INPUT_SUFFIX)


def escape(text: str) -> str:
    """Return a text escaped for the inside of a JSON string."""
    return _ENCODER.encode(text)[1:-1].decode()


# Arguments as input

_SPACE = re.compile(r"[ \t\r\n]+")
# `INPUT_PREFIX` with any whitespace.
_PREFIX = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"input"[ \t\r\n]*:[ \t\r\n]*"')
_QUOTE_OR_BACKSLASH = re.compile(r'[\\"]')
_ESCAPE = re.compile(
    r"\\(?:u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u(?P<code>[0-9a-fA-F]{4})|(?P<simple>[^u]))",
    re.DOTALL,
)
# A truncated escape, or a high surrogate whose low surrogate may follow.
_PARTIAL_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?))?"
)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_ESCAPED_REPLACEMENT = re.compile(r"\\u[fF]{3}[dD]")
_SURROGATES = range(0xD800, 0xE000)
# The character of a surrogate pair is `(high << 10) + low` plus this offset.
_PAIR_OFFSET = 0x10000 - (0xD800 << 10) - 0xDC00
# The text that may follow the closing quote, and the length that shows whether more follows.
_ENDINGS = ("", "}")
_MAX_ENDING_LENGTH = 2


class ParsedInput(Struct, frozen=True):
    """The raw input in function arguments, and whether it is complete and exact."""

    text: str
    is_truncated: bool = False
    has_other_fields: bool = False
    has_lone_surrogates: bool = False

    def report(self, path: str, losses: Losses) -> None:
        """Report what was dropped or changed."""
        if self.has_other_fields:
            losses.changed(path, "arguments that the tool does not have are removed")
        if self.has_lone_surrogates:
            losses.changed(path, "unpaired surrogates in the input are replaced")


def unwrap_input(arguments: str) -> ParsedInput:
    """Return the raw input in function arguments."""
    parser = CustomInputParser()
    text = parser.feed(arguments)
    rest = parser.finish()
    return replace(rest, text=text + rest.text)


class CustomInputParser:
    """An incremental parser of arguments that returns the raw input as soon as it is known.

    It waits for `{"input":"`, decodes the string and ignores the text after it. Arguments that do
    not begin as an object are returned unchanged; other objects are held until they are complete.
    """

    def __init__(self) -> None:
        self._state: Literal["start", "string", "ended", "raw", "other"] = "start"
        # Text that was not returned yet. A list, because models that are constrained to a schema
        # may write whitespace without end.
        self._pieces: list[str] = []
        # The same text without whitespace.
        self._compact = ""
        self._partial_escape = ""
        # The first characters after the closing quote, without whitespace.
        self._ending = ""
        self._has_lone_surrogates = False

    def feed(self, piece: str) -> str:
        """Parse a piece of the arguments, and return the input in it."""
        if self._state == "raw":
            return piece
        if self._state == "ended":
            self._read_ending(piece)
            return ""
        if self._state == "string":
            return self._decode(self._partial_escape + piece)
        self._pieces.append(piece)
        return self._start(piece) if self._state == "start" else ""

    def finish(self) -> ParsedInput:
        """Return the rest of the input at the end of the arguments."""
        match self._state:
            case "start" | "other":
                return _parse_object("".join(self._pieces))
            case "string":
                surrogates = self._has_lone_surrogates
                return ParsedInput("", is_truncated=True, has_lone_surrogates=surrogates)
            case "ended" | "raw":
                return ParsedInput(
                    "",
                    has_other_fields=self._ending not in _ENDINGS,
                    has_lone_surrogates=self._has_lone_surrogates,
                )

    def _read_ending(self, rest: str) -> None:
        if len(self._ending) < _MAX_ENDING_LENGTH:
            self._ending = (self._ending + _SPACE.sub("", rest))[:_MAX_ENDING_LENGTH]

    def _start(self, piece: str) -> str:
        """Choose how to read the arguments, as soon as their beginning is known."""
        self._compact += _SPACE.sub("", piece)
        if INPUT_PREFIX.startswith(self._compact) and self._compact != INPUT_PREFIX:
            return ""
        text = "".join(self._pieces)
        prefix = _PREFIX.match(text)
        if prefix is not None:
            self._state = "string"
            return self._decode(text[prefix.end() :])
        if self._compact.startswith("{"):
            self._state = "other"
            return ""
        self._state = "raw"
        return text

    def _decode(self, text: str) -> str:
        """Decode the string, up to its end or a truncated escape."""
        self._partial_escape = ""
        decoded: list[str] = []
        end = 0
        while (match := _QUOTE_OR_BACKSLASH.search(text, end)) is not None:
            start = match.start()
            decoded.append(text[end:start])
            if match.group() == '"':
                self._state = "ended"
                self._read_ending(text[match.end() :])
                return "".join(decoded)
            if _PARTIAL_ESCAPE.fullmatch(text, start):
                self._partial_escape = text[start:]
                return "".join(decoded)
            character, end = _decode_escape(text, start)
            decoded.append(character)
            if character == _REPLACEMENT and not _ESCAPED_REPLACEMENT.match(text, start):
                self._has_lone_surrogates = True
        decoded.append(text[end:])
        return "".join(decoded)


def _decode_escape(text: str, start: int) -> tuple[str, int]:
    """Return the character of an escape and the end of the escape; keep unknown escapes."""
    escape_ = _ESCAPE.match(text, start)
    if escape_ is None:
        return "\\", start + 1
    if escape_["high"]:
        high, low = int(escape_["high"], 16), int(escape_["low"], 16)
        return chr((high << 10) + low + _PAIR_OFFSET), escape_.end()
    if escape_["code"]:
        code = int(escape_["code"], 16)
        return (_REPLACEMENT if code in _SURROGATES else chr(code)), escape_.end()
    return _ESCAPES.get(escape_["simple"], escape_.group()), escape_.end()


def _parse_object(arguments: str) -> ParsedInput:
    """Return the string in `input`, or else the only string of the object, or all arguments."""
    try:
        # Not strict, because models leave line breaks in strings unescaped.
        value: dict[str, Json] = json.loads(arguments, strict=False)
    except (ValueError, RecursionError) as error:
        return _invalid_json(arguments, error)
    strings = {name: field for name, field in value.items() if isinstance(field, str)}
    if INPUT_FIELD not in strings and len(strings) != 1:
        return ParsedInput(arguments if value else "")
    text = strings[INPUT_FIELD] if INPUT_FIELD in strings else next(iter(strings.values()))
    valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return ParsedInput(valid, has_other_fields=len(value) > 1, has_lone_surrogates=valid != text)


def _invalid_json(arguments: str, error: Exception) -> ParsedInput:
    """Return the input in arguments that are not JSON: raw text, or a truncated object."""
    compact = _SPACE.sub("", arguments)
    if INPUT_PREFIX.startswith(compact):
        return ParsedInput("", is_truncated=bool(compact))
    is_truncated = isinstance(error, json.JSONDecodeError) and (
        error.msg.startswith("Unterminated") or error.pos >= len(arguments.rstrip())
    )
    return ParsedInput(arguments, is_truncated=is_truncated)
