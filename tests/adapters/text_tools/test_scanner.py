"""The result does not depend on where a text was cut, and no text is lost."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st
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

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


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


TOKENS = [
    *("<tool_call>", "</tool_call>", "<function=look>", "</function>", "<parameter=city>"),
    *("</parameter>", '<invoke name="time">', "</invoke>", "[TOOL_CALLS]", "[ARGS]"),
    *("<|python_tag|>", "```json\n", "```", LOOK, TIME, "look", "{", "}", "[", '"', "\\", ";"),
    *("<", "\n", " ", "é"),
]
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=14).map("".join)
POSITIONS = st.lists(st.integers(0, 300), max_size=40)


@given(text=TEXTS, positions=POSITIONS)
def test_cuts_do_not_change_the_result(text: str, positions: Sequence[int]) -> None:
    whole = scan([text], *ALL)
    assert scan(cut_up(text, positions), *ALL) == whole
    assert scan(list(text), *ALL) == whole


@given(text=TEXTS, positions=POSITIONS)
def test_all_text_comes_out_in_its_order(text: str, positions: Sequence[int]) -> None:
    scanner = new_scanner(*ALL)
    segments = [one for piece in cut_up(text, positions) for one in scanner.feed(piece)]
    rest = text
    for segment in segments + scanner.end():
        length = segment.length if isinstance(segment, FoundCalls) else len(segment)
        assert isinstance(segment, FoundCalls) or rest.startswith(segment)
        rest = rest[length:]
    assert not rest


@given(
    arguments=st.dictionaries(st.text(max_size=6), VALUES, max_size=3),
    indent=st.sampled_from([None, 0, 2]),
    positions=POSITIONS,
)
def test_arguments_are_kept_as_written(
    arguments: dict[str, object], indent: int | None, positions: Sequence[int]
) -> None:
    plain = msgspec.json.encode(arguments)
    written = (plain if indent is None else msgspec.json.format(plain, indent=indent)).decode()
    texts: dict[TextFormat, str] = {
        "hermes": f'<tool_call>{{"name": "look", "arguments": {written}}}</tool_call>',
        "mistral": f"[TOOL_CALLS]look[ARGS]{written}",
        "llama": f'<|python_tag|>{{"name": "look", "parameters": {written}}}',
        "json": f'{{"name": "look", "arguments": {written}}}',
        "fenced_json": f'```json\n{{"name": "look", "arguments": {written}}}\n```',
        "qwen3_coder": f"<function=look>{written}</function>",
    }
    for name, text in texts.items():
        assert scan(cut_up(text, positions), name) == [("look", written)]


def test_long_block_is_read_once() -> None:
    """A scanner that reads pieces again takes seconds here."""
    body = msgspec.json.encode({"text": "word " * 40_000}).decode()
    text = f'<tool_call>{{"name": "look", "arguments": {body}}}</tool_call>'
    pieces = [text[start : start + 4] for start in range(0, len(text), 4)]
    assert scan(pieces, *ALL) == [("look", body)]
    broken = "<function=a><parameter=b>" * 20_000
    assert scan([broken], *ALL) == [broken]


def test_text_is_passed_on_at_once() -> None:
    scanner = new_scanner(*ALL)
    assert scanner.feed("if a < b: ") == ["if a < b: "]
    assert scanner.feed("x <to") == ["x "]
    assert scanner.is_holding
    assert scanner.feed("day> y") == ["<", "today> y"]
    assert not scanner.is_holding


def test_json_that_is_no_call_is_passed_on_at_its_first_field() -> None:
    scanner = new_scanner("json")
    assert scanner.feed('{ "na') == []
    assert "".join(map(str, scanner.feed('tion": '))) == '{ "nation": '
    assert not scanner.is_holding
