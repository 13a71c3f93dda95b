"""Custom tools as functions, and their input as arguments."""

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from adapters.ir.types import CustomTool
from adapters.losses import Losses
from adapters.tool_emulation import custom_tools

texts = st.text(st.characters(codec="utf-8"), max_size=60) | st.text('"\\/{}u\nd8aé🦜', max_size=30)


def unwrap_pieces(pieces: Iterable[str]) -> custom_tools.ParsedInput:
    parser = custom_tools.CustomInputParser()
    text = "".join(map(parser.feed, pieces))
    rest = parser.finish()
    return replace(rest, text=text + rest.text)


def unwrap_at_every_cut(arguments: str) -> str:
    """Unwrap whole, cut in two everywhere, and by characters; all must be equal."""
    whole = custom_tools.unwrap_input(arguments)
    for cut in range(len(arguments) + 1):
        assert unwrap_pieces((arguments[:cut], arguments[cut:])) == whole, cut
    assert unwrap_pieces(arguments) == whole
    return whole.text


@given(texts)
def test_wrapped_input_is_unwrapped(text: str) -> None:
    assert unwrap_at_every_cut(custom_tools.wrap_input(text)) == text
    assert unwrap_at_every_cut(json.dumps({"input": text})) == text
    assert unwrap_at_every_cut(json.dumps({"input": text, "note": 1}, indent=1)) == text


@given(texts)
def test_input_in_another_field_is_found(text: str) -> None:
    assert unwrap_at_every_cut(json.dumps({"patch": text})) == text
    assert unwrap_at_every_cut(json.dumps({"n": 1, "patch": text})) == text


@given(texts)
def test_escaped_pieces_join_to_the_escaped_text(text: str) -> None:
    assert "".join(map(custom_tools.escape, text)) == custom_tools.escape(text)
    assert json.loads(custom_tools.wrap_input(text)) == {"input": text}


@given(texts)
def test_cuts_do_not_change_the_input(text: str) -> None:
    unwrap_at_every_cut(text)


# Arguments that are the input themselves, and others by the input that they contain.
RAW = (
    *("*** Begin Patch\n*** End Patch", "  text", '"a"', "[1]", "", '{"input":5}'),
    *('{"a":"x","b":"y"}', '{"patch":"cut of'),
)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
WRAPPED = {
    "a": (
        *('{"input": "a"}', ' \n{ "input" :\t"a" } ', '{"input":"a"}{"input":"b"}'),
        *('{"why":"x","input":"a"}', '{"\\u0069nput":"a"}', '{"cmd":"a","times":2}'),
        '{"in put":"a"}',
    ),
    "": ("{}", "{ }", '{"inp', '{"input":'),
    "line\none": ('{"cmd":"line\none"}', '{"input":"line\none"}'),
    "🦜": ('{"input":"\\ud83e\\udd9c"}',),
    REPLACEMENT: ('{"input":"\\ud83e"}', '{"patch":"\\ud83e"}'),
    f"{REPLACEMENT}!": ('{"input":"\\udd9c!"}',),
    f"{REPLACEMENT}x": ('{"input":"\\ud83ex"}',),
    f"{REPLACEMENT}\n": ('{"input":"\\ud83e\\n"}',),
    "\\q\\u12x": ('{"input":"\\q\\u12x"}',),
    "cut of": ('{"input":"cut of',),
    "cut": ('{"input":"cut\\', '{"input":"cut\\u00', '{"input":"cut\\ud83e\\ud'),
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(text, text) for text in RAW]
    + [(arguments, text) for text, several in WRAPPED.items() for arguments in several],
)
def test_arguments_are_unwrapped(arguments: str, expected: str) -> None:
    assert unwrap_at_every_cut(arguments) == expected


TRUNCATED = (
    *('{"input":"*** Begin Pa', '{"input":"cut\\u00', '{"input":', '{"inp', "{"),
    *('{"patch":"*** Begin Pa', '{"why":"x","input":"*** Beg', '{"why":"x",'),
)
COMPLETE = (
    # Only the brace is missing; the input is complete.
    '{"input":"a"',
    *('{"input":"a"}', '{"patch":"a"}', "{}", ""),
    # Raw text.
    *("*** Begin Pa", "{ print(1) }", "{x"),
)


@pytest.mark.parametrize("arguments", [*TRUNCATED, *COMPLETE])
def test_truncated_input_is_detected(arguments: str) -> None:
    unwrap_at_every_cut(arguments)
    assert custom_tools.unwrap_input(arguments).is_truncated == (arguments in TRUNCATED)


@pytest.mark.parametrize(
    ("arguments", "losses"),
    [
        ('{"input":"x","workdir":"/tmp"}', ["changed"]),
        ('{"cmd":"ls","timeout":5}', ["changed"]),
        ('{"why":"y","input":"x"}', ["changed"]),
        ('{"input":"x"} and more', ["changed"]),
        ('{"input":"x"}}', ["changed"]),
        ('{"input":"x\\ud83d"}', ["changed"]),
        ('{"patch":"x\\ud83d"}', ["changed"]),
        ('{"input":"x\\ud83d", "n": 1}', ["changed", "changed"]),
        ('{"input":"x\\ufffd"}', []),
        (' { "input" : "x" } \n', []),
        ('{"patch":"x"}', []),
        ('{"input":5,"n":1}', []),
        ("{}", []),
        ("raw", []),
    ],
)
def test_losses_are_reported(arguments: str, losses: list[str]) -> None:
    unwrap_at_every_cut(arguments)
    reported = Losses(None)
    custom_tools.unwrap_input(arguments).report("call", reported)
    assert [loss.action for loss in reported] == losses


@pytest.mark.parametrize(
    ("text", "complete", "truncated"),
    [
        ('say "hi"', r'{"input":"say \"hi\""}', r'{"input":"say \"hi\"'),
        (' {"a":1}', ' {"a":1}', ' {"a":1}'),
        ('{"a":', r'{"input":"{\"a\":"}', '{"a":'),
        ("[1]", '{"input":"[1]"}', '{"input":"[1]'),
        ("", "", ""),
    ],
)
def test_raw_input_becomes_arguments(text: str, complete: str, truncated: str) -> None:
    assert custom_tools.input_as_arguments(text, is_complete=True) == complete
    assert custom_tools.input_as_arguments(text, is_complete=False) == truncated


def test_input_is_returned_as_it_comes() -> None:
    parser = custom_tools.CustomInputParser()
    pieces = ('{"in', 'put":', '"*** ', "Begin\\", 'nPatch"', "}")
    assert [*map(parser.feed, pieces)] == ["", "", "*** ", "Begin", "\nPatch", ""]


@pytest.mark.parametrize("piece", ["    ", "word", "\\\\", "\\u00"])
@pytest.mark.parametrize("start", ["", "{", '{"input":', '{"input":"', '{"patch":"', "*"])
def test_long_input_is_read_once(start: str, piece: str) -> None:
    """A parser that reads pieces again takes minutes here."""
    pieces = (start, *[piece] * 50_000)
    assert unwrap_pieces(pieces) == custom_tools.unwrap_input("".join(pieces))


PATTERNS = {
    r"\d{4}-\d{2}": r"^\d{4}-\d{2}$",
    r"^\d+$": r"^\d+$",
    r"^a|b$": r"^(^a|b$)$",
    r"a\$": r"^a\$$",
    r"(a|b)+": r"^(a|b)+$",
    r"[|]": r"^[|]$",
    r"(?:a|b)": r"^(?:a|b)$",
    r"a{2,}?": r"^a{2,}?$",
    r"\x41\u00e9": r"^\x41\u00e9$",
    r"[^\]\-a-z]*": r"^[^\]\-a-z]*$",
    r"\{\}\/\[": r"^\{\}\/\[$",
}
NO_PATTERNS = (
    *(r"(?i)a", r"(?P<year>\d+)", r"(?=a)b", r"\p{L}+", r"\Aa\Z", r"a++", r"[[:alpha:]]"),
    *(r"[a-z&&[^x]]", r"(", r"\x{41}"),
    # Other engines read these differently, or not at all.
    *(r"a{,3}", r"a{}", r"a{2}+", r"{a}", r"a]", r"[^]]", r"[]a]", r"[\<]", r"\U0001F600", r"\07"),
    *(r"\<a", r"\ ", r"\-", r"[a||b]"),
    # The group would get another number.
    r"(a)\1|b",
)


@pytest.mark.parametrize("definition", [*PATTERNS, *NO_PATTERNS])
def test_regular_expression_becomes_a_pattern(definition: str) -> None:
    tool = CustomTool("t", format="grammar", syntax="regex", definition=definition)
    assert custom_tools.json_schema_pattern(tool) == PATTERNS.get(definition)


def test_grammar_is_described() -> None:
    lark = CustomTool("ns__p", "Edits files.", "grammar", "lark", "start: LINE+")
    function = custom_tools.custom_tool_as_function(lark, strict=True)
    assert function.name == "ns__p"
    assert (function.description or "").startswith("Edits files.\n\n")
    schema = json.loads(bytes(function.parameters or b""))
    input_schema = schema["properties"]["input"]
    assert "lark grammar" in input_schema["description"]
    assert "start: LINE+" in input_schema["description"]
    assert "pattern" not in input_schema
    assert schema["required"] == ["input"]
    assert schema["additionalProperties"] is False


def test_tool_without_grammar_has_a_plain_description() -> None:
    plain = custom_tools.custom_tool_as_function(CustomTool("p"), strict=False)
    schema = json.loads(bytes(plain.parameters or b""))
    assert schema["properties"]["input"] == {"type": "string", "description": "The raw text."}
    assert custom_tools.json_schema_pattern(CustomTool("p", format="text")) is None
