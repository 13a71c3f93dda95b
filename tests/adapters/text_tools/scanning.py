"""Tools, texts and helpers for the tests of tool calls in text."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Raw

from adapters.capabilities import TextFormat
from adapters.ir.types import CustomTool, FunctionTool, HostedTool, Tool
from adapters.text_tools.formats import FORMATS
from adapters.text_tools.parser import DeclaredTools
from adapters.text_tools.scanner import FoundCalls, Scanner

SCHEMA = Raw(
    b"""{
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "scale": {"type": "number"},
        "exact": {"type": "boolean"},
        "where": {"type": "object"},
        "tags": {"type": "array"},
        "note": {"type": ["string", "null"]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "unit": {"$ref": "#/$defs/unit"},
        "level": {"enum": [1, 2, 3]},
        "only": {"const": true},
        "loop": {"$ref": "#/properties/loop"},
        "lost": {"$ref": "#/$defs/nothing/at/all"},
        "anything": {}
    },
    "$defs": {"unit": {"oneOf": [{"type": "integer"}, {"type": "object"}]}}
}"""
)
TOOLS: tuple[Tool, ...] = (
    FunctionTool("look", parameters=SCHEMA),
    FunctionTool("time"),
    CustomTool("patch"),
    HostedTool("web_search", Raw(b"{}")),
)
ALL: tuple[TextFormat, ...] = ("hermes", "qwen3_coder", "mistral", "llama", "json", "fenced_json")

# Texts, and calls as pairs of a name and the arguments.
Found = list[str | tuple[str, str]]


def new_scanner(*formats: TextFormat, tools: tuple[Tool, ...] = TOOLS) -> Scanner:
    return Scanner([FORMATS[name] for name in formats], DeclaredTools(tools))


def scan(pieces: Sequence[str], *formats: TextFormat, tools: tuple[Tool, ...] = TOOLS) -> Found:
    """Scan a text that comes in pieces; neighboring texts are joined."""
    scanner = new_scanner(*formats, tools=tools)
    found: Found = []
    for segment in [one for piece in pieces for one in scanner.feed(piece)] + scanner.end():
        if isinstance(segment, FoundCalls):
            found += [(call.name, call.arguments) for call in segment.calls]
        elif found and isinstance(found[-1], str):
            found[-1] += segment
        else:
            found.append(segment)
    return found


def check(text: str, expected: Found, *formats: TextFormat) -> None:
    """Scan a text whole, by characters, and cut in two everywhere."""
    halves = ([text[:cut], text[cut:]] for cut in range(1, len(text)))
    for pieces in ([text], list(text), *halves):
        assert scan(pieces, *formats) == expected, pieces


def cut_up(text: str, positions: Sequence[int]) -> list[str]:
    """Split a text at some positions, modulo its length."""
    cuts = sorted({0, len(text), *(position % (len(text) + 1) for position in positions)})
    return [text[start:end] for start, end in pairwise(cuts)]


LOOK = '{"name": "look", "arguments": {"city": "Rome"}}'
LOOK_CALL = ("look", '{"city": "Rome"}')
TIME = '{"name": "time", "arguments": {}}'
TIME_CALL = ("time", "{}")
