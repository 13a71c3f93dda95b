"""The declared tools of a request: their names, and the JSON types of their parameters."""

from collections.abc import Iterator

from msgspec import Raw
from msgspec.json import Decoder, Encoder

from adapters.errors import InvalidRequestError
from adapters.ir.types import FunctionTool, HostedTool, Tool
from adapters.json_text import DECODE_ERRORS
from adapters.tool_emulation.names import ToolName, resolve_hallucinated_name
from adapters.wire.json_object import Json, parse

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
# Literals of Python, which models write in place of those of JSON.
_PYTHON_LITERALS = {"True": "true", "False": "false", "None": "null"}


class DeclaredTools:
    """The tools that text may call.

    A name that a model changed a little stands for the one tool that it can mean.
    """

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        names = dict.fromkeys(tool.name for tool in tools if not isinstance(tool, HostedTool))
        self._names = tuple(ToolName(name, name) for name in names)
        # Declared names by called names; None if no tool is meant.
        self._resolved: dict[str, str | None] = {name: name for name in names}
        self._parameters = {
            tool.name: tool.parameters
            for tool in tools
            if isinstance(tool, FunctionTool) and tool.parameters is not None
        }
        self._schemas: dict[str, Schema] = {}

    def is_declared(self, name: str) -> bool:
        """Whether a tool is declared; if no tools are known, every name may be."""
        return not self._names or self._resolve(name) is not None

    def _resolve(self, called: str) -> str | None:
        if called not in self._resolved:
            tool = resolve_hallucinated_name(called, self._names)
            self._resolved[called] = None if tool is None else tool.name
        return self._resolved[called]

    def coerce_argument(self, tool: str, parameter: str, text: str) -> Raw:
        """Return the JSON value of a text for a parameter: a string, unless the schema differs."""
        types = frozenset(self._parameter_types(tool, parameter))
        value = _PYTHON_LITERALS.get(text.strip(), text.strip())
        if "string" in types:
            # Any text can be a string; only null is not meant as one.
            types = types & {"null"} if value == "null" else frozenset[str]()
        if types & _types_of_text(value):
            return Raw(value.encode())
        return Raw(_ENCODER.encode(text))

    def _parameter_types(self, tool: str, parameter: str) -> Iterator[str]:
        schema = self._schema(tool)
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from _types_in_schema(properties.get(parameter), schema)

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


def _types_of_text(text: str) -> frozenset[str]:
    """Return the JSON types of a text; none if it is not JSON."""
    try:
        return _JSON_TYPES[type(_DECODER.decode(text))]
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return frozenset()


def _types_in_schema(schema: Json, root: Schema, depth: int = 0) -> Iterator[str]:
    """Yield the JSON types that a schema allows, as far as simple keywords say so."""
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
    """Return what a reference within the schema points to."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    target: Json = root
    for step in reference.removeprefix("#/").split("/"):
        target = target.get(step) if isinstance(target, dict) else None
    return target
