"""Calls in texts of every format; where a text was cut does not matter, and no text is lost."""

from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters.capabilities import TextFormat
from adapters.ir.types import CustomTool, FunctionTool, HostedTool, Tool
from adapters.text_tools.formats import FORMATS
from adapters.text_tools.parser import DeclaredTools
from adapters.text_tools.scanner import FoundCalls, FoundChannel, Scanner

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
ALL: tuple[TextFormat, ...] = get_args(TextFormat)

# Texts, calls as pairs of a name and the arguments, and channels as lists.
Found = list[str | tuple[str, str] | list[str]]

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
        elif isinstance(segment, FoundChannel):
            found.append([segment.channel])
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


DSML = "\N{FULLWIDTH VERTICAL LINE}DSML\N{FULLWIDTH VERTICAL LINE}"

TOKENS = [
    *("<tool_call>", "</tool_call>", "<function=look>", "</function>", "<parameter=city>"),
    *("</parameter>", '<invoke name="time">', "</invoke>", "[TOOL_CALLS]", "[ARGS]"),
    *("<|python_tag|>", "```json\n", "```", LOOK, TIME, "look", "{", "}", "[", '"', "\\", ";"),
    *("<", "\n", " ", "é"),
    *("<|start|>assistant", "<|channel|>", "analysis", "commentary", "final", " to=functions."),
    *("<|constrain|>json", "<|message|>", "<|call|>", "<|end|>", "assistant", "{}", '{"a": 1}'),
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.look:0"),
    *("<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"),
    *("<arg_key>city</arg_key>", "<arg_value>", "</arg_value>"),
    *(f"<{DSML}tool_calls>", f'<{DSML}invoke name="look">', f"</{DSML}invoke>"),
    *(f'<{DSML}parameter name="days" string="false">', f"</{DSML}parameter>"),
    f"</{DSML}tool_calls>",
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
        length = len(segment) if isinstance(segment, str) else segment.length
        assert not isinstance(segment, str) or rest.startswith(segment)
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
        "harmony": f"<|channel|>commentary to=functions.look json<|message|>{written}<|call|>",
        "kimi": f"<|tool_call_begin|>look:0<|tool_call_argument_begin|>{written}<|tool_call_end|>",
        "dsml": f'<{DSML}invoke name="look">{written}</{DSML}invoke>',
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


LOOK_BLOCK = f"<tool_call>\n{LOOK}\n</tool_call>"
ESCAPED_CALL = '{"name": "time", "arguments": "{\\"a\\": 1}"}'
ODD_ARGUMENTS = '{ "b":1.0,  "a":"</tool_call> \\"\\\\é\\u00e9😀" }'
CITY, DAYS = "<parameter=city>Rome</parameter>", "<parameter=days>2</parameter>"
CALLS: dict[TextFormat, list[tuple[str, Found]]] = {
    "hermes": [
        (LOOK_BLOCK, [LOOK_CALL]),
        (f"<tool_call>{LOOK}</tool_call>", [LOOK_CALL]),
        (f"So. <tool_call>{LOOK}</tool_call> And.", ["So. ", LOOK_CALL, " And."]),
        (f"{LOOK_BLOCK}\n<tool_call>\n{TIME}\n</tool_call>", [LOOK_CALL, "\n", TIME_CALL]),
        # Several calls in one block, an array, and a block without an end.
        (f"<tool_call>{LOOK}\n{TIME}</tool_call>", [LOOK_CALL, TIME_CALL]),
        (f"<tool_call>[{LOOK}, {TIME}]</tool_call>", [LOOK_CALL, TIME_CALL]),
        (f"<tool_call>{LOOK}\n<tool_call>{TIME}</tool_call>", [LOOK_CALL, TIME_CALL]),
        (f"<tool_call>{LOOK}", [LOOK_CALL]),
        (f"<tool_call>{LOOK}\n</tool_c", [LOOK_CALL]),
        # Other forms of a call.
        ('<tool_call>{"name": "look", "parameters": {"a":1}}</tool_call>', [("look", '{"a":1}')]),
        ('<tool_call>{"name": "time"}</tool_call>', [("time", "")]),
        ('<tool_call>{"name": "time", "arguments": null}</tool_call>', [("time", "")]),
        (f'<tool_call>{{"function": {ESCAPED_CALL}}}</tool_call>', [("time", '{"a": 1}')]),
        # The arguments are unchanged.
        (
            f'<tool_call>{{"arguments" : {ODD_ARGUMENTS} ,"name":"look"}}</tool_call>',
            [("look", ODD_ARGUMENTS)],
        ),
        # An undeclared name; the markup is unambiguous.
        ('<tool_call>{"name": "fly", "arguments": {}}</tool_call>', [("fly", "{}")]),
    ],
    "qwen3_coder": [
        ("<function=time></function>", [TIME_CALL]),
        ("a<function=time>\n</function>b", ["a", TIME_CALL, "b"]),
        (f"<function=look>{CITY}\n{DAYS}</function>", [("look", '{"city":"Rome","days":2}')]),
        # The opening tag is missing, or the closing one is.
        ("<function=time></function>\n</tool_call>", [TIME_CALL]),
        ("<tool_call><function=time></function>", [TIME_CALL]),
        ("<tool_call><function=time></function></tool", [TIME_CALL]),
        # Several calls in one outer tag.
        (
            (
                '<function_calls>\n<invoke name="look">\n<parameter name="city">Rome\n</parameter>'
                '\n</invoke>\n<invoke name="time">\n</invoke>\n</function_calls>'
            ),
            [("look", '{"city":"Rome\\n"}'), TIME_CALL],
        ),
        (
            (
                '<minimax:tool_call><invoke name="look"><parameter name="city">\nRome\n</parameter>'
                "</invoke></minimax:tool_call>"
            ),
            [("look", '{"city":"Rome"}')],
        ),
        ('<function name="time"></function>', [TIME_CALL]),
        # All arguments as JSON.
        ('<function=look>{"city": "Rome"} </function>', [LOOK_CALL]),
        # An undeclared name is a call only within the outer tag.
        ("<tool_call><function=fly></function></tool_call>", [("fly", "{}")]),
        # A slightly different name means the declared tool, and gets its types.
        ("<function=functions.time></function>", [("functions.time", "{}")]),
        (f"<function=Look>{DAYS}</function>", [("Look", '{"days":2}')]),
    ],
    "mistral": [
        (f"[TOOL_CALLS][{LOOK}]", [LOOK_CALL]),
        (f"So.[TOOL_CALLS] [{LOOK}, {TIME}]", ["So.", LOOK_CALL, TIME_CALL]),
        (f"[TOOL_CALLS]{LOOK}", [LOOK_CALL]),
        ('[TOOL_CALLS]look{"city": "Rome"}', [LOOK_CALL]),
        ('[TOOL_CALLS]look[ARGS]{"city": "Rome"}[TOOL_CALLS]time[ARGS]{}', [LOOK_CALL, TIME_CALL]),
        ("[TOOL_CALLS]time[CALL_ID]abc123DEF[ARGS]{} done", [TIME_CALL, " done"]),
        ("[TOOL_CALLS]fly{}", [("fly", "{}")]),
        ('So. [TOOL_CALLS] look {"city": "Rome"} Done.', ["So. ", LOOK_CALL, " Done."]),
        ('[TOOL_CALLS] look [ARGS] {"city": "Rome"}', [LOOK_CALL]),
        ("[TOOL_CALLS]time [CALL_ID]abc123DEF [ARGS]\n{}", [TIME_CALL]),
        ("[TOOL_CALLS] functions.time {}", [("functions.time", "{}")]),
        # An undeclared name is a call only without a space, or with [ARGS].
        ("[TOOL_CALLS] fly [ARGS]{}", [("fly", "{}")]),
    ],
    "llama": [
        ('<|python_tag|>{"name": "look", "parameters": {"city": "Rome"}}', [LOOK_CALL]),
        (f"<|python_tag|>{LOOK}; {TIME}", [LOOK_CALL, TIME_CALL]),
        (f"<|python_tag|>{LOOK};{TIME}<|eom_id|>", [LOOK_CALL, TIME_CALL]),
        (f"<|python_tag|>{LOOK};", [LOOK_CALL]),
        (f"<|python_tag|>{LOOK}<|eot_id|> so", [LOOK_CALL, " so"]),
    ],
    "json": [
        (LOOK, [LOOK_CALL]),
        (f" \n{LOOK}\n", [" \n", LOOK_CALL]),
        ('{"tool_calls": [{"name": "look", "arguments": {"city": "Rome"}}]}', [LOOK_CALL]),
        (
            (
                '{"role": "assistant", "content": null, "tool_calls": [{"id": "1", '
                '"type": "function", "function": '
                '{"name": "look", "arguments": "{\\"city\\": \\"Rome\\"}"}}]}'
            ),
            [LOOK_CALL],
        ),
        ('{\n  "name": "look",\n  "parameters": {"city": "Rome"}\n}', [LOOK_CALL]),
        ('{"type": "function", "name": "look", "parameters": {"city": "Rome"}}', [LOOK_CALL]),
        (f"[{LOOK}, {TIME}]", [LOOK_CALL, TIME_CALL]),
        (f"{LOOK}; {TIME}", [LOOK_CALL, TIME_CALL]),
        ('{"name": "functions.time", "arguments": {}}', [("functions.time", "{}")]),
        ('{"name": "Time", "arguments": {}}', [("Time", "{}")]),
    ],
    "fenced_json": [
        (f"```json\n{LOOK}\n```", [LOOK_CALL]),
        (f"So:\n```json\n{LOOK}\n```\nDone.", ["So:\n", LOOK_CALL, "\nDone."]),
        (f"```tool_call\n{LOOK}\n```", [LOOK_CALL]),
        (f"```tool_calls\n[{LOOK}, {TIME}]\n```", [LOOK_CALL, TIME_CALL]),
        (f"```json\n{LOOK}\n{TIME}\n```", [LOOK_CALL, TIME_CALL]),
        ('```json\n{"name": "LOOK", "arguments": {}}\n```', [("LOOK", "{}")]),
        (f"```json\n{LOOK}", [LOOK_CALL]),
        (f"```json\n{LOOK}\n``", [LOOK_CALL]),
    ],
}
NO_CALLS: dict[TextFormat, list[str]] = {
    "hermes": [
        *("<tool_call>", "<tool_ca", "a < b <tool_calling>"),
        '<tool_call>{"name": "look", "arguments": {"city": "Ro',
        '<tool_call>{"name": "look", "arguments": {"city": "Rome"}',
        '<tool_call>{"name": "look", "arguments": {"city": "Rome\\',
        f"<tool_call>{LOOK} and more</tool_call>",
        f"<tool_call>see {LOOK}</tool_call>",
        "<tool_call>{'name': 'look'}</tool_call>",
        '<tool_call>{"name": "look" "arguments": {}}</tool_call>',
        '<tool_call>{"name": "look", "arguments": {"city": "two\nlines"}}</tool_call>',
        '<tool_call>{"name": "look", "arguments": {}]</tool_call>',
        '<tool_call>{"name": "look", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "", "arguments": {}}</tool_call>',
        '<tool_call>{"name": 1, "arguments": {}}</tool_call>',
        '<tool_call>{"city": "Rome"}</tool_call>',
        '<tool_call>{"name": "look", "arguments": {"city": "\ud800"}}</tool_call>',
        *("<tool_call>[]</tool_call>", "<tool_call></tool_call>"),
    ],
    "qwen3_coder": [
        "<function=look><parameter=city>Rome",
        "<function=look><parameter=city>Rome</parameter>",
        "<function=look><parameter=city>Rome</parameter></func",
        "<function=look><parameter=city>Rome</parameter>more</function>",
        *("<function=>no name</function>", "<function=two words></function>"),
        "<function=look>words</function>",
        '<function=look>{"city": Rome}</function>',
        "<tool_call><function=look></function> more</tool_call>",
        f"<tool_call>{LOOK}</tool_call>",
        "<function=fly></function>",
    ],
    "mistral": [
        *("[TOOL_CALLS] precedes {} always", "[TOOL_CALLS", "[TOOL_CALLS]", "[TOOL_CALLS]look"),
        *("[TOOL_CALLS]look[ARGS]", '[TOOL_CALLS]look{"city": ', '[TOOL_CALLS]look{"city"}'),
        *("[TOOL_CALLS]look at this", "[1, 2] [TOOLS]"),
    ],
    "llama": ['<|python_tag|>print("x")', '<|python_tag|>{"name": "look"', "a <| b"],
    "json": [
        # Not the whole reply.
        f"So: {LOOK}",
        f"{LOOK} That was it.",
        # Not a call.
        '{"city": "Rome"}',
        '{"name": "look"}',
        '{"name": "fly", "arguments": {}}',
        '{"name": "look", "description": "Looks.", "parameters": {"type": "object"}}',
        '{"tool_calls": []}',
        f'{{"content": "Yes.", "tool_calls": [{LOOK}]}}',
        '{"name": "look", "arguments": {"city":',
        *("[1, 2, 3]", "{", "["),
    ],
    "fenced_json": [
        f"```python\n{LOOK}\n```",
        '```json\n{"a": 1}\n```',
        f"```json\n{LOOK}\nmore\n```",
        '```json\n{"name": "look", ',
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [(name, text, expected) for name, rows in CALLS.items() for text, expected in rows],
)
def test_calls_are_found(name: TextFormat, text: str, expected: Found) -> None:
    check(text, expected, name)


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in NO_CALLS.items() for text in texts]
)
def test_other_text_is_unchanged(name: TextFormat, text: str) -> None:
    check(text, [text], name)


def test_empty_text_has_no_calls() -> None:
    check("", [], *ALL)


def test_call_after_a_broken_call_is_found() -> None:
    good = f"<tool_call>{LOOK}</tool_call>"
    for bad in ("<tool_call> oops ", '<tool_call>{"name" ', '<tool_call>{"name": "a\n'):
        check(bad + good, [bad, LOOK_CALL], "hermes")


# For each parameter, how its values are written in the text and in JSON.
TYPED_VALUES: dict[str, dict[str, str]] = {
    "city": {
        **{text: f'"{text}"' for text in ("Rome", "12", "true", "null", "")},
        "two\n\n  lines \n": '"two\\n\\n  lines \\n"',
        '<b class="x">&amp;</b> é': '"<b class=\\"x\\">&amp;</b> é"',
    },
    "days": {" 3 ": "3", "three": '"three"', "2.0": "2.0"},
    "scale": {"1.50": "1.50", "2": "2"},
    "exact": {"true": "true", "False": "false"},
    "where": {'{"x": [1, 2]}': '{"x": [1, 2]}', "[1]": '"[1]"'},
    "tags": {'["a",\n"b"]': '["a",\n"b"]'},
    "note": {"null": "null", "None": "null", "5": '"5"'},
    "limit": {"null": "null", "7": "7"},
    "unit": {'{"a": 1}': '{"a": 1}'},
    "level": {"2": "2"},
    "only": {"true": "true"},
    **{name: {"1": '"1"'} for name in ("loop", "lost", "anything", "undeclared")},
}


@pytest.mark.parametrize(
    ("name", "value", "json"),
    [(name, text, json) for name, values in TYPED_VALUES.items() for text, json in values.items()],
)
def test_values_get_the_types_of_the_schema(name: str, value: str, json: str) -> None:
    inner = f"<parameter={name}>\n{value}\n</parameter>"
    text = f"<tool_call>\n<function=look>\n{inner}\n</function>\n</tool_call>"
    check(text, [("look", f'{{"{name}":{json}}}')], "qwen3_coder")


def test_ambiguous_name_is_no_call() -> None:
    tools = (FunctionTool("run"), FunctionTool("RUN"))
    for name, is_call in (("run", True), ("RUN", True), ("Run", False)):
        text = f'{{"name": "{name}", "arguments": {{}}}}'
        assert scan([text], "json", tools=tools) == ([(name, "{}")] if is_call else [text])


def test_formats_can_be_mixed() -> None:
    tags = "<tool_call><function=time></function></tool_call>"
    text = f"a<tool_call>{LOOK}</tool_call>b{tags}c[TOOL_CALLS]time{{}}d```json\n{TIME}\n```e"
    check(text, ["a", LOOK_CALL, "b", TIME_CALL, "c", TIME_CALL, "d", TIME_CALL, "e"], *ALL)
    check("[TOOL_CALLS]time{}", [TIME_CALL], *ALL)
    check(f"[{LOOK}]", [LOOK_CALL], *ALL)
    check("[see] this", ["[see] this"], *ALL)


def test_any_name_is_a_call_if_no_tools_are_known() -> None:
    assert scan([LOOK], "json", tools=()) == [LOOK_CALL]
    assert scan([LOOK], "json", tools=(FunctionTool("other"),)) == [LOOK]
    assert scan(['{"name": "patch", "arguments": {}}'], "json") == [("patch", "{}")]


@pytest.mark.parametrize("schema", [b"[]", b"not JSON", b'{"properties": 1}', b"null"])
def test_unusable_schema_makes_strings(schema: bytes) -> None:
    text = "<function=odd><parameter=a>1</parameter></function>"
    tools = (FunctionTool("odd", parameters=Raw(schema)),)
    assert scan([text], "qwen3_coder", tools=tools) == [("odd", '{"a":"1"}')]
