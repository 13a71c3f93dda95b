"""The tools that a request declared, as far as calls in text need to know them."""

from collections.abc import Iterator

from msgspec import Raw
from msgspec.json import Decoder, Encoder

from adapters.errors import InvalidRequestError
from adapters.ir.types import FunctionTool, HostedTool, Tool
from adapters.json_text import DECODE_ERRORS
from adapters.tool_emulation.names import ToolName, resolve_hallucinated_name
from adapters.wire.json_object import Json, parse

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
