"""Reads a text that is still coming, in the words of a parser that has it all.

A parser is a generator: where it needs more than is there it yields, and it goes on when more has
come or none will. What it has read it never looks at again, so that a long call that comes in a
thousand pieces is read once. It raises `NoCall` as soon as the text cannot be a call.
"""

import re
from collections.abc import Generator, Iterator
from typing import TypeVar

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

from adapters.errors import InvalidRequestError
from adapters.ir.types import FunctionTool, HostedTool, Tool
from adapters.json_text import DECODE_ERRORS
from adapters.tool_emulation.names import ToolName, resolve_hallucinated_name
from adapters.wire.json_object import Json, parse

T = TypeVar("T")
Parse = Generator[None, None, T]

# What may stand in a name; the markup around it is never among these.
_NAME = re.compile(r"""[^\s"'<>{}\[\]]*""")
_SPACE = re.compile(r"\s*")
# JSON, as far as it takes to find its end: in a string, and between strings.
_IN_STRING = re.compile(r'(?:[^"\\\x00-\x1f]+|\\.)*', re.DOTALL)
_BETWEEN = re.compile(r"[\s,:0-9A-Za-z+.-]*")


class NotAToolCallError(Exception):
    """What looked like a call is none."""


class Cursor:
    """A text as far as it has come, and the place up to which it was read."""

    __slots__ = ("_at", "_text", "consumed", "ended")

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self._at = at
        # How much was read in all.
        self.consumed = 0
        # Whether no more will come.
        self.ended = False

    def feed(self, text: str) -> None:
        """Take more text."""
        self._text = self._text[self._at :] + text
        self._at = 0

    def peek_any(self, *words: str) -> Parse[str | None]:
        """Tell which of the words comes next, if any does."""
        while True:
            for word in words:
                if self._text.startswith(word, self._at):
                    return word
            if self.ended or not any(self._may_become(word) for word in words):
                return None
            yield

    def skip(self, *words: str) -> Parse[str | None]:
        """Read one of the words, if it comes next."""
        word = yield from self.peek_any(*words)
        self._take(len(word or ""))
        return word

    def expect(self, *words: str) -> Parse[str]:
        """Read one of the words, which must come next."""
        word = yield from self.skip(*words)
        if word is None:
            raise NotAToolCallError
        return word

    def expect_end_tag(self, word: str) -> Parse[bool]:
        """Read the word that ends a block; at the end of the text it may be missing."""
        if (yield from self.skip(word)):
            return True
        if not self._may_become(word):
            return False
        self._take(len(self._text) - self._at)
        return True

    def skip_space(self) -> Parse[None]:
        """Read what is no word."""
        yield from self._run(_SPACE)

    def name(self) -> Parse[str]:
        """Read a name."""
        name = yield from self._run(_NAME)
        if not name:
            raise NotAToolCallError
        return name

    def at_end(self) -> bool:
        """Tell whether all was read and no more will come."""
        return self.ended and self._at == len(self._text)

    def until(self, end: str) -> Parse[str]:
        """Read up to a word, and the word itself."""
        pieces: list[str] = []
        while True:
            found = self._text.find(end, self._at)
            if found >= 0:
                pieces.append(self._take(found - self._at))
                self._take(len(end))
                return "".join(pieces)
            # The last characters may be the beginning of the word.
            pieces.append(self._take(max(0, len(self._text) - self._at - len(end) + 1)))
            yield from self._wait()

    def json(self, opened: str = "") -> Parse[str]:
        """Read an object or a list as it is spelled, some brackets of which were read already."""
        pieces = [opened]
        depth = len(opened)
        while True:
            pieces.append((yield from self._run(_BETWEEN)))
            mark = yield from self.expect('"', "{", "[", "}", "]")
            pieces.append(mark)
            if mark == '"':
                yield from self._string(pieces)
            else:
                depth += 1 if mark in "{[" else -1
            if not depth:
                return "".join(pieces)

    def _string(self, pieces: list[str]) -> Parse[None]:
        """Read the rest of a string; a bare line break in it cannot be JSON."""
        while True:
            pieces.append(self._match(_IN_STRING))
            rest = self._text[self._at : self._at + 2]
            if rest.startswith('"'):
                pieces.append(self._take(1))
                return
            if rest not in ("", "\\"):
                raise NotAToolCallError
            yield from self._wait()

    def _run(self, characters: re.Pattern[str]) -> Parse[str]:
        """Read as many of some characters as come."""
        taken = self._match(characters)
        while self._at == len(self._text) and not self.ended:
            yield
            taken += self._match(characters)
        return taken

    def _wait(self) -> Parse[None]:
        """Wait for text that is needed."""
        if self.ended:
            raise NotAToolCallError
        yield

    def _may_become(self, word: str) -> bool:
        return word.startswith(self._text[self._at : self._at + len(word)])

    def _match(self, characters: re.Pattern[str]) -> str:
        match = characters.match(self._text, self._at)
        return self._take(match.end() - self._at) if match else ""

    def _take(self, count: int) -> str:
        start, self._at = self._at, self._at + count
        self.consumed += count
        return self._text[start : self._at]


# The tools that a request declared, as far as calls in text need to know them.


_ENCODER = Encoder()
_ANYTHING: Decoder[Json] = Decoder()

_KINDS: dict[type, frozenset[str]] = {
    type(None): frozenset(("null",)),
    bool: frozenset(("boolean",)),
    int: frozenset(("integer", "number")),
    float: frozenset(("number", "integer")),
    str: frozenset(("string",)),
    list: frozenset(("array",)),
    dict: frozenset(("object",)),
}
# Python's words, which models write for JSON's.
_PYTHON = {"True": "true", "False": "false", "None": "null"}

Schema = dict[str, Json]


class DeclaredTools:
    """Knows the names of tools and the types of their parameters.

    A name that a model made up a little is that of the one tool that can be meant.
    """

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        names = dict.fromkeys(tool.name for tool in tools if not isinstance(tool, HostedTool))
        self._known = tuple(ToolName(name, name) for name in names)
        # The declared names, by the names that models say; None: there is none.
        self._meant: dict[str, str | None] = {name: name for name in names}
        self._parameters = {
            tool.name: tool.parameters
            for tool in tools
            if isinstance(tool, FunctionTool) and tool.parameters is not None
        }
        # Schemas that were looked into.
        self._schemas: dict[str, Schema] = {}

    def knows(self, name: str) -> bool:
        """Tell whether a tool is declared; where nobody knows which are, every name will do."""
        return not self._known or self._find(name) is not None

    def _find(self, said: str) -> str | None:
        """Find the name of the tool that is meant."""
        if said not in self._meant:
            found = resolve_hallucinated_name(said, self._known)
            self._meant[said] = None if found is None else found.name
        return self._meant[said]

    def coerce_argument(self, tool: str, parameter: str, text: str) -> Raw:
        """Give the value that a text means for a parameter: a string, unless the schema differs."""
        kinds = frozenset(self._kinds(tool, parameter))
        value = _PYTHON.get(text.strip(), text.strip())
        if "string" in kinds:
            # What may be a string is one: only null is never meant as a word.
            kinds = kinds & {"null"} if value == "null" else frozenset[str]()
        if kinds & _kinds_of(value):
            return Raw(value.encode())
        return Raw(_ENCODER.encode(text))

    def _kinds(self, tool: str, parameter: str) -> Iterator[str]:
        schema = self._schema(tool)
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from _kinds_in(properties.get(parameter), schema)

    def _schema(self, tool: str) -> Schema:
        if tool not in self._schemas:
            raw = self._parameters.get(self._find(tool) or tool)
            self._schemas[tool] = {} if raw is None else _parsed(raw)
        return self._schemas[tool]


def _parsed(raw: Raw) -> Schema:
    try:
        schema = parse(raw)
    except InvalidRequestError:
        return {}
    return schema if isinstance(schema, dict) else {}


def _kinds_of(value: str) -> frozenset[str]:
    """Name the kinds of JSON that a text is."""
    try:
        return _KINDS[type(_ANYTHING.decode(value))]
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return frozenset()


def _kinds_in(schema: Json, root: Schema, depth: int = 0) -> Iterator[str]:
    """Name the kinds of JSON that a schema takes, as far as it says so plainly."""
    if not isinstance(schema, dict) or depth > len(_KINDS):
        return
    kind = schema.get("type")
    yield from (one for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str))
    for word in ("anyOf", "oneOf"):
        options = schema.get(word)
        for option in options if isinstance(options, list) else []:
            yield from _kinds_in(option, root, depth + 1)
    yield from _kinds_in(_referred(schema.get("$ref"), root), root, depth + 1)
    if kind is None:
        yield from _kinds_of_values(schema)


def _kinds_of_values(schema: Schema) -> Iterator[str]:
    """Name the kinds of the values that a schema lists."""
    values = schema.get("enum")
    for value in values if isinstance(values, list) else []:
        yield from _KINDS[type(value)]
    if "const" in schema:
        yield from _KINDS[type(schema["const"])]


def _referred(reference: Json, root: Schema) -> Json:
    """Follow a reference within the schema."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Json = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


# What a call in a text says, and the JSON shapes in which models say it.


Object = dict[str, Raw]

_OBJECT = Decoder(Object)
_OBJECTS: Decoder[Object | list[Object]] = Decoder(Object | list[Object])
_LIST = Decoder(list[Object])
_TEXT = Decoder(str)

# All that an object may hold which stands alone and is to be taken for a call. One that describes
# itself is the declaration of a tool, and one with an answer in it is an answer.
_CALL_KEYS = frozenset(("name", "arguments", "parameters", "function", "id", "type", "index"))
_LIST_KEYS = frozenset(("tool_calls", "role", "content"))
_NOTHING = (b"null", b'""')


class TextToolCall(Struct, frozen=True):
    """A call in a text: its name, and its arguments as the model spelled them."""

    name: str
    arguments: str


def read_calls(text: str, *, alone: bool = False) -> tuple[TextToolCall, ...]:
    """Read the calls that some JSON means; JSON that stands alone must be nothing but calls.

    Raises `NoCall` if it means none.
    """
    try:
        value = _OBJECTS.decode(text)
        objects = value if isinstance(value, list) else [value]
        calls = tuple(call for one in objects for call in _read_object(one, alone=alone))
    except (*DECODE_ERRORS, UnicodeEncodeError):
        raise NotAToolCallError from None
    if not calls:
        raise NotAToolCallError
    return calls


def _read_object(spelled: Object, *, alone: bool) -> Iterator[TextToolCall]:
    listed = spelled.get("tool_calls")
    if listed is None:
        yield _read_call(spelled, alone=alone)
        return
    if spelled.keys() - _LIST_KEYS or bytes(spelled.get("content", b"null")) not in _NOTHING:
        raise NotAToolCallError
    for one in _LIST.decode(listed):
        yield _read_call(one, alone=alone)


def _read_call(spelled: Object, *, alone: bool) -> TextToolCall:
    """Read one call; `function` may be wrapped around it, as Chat does."""
    if alone and spelled.keys() - _CALL_KEYS:
        raise NotAToolCallError
    inner = spelled.get("function")
    if inner is not None:
        return _read_call(_OBJECT.decode(inner), alone=alone)
    arguments = spelled.get("arguments", spelled.get("parameters"))
    name = _TEXT.decode(spelled.get("name", b'""'))
    if not name or (alone and arguments is None):
        raise NotAToolCallError
    return TextToolCall(name, _spelled(arguments))


def _spelled(arguments: Raw | None) -> str:
    """Give arguments as they were spelled; Chat has them in a string."""
    text = "" if arguments is None else bytes(arguments).decode()
    match text[:1]:
        case '"':
            return _TEXT.decode(text)
        case "{":
            return text
        case _ if text in ("", "null"):
            return ""
        case _:
            raise NotAToolCallError
