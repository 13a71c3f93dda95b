"""Calls in text, format by format: each text is read whole, in characters, and cut in two."""

from collections.abc import Iterator, Sequence

import pytest
from msgspec import Raw

from adapters.capabilities import TextFormat
from adapters.ir.types import CustomTool, FunctionTool, HostedTool, Tool
from adapters.text_tools.declared_tools import DeclaredTools
from adapters.text_tools.formats import FORMATS
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

# What comes out: text, and calls as pairs of a name and the arguments.
Told = list[str | tuple[str, str]]


def told(pieces: Sequence[str], *formats: TextFormat, tools: tuple[Tool, ...] = TOOLS) -> Told:
    """Read a text in pieces; texts side by side are put together."""
    scanner = Scanner([FORMATS[name] for name in formats], DeclaredTools(tools))
    out: Told = []
    for piece in [one for text in pieces for one in scanner.feed(text)] + scanner.end():
        if isinstance(piece, FoundCalls):
            out += [(call.name, call.arguments) for call in piece.calls]
        elif out and isinstance(out[-1], str):
            out[-1] += piece
        else:
            out.append(piece)
    return out


def cuts(text: str) -> Iterator[list[str]]:
    """Cut a text in every way that matters."""
    yield [text]
    yield list(text)
    yield from ([text[:place], text[place:]] for place in range(1, len(text)))


def check(text: str, expected: Told, *formats: TextFormat) -> None:
    for pieces in cuts(text):
        assert told(pieces, *formats) == expected, pieces


LOOK = '{"name": "look", "arguments": {"city": "Rome"}}'
LOOKED = ("look", '{"city": "Rome"}')
TIME = '{"name": "time", "arguments": {}}'
TIMED = ("time", "{}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<tool_call>\n{LOOK}\n</tool_call>", [LOOKED]),
        (f"<tool_call>{LOOK}</tool_call>", [LOOKED]),
        (f"So. <tool_call>{LOOK}</tool_call> And.", ["So. ", LOOKED, " And."]),
        (
            f"<tool_call>\n{LOOK}\n</tool_call>\n<tool_call>\n{TIME}\n</tool_call>",
            [LOOKED, "\n", TIMED],
        ),
        # Several in one block, as a list, and a block that is not ended.
        (f"<tool_call>{LOOK}\n{TIME}</tool_call>", [LOOKED, TIMED]),
        (f"<tool_call>[{LOOK}, {TIME}]</tool_call>", [LOOKED, TIMED]),
        (f"<tool_call>{LOOK}\n<tool_call>{TIME}</tool_call>", [LOOKED, TIMED]),
        (f"<tool_call>{LOOK}", [LOOKED]),
        (f"<tool_call>{LOOK}\n</tool_c", [LOOKED]),
        # Other shapes of a call.
        ('<tool_call>{"name": "look", "parameters": {"a":1}}</tool_call>', [("look", '{"a":1}')]),
        ('<tool_call>{"name": "time"}</tool_call>', [("time", "")]),
        ('<tool_call>{"name": "time", "arguments": null}</tool_call>', [("time", "")]),
        (
            '<tool_call>{"function": {"name": "time", "arguments": "{\\"a\\": 1}"}}</tool_call>',
            [("time", '{"a": 1}')],
        ),
        # The arguments as they were spelled, whatever stands in them.
        (
            (
                '<tool_call>{"arguments" : { "b":1.0,  "a":"</tool_call> \\"\\\\é\\u00e9😀" } ,'
                '"name":"look"}</tool_call>'
            ),
            [("look", '{ "b":1.0,  "a":"</tool_call> \\"\\\\é\\u00e9😀" }')],
        ),
        # A name that nobody declared: the markup leaves no doubt.
        ('<tool_call>{"name": "fly", "arguments": {}}</tool_call>', [("fly", "{}")]),
    ],
)
def test_hermes(text: str, expected: Told) -> None:
    check(text, expected, "hermes")


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_ca",
        "a < b <tool_calling>",
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
        "<tool_call>[]</tool_call>",
        "<tool_call></tool_call>",
    ],
)
def test_what_is_no_call_stays_as_it_was(text: str) -> None:
    check(text, [text], "hermes")


def test_a_call_is_found_behind_one_that_is_broken() -> None:
    good = f"<tool_call>{LOOK}</tool_call>"
    for bad in ("<tool_call> oops ", '<tool_call>{"name" ', '<tool_call>{"name": "a\n'):
        check(bad + good, [bad, LOOKED], "hermes")


def parameter(name: str, value: str) -> str:
    inner = f"<parameter={name}>\n{value}\n</parameter>"
    return f"<tool_call>\n<function=look>\n{inner}\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("name", "value", "typed"),
    [
        ("city", "Rome", '"Rome"'),
        ("city", "12", '"12"'),
        ("city", "true", '"true"'),
        ("city", "null", '"null"'),
        ("city", "", '""'),
        ("city", "two\n\n  lines \n", '"two\\n\\n  lines \\n"'),
        ("city", '<b class="x">&amp;</b> é', '"<b class=\\"x\\">&amp;</b> é"'),
        ("days", " 3 ", "3"),
        ("days", "three", '"three"'),
        ("days", "2.0", "2.0"),
        ("scale", "1.50", "1.50"),
        ("scale", "2", "2"),
        ("exact", "true", "true"),
        ("exact", "False", "false"),
        ("where", '{"x": [1, 2]}', '{"x": [1, 2]}'),
        ("where", "[1]", '"[1]"'),
        ("tags", '["a",\n"b"]', '["a",\n"b"]'),
        ("note", "null", "null"),
        ("note", "None", "null"),
        ("note", "5", '"5"'),
        ("limit", "null", "null"),
        ("limit", "7", "7"),
        ("unit", '{"a": 1}', '{"a": 1}'),
        ("level", "2", "2"),
        ("only", "true", "true"),
        ("loop", "1", '"1"'),
        ("lost", "1", '"1"'),
        ("anything", "1", '"1"'),
        ("undeclared", "1", '"1"'),
    ],
)
def test_values_have_the_types_that_the_schema_declares(name: str, value: str, typed: str) -> None:
    check(parameter(name, value), [("look", f'{{"{name}":{typed}}}')], "qwen3_coder")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<function=time></function>", [TIMED]),
        ("a<function=time>\n</function>b", ["a", TIMED, "b"]),
        (
            "<function=look><parameter=city>Rome</parameter>\n<parameter=days>2</parameter></function>",
            [("look", '{"city":"Rome","days":2}')],
        ),
        # The first tag forgotten, the last one not.
        ("<function=time></function>\n</tool_call>", [TIMED]),
        ("<tool_call><function=time></function>", [TIMED]),
        ("<tool_call><function=time></function></tool", [TIMED]),
        # Several in one wrapper.
        (
            (
                '<function_calls>\n<invoke name="look">\n<parameter name="city">Rome\n</parameter>'
                '\n</invoke>\n<invoke name="time">\n</invoke>\n</function_calls>'
            ),
            [("look", '{"city":"Rome\\n"}'), TIMED],
        ),
        (
            (
                '<minimax:tool_call><invoke name="look"><parameter name="city">\nRome\n</parameter>'
                "</invoke></minimax:tool_call>"
            ),
            [("look", '{"city":"Rome"}')],
        ),
        ('<function name="time"></function>', [TIMED]),
        # All arguments as JSON.
        ('<function=look>{"city": "Rome"} </function>', [LOOKED]),
        # A name that nobody declared counts only within the wrapper.
        ("<tool_call><function=fly></function></tool_call>", [("fly", "{}")]),
        ("<function=fly></function>", ["<function=fly></function>"]),
        # A name that was made up a little is that of the tool that is meant, and so are its types.
        ("<function=functions.time></function>", [("functions.time", "{}")]),
        (
            "<function=Look><parameter=days>2</parameter></function>",
            [("Look", '{"days":2}')],
        ),
    ],
)
def test_function_tags(text: str, expected: Told) -> None:
    check(text, expected, "qwen3_coder")


@pytest.mark.parametrize(
    "text",
    [
        "<function=look><parameter=city>Rome",
        "<function=look><parameter=city>Rome</parameter>",
        "<function=look><parameter=city>Rome</parameter></func",
        "<function=look><parameter=city>Rome</parameter>more</function>",
        "<function=>no name</function>",
        "<function=two words></function>",
        "<function=look>words</function>",
        '<function=look>{"city": Rome}</function>',
        "<tool_call><function=look></function> more</tool_call>",
        f"<tool_call>{LOOK}</tool_call>",
    ],
)
def test_tags_that_are_no_call_stay_as_they_were(text: str) -> None:
    check(text, [text], "qwen3_coder")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"[TOOL_CALLS][{LOOK}]", [LOOKED]),
        (f"So.[TOOL_CALLS] [{LOOK}, {TIME}]", ["So.", LOOKED, TIMED]),
        (f"[TOOL_CALLS]{LOOK}", [LOOKED]),
        ('[TOOL_CALLS]look{"city": "Rome"}', [LOOKED]),
        ('[TOOL_CALLS]look[ARGS]{"city": "Rome"}[TOOL_CALLS]time[ARGS]{}', [LOOKED, TIMED]),
        ("[TOOL_CALLS]time[CALL_ID]abc123DEF[ARGS]{} done", [TIMED, " done"]),
        ("[TOOL_CALLS]fly{}", [("fly", "{}")]),
        ('So. [TOOL_CALLS] look {"city": "Rome"} Done.', ["So. ", LOOKED, " Done."]),
        ('[TOOL_CALLS] look [ARGS] {"city": "Rome"}', [LOOKED]),
        ("[TOOL_CALLS]time [CALL_ID]abc123DEF [ARGS]\n{}", [TIMED]),
        ("[TOOL_CALLS] functions.time {}", [("functions.time", "{}")]),
        # A name that nobody declared counts only without a space, or with its mark.
        ("[TOOL_CALLS] fly [ARGS]{}", [("fly", "{}")]),
        ("[TOOL_CALLS] precedes {} always", ["[TOOL_CALLS] precedes {} always"]),
        ("[TOOL_CALLS", ["[TOOL_CALLS"]),
        ("[TOOL_CALLS]", ["[TOOL_CALLS]"]),
        ("[TOOL_CALLS]look", ["[TOOL_CALLS]look"]),
        ("[TOOL_CALLS]look[ARGS]", ["[TOOL_CALLS]look[ARGS]"]),
        ('[TOOL_CALLS]look{"city": ', ['[TOOL_CALLS]look{"city": ']),
        ('[TOOL_CALLS]look{"city"}', ['[TOOL_CALLS]look{"city"}']),
        ("[TOOL_CALLS]look at this", ["[TOOL_CALLS]look at this"]),
        ("[1, 2] [TOOLS]", ["[1, 2] [TOOLS]"]),
    ],
)
def test_mistral(text: str, expected: Told) -> None:
    check(text, expected, "mistral")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<|python_tag|>{"name": "look", "parameters": {"city": "Rome"}}', [LOOKED]),
        (f"<|python_tag|>{LOOK}; {TIME}", [LOOKED, TIMED]),
        (f"<|python_tag|>{LOOK};{TIME}<|eom_id|>", [LOOKED, TIMED]),
        (f"<|python_tag|>{LOOK};", [LOOKED]),
        (f"<|python_tag|>{LOOK}<|eot_id|> so", [LOOKED, " so"]),
        ('<|python_tag|>print("x")', ['<|python_tag|>print("x")']),
        ('<|python_tag|>{"name": "look"', ['<|python_tag|>{"name": "look"']),
        ("a <| b", ["a <| b"]),
    ],
)
def test_llama(text: str, expected: Told) -> None:
    check(text, expected, "llama")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOOK, [LOOKED]),
        (f" \n{LOOK}\n", [" \n", LOOKED]),
        ('{"tool_calls": [{"name": "look", "arguments": {"city": "Rome"}}]}', [LOOKED]),
        (
            (
                '{"role": "assistant", "content": null, "tool_calls": [{"id": "1", '
                '"type": "function", "function": '
                '{"name": "look", "arguments": "{\\"city\\": \\"Rome\\"}"}}]}'
            ),
            [LOOKED],
        ),
        ('{\n  "name": "look",\n  "parameters": {"city": "Rome"}\n}', [LOOKED]),
        ('{"type": "function", "name": "look", "parameters": {"city": "Rome"}}', [LOOKED]),
        (f"[{LOOK}, {TIME}]", [LOOKED, TIMED]),
        (f"{LOOK}; {TIME}", [LOOKED, TIMED]),
        ('{"name": "functions.time", "arguments": {}}', [("functions.time", "{}")]),
        ('{"name": "Time", "arguments": {}}', [("Time", "{}")]),
    ],
)
def test_bare_json(text: str, expected: Told) -> None:
    check(text, expected, "json")


@pytest.mark.parametrize(
    "text",
    [
        # Not the whole answer.
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
        "[1, 2, 3]",
        "{",
        "[",
        "",
    ],
)
def test_json_that_is_an_answer_stays_as_it_was(text: str) -> None:
    check(text, [text] if text else [], "json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"```json\n{LOOK}\n```", [LOOKED]),
        (f"So:\n```json\n{LOOK}\n```\nDone.", ["So:\n", LOOKED, "\nDone."]),
        (f"```tool_call\n{LOOK}\n```", [LOOKED]),
        (f"```tool_calls\n[{LOOK}, {TIME}]\n```", [LOOKED, TIMED]),
        (f"```json\n{LOOK}\n{TIME}\n```", [LOOKED, TIMED]),
        ('```json\n{"name": "LOOK", "arguments": {}}\n```', [("LOOK", "{}")]),
        (f"```json\n{LOOK}", [LOOKED]),
        (f"```json\n{LOOK}\n``", [LOOKED]),
        (f"```python\n{LOOK}\n```", [f"```python\n{LOOK}\n```"]),
        ('```json\n{"a": 1}\n```', ['```json\n{"a": 1}\n```']),
        (f"```json\n{LOOK}\nmore\n```", [f"```json\n{LOOK}\nmore\n```"]),
        ('```json\n{"name": "look", ', ['```json\n{"name": "look", ']),
    ],
)
def test_fenced(text: str, expected: Told) -> None:
    check(text, expected, "fenced_json")


def test_a_name_that_fits_two_tools_is_none() -> None:
    tools = (FunctionTool("run"), FunctionTool("RUN"))
    for name, is_call in (("run", True), ("RUN", True), ("Run", False)):
        text = f'{{"name": "{name}", "arguments": {{}}}}'
        assert told([text], "json", tools=tools) == ([(name, "{}")] if is_call else [text])


def test_formats_stand_beside_one_another() -> None:
    tags = "<tool_call><function=time></function></tool_call>"
    text = f"a<tool_call>{LOOK}</tool_call>b{tags}c[TOOL_CALLS]time{{}}d```json\n{TIME}\n```e"
    check(text, ["a", LOOKED, "b", TIMED, "c", TIMED, "d", TIMED, "e"], *ALL)
    check("[TOOL_CALLS]time{}", [TIMED], *ALL)
    check(f"[{LOOK}]", [LOOKED], *ALL)
    check("[see] this", ["[see] this"], *ALL)


def test_text_is_given_on_at_once() -> None:
    scanner = Scanner([FORMATS[name] for name in ALL], DeclaredTools(TOOLS))
    assert scanner.feed("if a < b: ") == ["if a < b: "]
    assert scanner.feed("x <to") == ["x "]
    assert scanner.is_holding
    assert scanner.feed("day> y") == ["<", "today> y"]
    assert not scanner.is_holding


def test_json_that_is_no_call_is_given_on_at_its_first_word() -> None:
    scanner = Scanner([FORMATS["json"]], DeclaredTools(TOOLS))
    assert scanner.feed('{ "na') == []
    assert "".join(map(str, scanner.feed('tion": '))) == '{ "nation": '
    assert not scanner.is_holding


def test_where_nobody_knows_the_tools_every_name_counts() -> None:
    assert told([LOOK], "json", tools=()) == [LOOKED]
    assert told([LOOK], "json", tools=(FunctionTool("other"),)) == [LOOK]
    assert told(['{"name": "patch", "arguments": {}}'], "json") == [("patch", "{}")]


@pytest.mark.parametrize("schema", [b"[]", b"not JSON", b'{"properties": 1}', b"null"])
def test_a_schema_that_says_nothing_makes_strings(schema: bytes) -> None:
    text = "<function=odd><parameter=a>1</parameter></function>"
    tools = (FunctionTool("odd", parameters=Raw(schema)),)
    assert told([text], "qwen3_coder", tools=tools) == [("odd", '{"a":"1"}')]
