"""Parsing of incomplete text, of the JSON forms of a call, and of its arguments.

A parser is a generator: it yields where it needs more text, and is resumed after more text was fed
or the text has ended. It reads all text once, also a long call in a thousand pieces. It raises
`NotAToolCallError` as soon as the text cannot be a call.
"""

import re
from collections.abc import Generator, Iterator
from typing import TypeVar

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

from adapters.errors import InvalidRequestError
from adapters.ir.types import FunctionTool, HostedTool, Tool
from adapters.json_text import DECODE_ERRORS, is_complete_json
from adapters.tool_emulation.registry import ToolName, resolve_undeclared_name
from adapters.wire.json_object import Json, parse

T = TypeVar("T")
Parse = Generator[None, None, T]

# The characters of a name: all but whitespace and those of the markup around names.
_NAME = re.compile(r"""[^\s"'<>{}\[\]]*""")
_SPACE = re.compile(r"\s*")
# JSON tokens for finding the end of a value: inside a string, and between strings.
_IN_STRING = re.compile(r'(?:[^"\\\x00-\x1f]+|\\.)*', re.DOTALL)
_BETWEEN_STRINGS = re.compile(r"[\s,:0-9A-Za-z+.-]*")


class NotAToolCallError(Exception):
    """Text that looked like a tool call is not one."""


class Cursor:
    """The text so far, and the position up to which it was read."""

    __slots__ = ("_position", "_text", "begins_line", "consumed", "ended")

    def __init__(self, text: str, position: int, *, begins_line: bool = True) -> None:
        self._text = text
        self._position = position
        # Whether the text starts at the beginning of a line, or right after another block.
        self.begins_line = begins_line
        # The length of all text that was read.
        self.consumed = 0
        # True once no more text will come.
        self.ended = False

    def feed(self, text: str) -> None:
        """Append text."""
        self._text = self._text[self._position :] + text
        self._position = 0

    def peek_any(self, *options: str) -> Parse[str | None]:
        """Return the option at the position, or None."""
        while True:
            for option in options:
                if self._text.startswith(option, self._position):
                    return option
            if self.ended or not any(map(self._may_become, options)):
                return None
            yield

    def skip(self, *options: str) -> Parse[str | None]:
        """Read one of the options, or return None."""
        option = yield from self.peek_any(*options)
        self._take(len(option or ""))
        return option

    def expect(self, *options: str) -> Parse[str]:
        """Read one of the options, or raise `NotAToolCallError`."""
        option = yield from self.skip(*options)
        if option is None:
            raise NotAToolCallError
        return option

    def skip_end_tag(self, tag: str) -> Parse[bool]:
        """Read the end tag of a block, which may be truncated at the end of the text."""
        if (yield from self.skip(tag)):
            return True
        if not self._may_become(tag):
            return False
        self._take(len(self._text) - self._position)
        return True

    def skip_space(self) -> Parse[None]:
        """Read whitespace."""
        yield from self._run(_SPACE)

    def peek(self) -> Parse[str]:
        """Return the next character, or an empty string at the end."""
        while self._position == len(self._text) and not self.ended:
            yield
        return self._text[self._position : self._position + 1]

    def name(self) -> Parse[str]:
        """Read a name."""
        name = yield from self._run(_NAME)
        if not name:
            raise NotAToolCallError
        return name

    def at_end(self) -> bool:
        """Whether all text was read and no more will come."""
        return self.ended and self._position == len(self._text)

    def until(self, end: str) -> Parse[str]:
        """Read the text up to and including `end`; return it without `end`."""
        pieces: list[str] = []
        while True:
            index = self._text.find(end, self._position)
            if index >= 0:
                pieces.append(self._take(index - self._position))
                self._take(len(end))
                return "".join(pieces)
            # The last characters may be the start of the string.
            safe_length = len(self._text) - self._position - len(end) + 1
            pieces.append(self._take(max(0, safe_length)))
            yield from self._wait()

    def object(self) -> Parse[str]:
        """Read a JSON object."""
        if not (yield from self.peek_any("{")):
            raise NotAToolCallError
        text = yield from self.json()
        if not is_complete_json(text):
            raise NotAToolCallError
        return text

    def json(self, opened: str = "") -> Parse[str]:
        """Read an object or array; `opened` has those of its brackets that were already read."""
        pieces = [opened]
        depth = len(opened)
        while True:
            pieces.append((yield from self._run(_BETWEEN_STRINGS)))
            mark = yield from self.expect('"', "{", "[", "}", "]")
            pieces.append(mark)
            if mark == '"':
                yield from self._string(pieces)
            else:
                depth += 1 if mark in "{[" else -1
            if not depth:
                return "".join(pieces)

    def _string(self, pieces: list[str]) -> Parse[None]:
        """Read the rest of a JSON string, which cannot contain a bare line break."""
        while True:
            pieces.append(self._match(_IN_STRING))
            rest = self._text[self._position : self._position + 2]
            if rest.startswith('"'):
                pieces.append(self._take(1))
                return
            if rest not in ("", "\\"):
                raise NotAToolCallError
            yield from self._wait()

    def _run(self, pattern: re.Pattern[str]) -> Parse[str]:
        """Read all characters that match a pattern."""
        text = self._match(pattern)
        while self._position == len(self._text) and not self.ended:
            yield
            text += self._match(pattern)
        return text

    def _wait(self) -> Parse[None]:
        """Wait for more text; raise `NotAToolCallError` at the end of the text."""
        if self.ended:
            raise NotAToolCallError
        yield

    def _may_become(self, option: str) -> bool:
        return option.startswith(self._text[self._position : self._position + len(option)])

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        return self._take(match.end() - self._position) if match else ""

    def _take(self, length: int) -> str:
        start, self._position = self._position, self._position + length
        self.consumed += length
        return self._text[start : self._position]


# JSON forms of a call

Object = dict[str, Raw]

_OBJECT = Decoder(Object)
_OBJECT_OR_LIST: Decoder[Object | list[Object]] = Decoder(Object | list[Object])
_LIST = Decoder(list[Object])
_STRING = Decoder(str)

# All fields that a bare call may have. An object with a description is the declaration of a tool,
# and one with other fields is a reply in JSON.
CALL_FIELDS = frozenset(("name", "arguments", "parameters", "function", "id", "type", "index"))
MESSAGE_FIELDS = frozenset(("tool_calls", "role", "content"))
_EMPTY_CONTENT = (b"null", b'""')


class TextToolCall(Struct, frozen=True):
    """A call in a text, with its arguments as the model wrote them."""

    name: str
    arguments: str
    # The id in the text; None to generate one.
    call_id: str | None = None


Calls = tuple[TextToolCall, ...]


def read_calls(text: str, *, bare: bool = False) -> Calls:
    """Read the calls in JSON; bare JSON, without markup, must not contain anything else.

    Raises `NotAToolCallError` if it contains no calls.
    """
    try:
        value = _OBJECT_OR_LIST.decode(text)
        objects = value if isinstance(value, list) else [value]
        calls = tuple(call for one in objects for call in _read_object(one, bare=bare))
    except (*DECODE_ERRORS, UnicodeEncodeError):
        raise NotAToolCallError from None
    if not calls:
        raise NotAToolCallError
    return calls


def _read_object(fields: Object, *, bare: bool) -> Iterator[TextToolCall]:
    """Read a call, or a Chat message with `tool_calls`."""
    calls = fields.get("tool_calls")
    if calls is None:
        yield _read_call(fields, bare=bare)
        return
    if fields.keys() - MESSAGE_FIELDS:
        raise NotAToolCallError
    if bytes(fields.get("content", b"null")) not in _EMPTY_CONTENT:
        raise NotAToolCallError
    for call in _LIST.decode(calls):
        yield _read_call(call, bare=bare)


def _read_call(fields: Object, *, bare: bool) -> TextToolCall:
    """Read one call, which may be nested in `function` as in Chat."""
    if bare and fields.keys() - CALL_FIELDS:
        raise NotAToolCallError
    function = fields.get("function")
    if function is not None:
        return _read_call(_OBJECT.decode(function), bare=bare)
    arguments = fields.get("arguments", fields.get("parameters"))
    name = _STRING.decode(fields.get("name", b'""'))
    if not name or (bare and arguments is None):
        raise NotAToolCallError
    return TextToolCall(name, _arguments_text(arguments))


def _arguments_text(arguments: Raw | None) -> str:
    """Return arguments as text, also if they are in a string, as in Chat."""
    text = "" if arguments is None else bytes(arguments).decode()
    match text[:1]:
        case '"':
            return _STRING.decode(text)
        case "{":
            return text
        case _ if text in ("", "null"):
            return ""
        case _:
            raise NotAToolCallError


# The declared tools

Schema = dict[str, Json]

_ENCODER = Encoder()
_DECODER: Decoder[Json] = Decoder()

_JSON_TYPES: dict[type, frozenset[str]] = {
    type(None): frozenset(("null",)),
    bool: frozenset(("boolean",)),
    int: frozenset(("integer", "number")),
    float: frozenset(("number", "integer")),
    str: frozenset(("string",)),
    list: frozenset(("array",)),
    dict: frozenset(("object",)),
}
_MAX_SCHEMA_DEPTH = 7
# Literals of Python that models write instead of those of JSON.
_PYTHON_LITERALS = {"True": "true", "False": "false", "None": "null"}


class DeclaredTools:
    """The tools that text may call; a similar name is resolved to the only tool it can mean."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        names = dict.fromkeys(tool.name for tool in tools if not isinstance(tool, HostedTool))
        self._names = tuple(ToolName(name, name) for name in names)
        # Declared names by called names; None for names that mean no tool.
        self._resolved: dict[str, str | None] = {name: name for name in names}
        self._parameters = {
            tool.name: tool.parameters
            for tool in tools
            if isinstance(tool, FunctionTool) and tool.parameters is not None
        }
        self._schemas: dict[str, Schema] = {}

    def is_declared(self, name: str) -> bool:
        """Whether a tool is declared; always true if no tools are known."""
        return not self._names or self._resolve(name) is not None

    def has(self, name: str) -> bool:
        """Whether a tool is declared by exactly this name."""
        return self._resolved.get(name) == name

    def check_declared(self, calls: Calls) -> Calls:
        """Return the calls; raise `NotAToolCallError` if the tool of a call is not declared."""
        if not all(self.is_declared(call.name) for call in calls):
            raise NotAToolCallError
        return calls

    def _resolve(self, called: str) -> str | None:
        if called not in self._resolved:
            tool = resolve_undeclared_name(called, self._names)
            self._resolved[called] = None if tool is None else tool.name
        return self._resolved[called]

    def coerce_argument(self, tool: str, parameter: str, text: str) -> Raw:
        """Return a text as the JSON value of a parameter: a string, unless the schema differs."""
        schema = self._schema(tool)
        properties = schema.get("properties")
        declared = properties.get(parameter) if isinstance(properties, dict) else None
        types = frozenset(_types_in_schema(declared, schema))
        value = _PYTHON_LITERALS.get(text.strip(), text.strip())
        if "string" in types:
            # Any text is a valid string; only `null` means something else, if null is allowed.
            types = types & {"null"} if value == "null" else frozenset[str]()
        if types & _types_of_text(value):
            return Raw(value.encode())
        return Raw(_ENCODER.encode(text))

    def _schema(self, tool: str) -> Schema:
        if tool not in self._schemas:
            raw = self._parameters.get(self._resolve(tool) or tool)
            self._schemas[tool] = {} if raw is None else _parse_schema(raw)
        return self._schemas[tool]


def _parse_schema(raw: Raw) -> Schema:
    try:
        schema = parse(raw)
    except InvalidRequestError:
        return {}
    return schema if isinstance(schema, dict) else {}


def is_json(text: str) -> bool:
    """Whether a text is a JSON value of any type."""
    return bool(_types_of_text(text))


def _types_of_text(text: str) -> frozenset[str]:
    """Return the JSON types of a text; an empty set if it is not JSON."""
    try:
        return _JSON_TYPES[type(_DECODER.decode(text))]
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return frozenset()


def _types_in_schema(schema: Json, root: Schema, depth: int = 0) -> Iterator[str]:
    """Yield the JSON types that a schema allows; only simple keywords are read."""
    if not isinstance(schema, dict) or depth > _MAX_SCHEMA_DEPTH:
        return
    declared = schema.get("type")
    for name in declared if isinstance(declared, list) else [declared]:
        if isinstance(name, str):
            yield name
    for option in (*_as_list(schema.get("anyOf")), *_as_list(schema.get("oneOf"))):
        yield from _types_in_schema(option, root, depth + 1)
    yield from _types_in_schema(_resolve_reference(schema.get("$ref"), root), root, depth + 1)
    if declared is None:
        for value in _as_list(schema.get("enum")):
            yield from _JSON_TYPES[type(value)]
        if "const" in schema:
            yield from _JSON_TYPES[type(schema["const"])]


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _resolve_reference(reference: Json, root: Schema) -> Json:
    """Return the target of a reference within the schema."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    target: Json = root
    for step in reference.removeprefix("#/").split("/"):
        target = target.get(step) if isinstance(target, dict) else None
    return target
