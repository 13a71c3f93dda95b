"""The raw input of a custom tool as the arguments of a function, and back.

A function takes JSON, so the input becomes its one field: `{"input": …}`. On the way back models
say it in other ways too: another field (P025), the bare text, a string that breaks off. What comes
whole and what comes in pieces is read by the same machine.
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

_ENCODER = msgspec.json.Encoder()
INPUT_PREFIX = '{"input":"'
INPUT_SUFFIX = '"}'

# The beginning of arguments as we ask for them, and all of it that is no space.
_OPENED = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"input"[ \t\r\n]*:[ \t\r\n]*"')
_SPACE = re.compile(r"[ \t\r\n]+")
# What ends a piece of a JSON string.
_SPECIAL = re.compile(r'[\\"]')
_ESCAPE = re.compile(
    r"\\(?:u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u(?P<code>[0-9a-fA-F]{4})|(?P<simple>[^u]))",
    re.DOTALL,
)
# An escape that may go on: cut anywhere, or half of a pair whose other half may follow.
_UNFINISHED = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?))?"
)
_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_NO_CHARACTER = "\N{REPLACEMENT CHARACTER}"
_IS_NO_CHARACTER = re.compile(r"\\u[fF]{3}[dD]")
_SURROGATES = range(0xD800, 0xE000)
_FIRST_BEYOND, _HIGH, _LOW = 0x10000, 0xD800, 0xDC00
# What may stand behind the text, and how much of it must be looked at to tell.
_ENDS = ("", "}")
_LONGEST_END = 2


def wrap_input(text: str) -> str:
    """Give the arguments of a function that carry some raw input."""
    return INPUT_PREFIX + escape(text) + INPUT_SUFFIX


def input_as_arguments(text: str, *, whole: bool) -> str:
    """Give the raw input of a call as arguments: an object as it is, anything else wrapped.

    What breaks off must not look whole (P144).
    """
    if not text or (text.lstrip()[:1] == "{" and (not whole or is_complete_json(text))):
        return text
    return wrap_input(text) if whole else wrap_input(text).removesuffix(INPUT_SUFFIX)


def escape(text: str) -> str:
    """Give a text as it stands inside a JSON string."""
    return _ENCODER.encode(text)[1:-1].decode()


class ParsedInput(Struct, frozen=True):
    """The raw input that some arguments carry, and what became of the rest."""

    text: str
    # Whether the arguments end before the input does.
    breaks_off: bool = False
    # Whether there is more in the arguments than the input.
    has_more: bool = False
    # Whether there were halves of characters in it, which no text can hold.
    has_halves: bool = False

    def report(self, path: str, losses: Losses) -> None:
        """Say what could not be told as it was."""
        if self.has_more:
            losses.dropped(path, "besides the input there is more in its arguments")
        if self.has_halves:
            losses.changed(path, "halves of characters in its input are replaced")


def unwrap_input(arguments: str) -> ParsedInput:
    """Give the raw input that some arguments carry."""
    unwrapper = CustomInputParser()
    begun = unwrapper.feed(arguments)
    rest = unwrapper.finish()
    return replace(rest, text=begun + rest.text)


class CustomInputParser:
    """Takes arguments piece by piece, cut anywhere; gives the raw input as soon as it is known.

    At the beginning it waits for the opening of the one field. In the text it decodes. Behind the
    closing quote it leaves out the rest. Where the arguments do not begin as JSON it passes all on;
    where they begin with anything else it waits for the whole.
    """

    def __init__(self) -> None:
        self._state: Literal["beginning", "text", "behind", "raw", "other"] = "beginning"
        # What came and was not told: the beginning, or all of something else. In pieces: models
        # that are held to a schema may write space without end.
        self._pieces: list[str] = []
        # The beginning without its space.
        self._said = ""
        # Half an escape.
        self._held = ""
        # The first of what stands behind the text, without space.
        self._behind = ""
        self._halves = False

    def feed(self, piece: str) -> str:
        """Take a piece of the arguments; give the piece of the input that it brought."""
        if self._state == "raw":
            return piece
        if self._state == "behind":
            self._pass(piece)
            return ""
        if self._state == "text":
            return self._decode(self._held + piece)
        self._pieces.append(piece)
        return self._begin(piece) if self._state == "beginning" else ""

    def finish(self) -> ParsedInput:
        """Learn that no more will come; give the rest of the input, and what is not in it."""
        match self._state:
            case "beginning" | "other":
                return _sole_text("".join(self._pieces))
            case "text":
                # Half an escape is no text; what was decoded of a string that breaks off stands.
                return ParsedInput("", breaks_off=True, has_halves=self._halves)
            case "behind" | "raw":
                has_more = self._behind not in _ENDS
                return ParsedInput("", has_more=has_more, has_halves=self._halves)

    def _pass(self, rest: str) -> None:
        """Look at what stands behind the text, as far as it takes to tell whether it is more."""
        if len(self._behind) < _LONGEST_END:
            self._behind = (self._behind + _SPACE.sub("", rest))[:_LONGEST_END]

    def _begin(self, piece: str) -> str:
        self._said += _SPACE.sub("", piece)
        if INPUT_PREFIX.startswith(self._said) and self._said != INPUT_PREFIX:
            return ""
        held = "".join(self._pieces)
        opened = _OPENED.match(held)
        if opened is not None:
            self._state = "text"
            return self._decode(held[opened.end() :])
        if self._said.startswith("{"):
            self._state = "other"
            return ""
        self._state = "raw"
        return held

    def _decode(self, text: str) -> str:
        """Decode as much of the string as is whole."""
        self._held = ""
        told: list[str] = []
        place = 0
        while (special := _SPECIAL.search(text, place)) is not None:
            told.append(text[place : special.start()])
            if special.group() == '"':
                self._state = "behind"
                self._pass(text[special.end() :])
                return "".join(told)
            if _UNFINISHED.fullmatch(text, special.start()):
                self._held = text[special.start() :]
                return "".join(told)
            character, place = _read_escape(text, special.start())
            told.append(character)
            self._halves = self._halves or (
                character == _NO_CHARACTER and not _IS_NO_CHARACTER.match(text, special.start())
            )
        told.append(text[place:])
        return "".join(told)


def _read_escape(text: str, place: int) -> tuple[str, int]:
    """Read an escape that is whole, and say where it ends; one that nobody knows stays."""
    escape = _ESCAPE.match(text, place)
    if escape is None:
        return "\\", place + 1
    if escape["high"]:
        high, low = int(escape["high"], 16), int(escape["low"], 16)
        code = _FIRST_BEYOND + ((high - _HIGH) << 10) + (low - _LOW)
        return chr(code), escape.end()
    if escape["code"]:
        code = int(escape["code"], 16)
        # Half of a pair, without the other half.
        return (_NO_CHARACTER if code in _SURROGATES else chr(code)), escape.end()
    return _SIMPLE.get(escape["simple"], escape.group()), escape.end()


def _sole_text(arguments: str) -> ParsedInput:
    """Give the text in some arguments: `input`, or the only string, or else all of it."""
    try:
        # Not strict: models leave line ends as they are.
        # What comes here begins as an object.
        value: dict[str, Json] = json.loads(arguments, strict=False)
    except (ValueError, RecursionError) as error:
        return _unreadable(arguments, error)
    texts = {name: text for name, text in value.items() if isinstance(text, str)}
    if INPUT_FIELD not in texts and len(texts) != 1:
        return ParsedInput(arguments if value else "")
    text = texts[INPUT_FIELD] if INPUT_FIELD in texts else next(iter(texts.values()))
    whole = _whole_characters(text)
    return ParsedInput(whole, has_more=len(value) > 1, has_halves=whole != text)


def _unreadable(arguments: str, error: Exception) -> ParsedInput:
    """Give arguments that are no JSON: raw text, or an object that breaks off."""
    said = _SPACE.sub("", arguments)
    if INPUT_PREFIX.startswith(said):
        return ParsedInput("", breaks_off=bool(said))
    return ParsedInput(arguments, breaks_off=_is_at_end(arguments, error))


def _is_at_end(text: str, error: Exception) -> bool:
    """Tell whether a text is JSON but for its end, which is missing."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())


def _whole_characters(text: str) -> str:
    """Replace halves of characters, which JSON can say and no text can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# How a custom tool is shown to a model that can only be told of functions.
#
# The function has one required string. The grammar of the input stands in the description of that
# string, where the model reads it when it fills the string (P026). A regular expression that a JSON
# Schema can express becomes its `pattern`, so that backends that hold a model to the schema hold it
# to the expression, too.


_RAW_TEXT = "Pass the raw text, all of it, as `input`."
# Descriptions may say that the text must not be wrapped.
_ALL_THE_SAME = "Here it is a function. "

# The signs of an expression that mean the same in a JSON Schema: an escape, a class, a group that
# does not capture, a quantifier, or one character. Groups are not referred to: they may get other
# numbers.
_CUSTOM_GRAMMAR_ESCAPE = r"\\(?:[dDwWsSbBnrtfv^$\\.*+?()\[\]{}|/]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})"
_CLASS = rf"\[\^?(?:{_CUSTOM_GRAMMAR_ESCAPE}|\\-|[^\]\[\\])+\]"
_QUANTIFIER = r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?"
_SIGN = re.compile(rf"{_CUSTOM_GRAMMAR_ESCAPE}|{_CLASS}|\(\?:?|{_QUANTIFIER}|.", re.DOTALL)
# What means something else there, or nothing: any other escape, a bracket or a brace that is none
# of those above, flags and named groups, quantifiers that give nothing back, and operations on
# classes.
_UNKNOWN = re.compile(r"[\\\[\]{}]|\(\?|(?:[*+?]|\{.*\})\+|\[.*(?:--|&&|~~|\|\|).*", re.DOTALL)


def custom_tool_as_function(tool: CustomTool, *, strict: bool) -> FunctionTool:
    """Give the function that stands for a custom tool.

    Where a backend can be held to a schema, it is held to an expression.
    """
    pattern = json_schema_pattern(tool)
    told = f"{tool.description}\n\n{_ALL_THE_SAME}" if tool.description else ""
    schema = {
        "type": "object",
        "properties": {INPUT_FIELD: _input_schema(tool, pattern)},
        "required": [INPUT_FIELD],
        "additionalProperties": False,
    }
    return FunctionTool(
        name=tool.name,
        description=told + _RAW_TEXT,
        parameters=Raw(msgspec.json.encode(schema)),
        strict=strict and pattern is not None,
        extras=tuple(extra for extra in tool.extras if not extra.name.startswith("format.")),
    )


def _input_schema(tool: CustomTool, pattern: str | None) -> dict[str, str]:
    schema = {"type": "string", "description": _describe(tool)}
    return schema if pattern is None else schema | {"pattern": pattern}


def _describe(tool: CustomTool) -> str:
    """Describe the input in words, with its grammar."""
    if tool.format != "grammar" or not tool.definition:
        return "The raw text."
    kind = "regular expression" if tool.syntax == "regex" else f"{tool.syntax or 'lark'} grammar"
    return f"The raw text. All of it must match this {kind}:\n{tool.definition}"


def json_schema_pattern(tool: CustomTool) -> str | None:
    """Give the expression of a custom tool as a JSON Schema has it: anchored at both ends."""
    if tool.format != "grammar" or tool.syntax != "regex" or not tool.definition:
        return None
    signs: list[str] = _SIGN.findall(tool.definition)
    if any(map(_UNKNOWN.fullmatch, signs)) or not _is_sound(tool.definition):
        return None
    if _has_alternatives(signs):
        # Between alternatives the anchors would fall apart. A group that does not capture would do,
        # but not every backend knows those.
        return f"^({tool.definition})$"
    before = "" if signs[0] == "^" else "^"
    after = "" if signs[-1] == "$" else "$"
    return before + tool.definition + after


def _is_sound(expression: str) -> bool:
    try:
        re.compile(expression)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _has_alternatives(signs: list[str]) -> bool:
    """Tell whether there are alternatives outside of all groups."""
    depth = 0
    for sign in signs:
        depth += sign.startswith("(") - (sign == ")")
        if sign == "|" and not depth:
            return True
    return False
