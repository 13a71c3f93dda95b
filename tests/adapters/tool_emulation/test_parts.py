"""Names, wrapped inputs and grammars: the small parts of lowering, each by itself."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from adapters.ir.types import CustomTool
from adapters.losses import Losses
from adapters.tool_emulation.custom_tools import (
    CustomInputParser,
    ParsedInput,
    custom_tool_as_function,
    escape,
    input_as_arguments,
    json_schema_pattern,
    unwrap_input,
    wrap_input,
)
from adapters.tool_emulation.names import (
    ToolName,
    qualified_name,
    resolve_hallucinated_name,
    sanitize_name,
)

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")

texts = st.text(st.characters(codec="utf-8"), max_size=60) | st.text('"\\/{}u\nd8aé🦜', max_size=30)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=90)


# Wrapping


def in_pieces(arguments: str, *cuts: int) -> ParsedInput:
    unwrapper = CustomInputParser()
    places = [0, *cuts, len(arguments)]
    pieces = [arguments[start:end] for start, end in pairwise(places)]
    begun = "".join(map(unwrapper.feed, pieces))
    rest = unwrapper.finish()
    return replace(rest, text=begun + rest.text)


def everywhere_alike(arguments: str) -> str:
    """Unwrap whole, at every cut, and character by character; all must agree."""
    whole = unwrap_input(arguments)
    for cut in range(len(arguments) + 1):
        assert in_pieces(arguments, cut) == whole, cut
    assert in_pieces(arguments, *range(1, len(arguments))) == whole
    return whole.text


@given(texts)
def test_what_is_wrapped_is_unwrapped(text: str) -> None:
    assert everywhere_alike(wrap_input(text)) == text


@given(texts)
def test_what_others_wrap_is_unwrapped(text: str) -> None:
    assert everywhere_alike(json.dumps({"input": text})) == text
    assert everywhere_alike(json.dumps({"input": text, "note": 1}, indent=1)) == text


@given(texts)
def test_text_under_another_name_is_found(text: str) -> None:
    assert everywhere_alike(json.dumps({"patch": text})) == text
    assert everywhere_alike(json.dumps({"n": 1, "patch": text})) == text


@given(texts)
def test_pieces_of_a_wrapped_input_make_it_up(text: str) -> None:
    assert "".join(map(escape, text)) == escape(text)
    assert json.loads(wrap_input(text)) == {"input": text}


@given(texts)
def test_arbitrary_arguments_do_not_depend_on_the_cut(text: str) -> None:
    everywhere_alike(text)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ('{"input": "a"}', "a"),
        (' \n{ "input" :\t"a" } ', "a"),
        ('{"input":"a"}{"input":"b"}', "a"),
        ('{"why":"x","input":"a"}', "a"),
        ('{"\\u0069nput":"a"}', "a"),
        ('{"cmd":"a","times":2}', "a"),
        ('{"cmd":"line\none"}', "line\none"),
        ('{"input":"line\none"}', "line\none"),
        ("*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** End Patch"),
        ("  text", "  text"),
        ('"a"', '"a"'),
        ("[1]", "[1]"),
        ("", ""),
        ("{}", ""),
        ("{ }", ""),
        ('{"input":5}', '{"input":5}'),
        ('{"a":"x","b":"y"}', '{"a":"x","b":"y"}'),
        ('{"in put":"a"}', "a"),
        ('{"input":"\\ud83e\\udd9c"}', "🦜"),
        ('{"input":"\\ud83e"}', "\N{REPLACEMENT CHARACTER}"),
        ('{"input":"\\udd9c!"}', "\N{REPLACEMENT CHARACTER}!"),
        ('{"input":"\\ud83ex"}', "\N{REPLACEMENT CHARACTER}x"),
        ('{"input":"\\ud83e\\n"}', "\N{REPLACEMENT CHARACTER}\n"),
        ('{"patch":"\\ud83e"}', "\N{REPLACEMENT CHARACTER}"),
        ('{"input":"\\q\\u12x"}', "\\q\\u12x"),
        ('{"input":"cut of', "cut of"),
        ('{"input":"cut\\', "cut"),
        ('{"input":"cut\\u00', "cut"),
        ('{"input":"cut\\ud83e\\ud', "cut"),
        ('{"inp', ""),
        ('{"input":', ""),
        ('{"patch":"cut of', '{"patch":"cut of'),
    ],
)
def test_unwrapping(arguments: str, meant: str) -> None:
    assert everywhere_alike(arguments) == meant


@pytest.mark.parametrize(
    ("arguments", "breaks_off"),
    [
        ('{"input":"*** Begin Pa', True),
        ('{"input":"cut\\u00', True),
        ('{"input":', True),
        ('{"inp', True),
        ("{", True),
        ('{"patch":"*** Begin Pa', True),
        ('{"why":"x","input":"*** Beg', True),
        ('{"why":"x",', True),
        # Only the brace is missing: the input is whole.
        ('{"input":"a"', False),
        ('{"input":"a"}', False),
        ('{"patch":"a"}', False),
        ("{}", False),
        ("", False),
        # Raw text, which may begin and end as it likes.
        ("*** Begin Pa", False),
        ("{ print(1) }", False),
        ("{x", False),
    ],
)
def test_input_that_breaks_off_is_known(arguments: str, *, breaks_off: bool) -> None:
    everywhere_alike(arguments)
    assert unwrap_input(arguments).is_truncated == breaks_off


@pytest.mark.parametrize(
    ("arguments", "losses"),
    [
        ('{"input":"x","workdir":"/tmp"}', ["dropped"]),
        ('{"cmd":"ls","timeout":5}', ["dropped"]),
        ('{"why":"y","input":"x"}', ["dropped"]),
        ('{"input":"x"} and more', ["dropped"]),
        ('{"input":"x"}}', ["dropped"]),
        ('{"input":"x\\ud83d"}', ["changed"]),
        ('{"patch":"x\\ud83d"}', ["changed"]),
        ('{"input":"x\\ud83d", "n": 1}', ["dropped", "changed"]),
        ('{"input":"x\\ufffd"}', []),
        (' { "input" : "x" } \n', []),
        ('{"patch":"x"}', []),
        ('{"input":5,"n":1}', []),
        ("{}", []),
        ("raw", []),
    ],
)
def test_what_is_no_input_is_reported(arguments: str, losses: list[str]) -> None:
    everywhere_alike(arguments)
    reported = Losses(None)
    unwrap_input(arguments).report("call", reported)
    assert [loss.action for loss in reported] == losses


@pytest.mark.parametrize(
    ("text", "whole", "cut"),
    [
        ('say "hi"', r'{"input":"say \"hi\""}', r'{"input":"say \"hi\"'),
        (' {"a":1}', ' {"a":1}', ' {"a":1}'),
        ('{"a":', r'{"input":"{\"a\":"}', '{"a":'),
        ("[1]", '{"input":"[1]"}', '{"input":"[1]'),
        ("", "", ""),
    ],
)
def test_raw_input_as_arguments(text: str, whole: str, cut: str) -> None:
    assert input_as_arguments(text, is_complete=True) == whole
    assert input_as_arguments(text, is_complete=False) == cut


def test_input_is_told_as_it_comes() -> None:
    unwrapper = CustomInputParser()
    pieces = ('{"in', 'put":', '"*** ', "Begin\\", 'nPatch"', "}")
    assert [*map(unwrapper.feed, pieces)] == ["", "", "*** ", "Begin", "\nPatch", ""]


@pytest.mark.parametrize("piece", ["    ", "word", "\\\\", "\\u00"])
@pytest.mark.parametrize("begin", ["", "{", '{"input":', '{"input":"', '{"patch":"', "*"])
def test_a_long_input_is_read_once(begin: str, piece: str) -> None:
    """Minutes of work would mean that every piece is looked at again with the next."""
    count = 50_000
    unwrapper = CustomInputParser()
    told = [*map(unwrapper.feed, (begin, *[piece] * count))]
    rest = unwrapper.finish()
    assert replace(rest, text="".join(told) + rest.text) == unwrap_input(begin + piece * count)


# Names


@given(names)
def test_names_are_made_legal(name: str) -> None:
    legal = sanitize_name(name)
    assert LEGAL.fullmatch(legal)
    assert sanitize_name(legal) == legal
    assert legal == name or not LEGAL.fullmatch(name)


@given(st.lists(names, unique=True))
def test_long_and_foreign_names_stay_apart(given_names: list[str]) -> None:
    hashed = [name for name in given_names if len(name) > 64 or not name.isascii()]
    assert len({*map(sanitize_name, hashed)}) == len(hashed)


def test_a_long_name_keeps_its_beginning() -> None:
    legal = sanitize_name("mcp_" + "x" * 80)
    assert len(legal) == 64
    assert legal.startswith("mcp_" + "x" * 51 + "_")
    assert qualified_name("mcp__weather", "get") == "mcp__weather__get"
    assert len(qualified_name("n" * 60, "get", 128)) == 65


EXEC = ToolName("functions__exec", "exec", "functions")
WEATHER = ToolName("mcp__weather__get_weather", "get_weather", "mcp__weather")
READ = ToolName("files_read", "files.read")
SHELL = ToolName("shell", "shell")
TOOLS = (EXEC, WEATHER, READ, SHELL)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("functions.exec", EXEC),
        ("functions/exec", EXEC),
        ("exec", EXEC),
        ("Exec", EXEC),
        ("mcp__weather.get_weather", WEATHER),
        ("mcp-weather-get-weather", WEATHER),
        ("get_weather", WEATHER),
        ("functions.get_weather", WEATHER),
        ("GetWeather", WEATHER),
        ("files.read", READ),
        ("functions.files_read", READ),
        ("Shell", SHELL),
        ("functions.shell", SHELL),
        ("container.shell", SHELL),
        ("container.exec", None),
        ("rm", None),
        ("", None),
    ],
)
def test_the_tool_that_is_meant(said: str, meant: ToolName | None) -> None:
    assert resolve_hallucinated_name(said, TOOLS) == meant


def test_of_two_tools_that_fit_none_is_meant() -> None:
    other = ToolName("ns__exec", "exec", "ns")
    assert resolve_hallucinated_name("exec", (EXEC, other)) is None
    assert resolve_hallucinated_name("ns.exec", (EXEC, other)) == other
    assert (
        resolve_hallucinated_name("Run", (ToolName("run", "run"), ToolName("RUN", "RUN"))) is None
    )


def test_a_word_that_may_be_a_namespace_is_not_left_out() -> None:
    delete, commit = ToolName("delete", "delete"), ToolName("commit", "commit")
    committing = ToolName("mcp__git__commit", "commit", "mcp__git")
    assert resolve_hallucinated_name("container.delete", (delete, committing)) == delete
    assert resolve_hallucinated_name("mcp__files__delete", (delete,)) is None
    assert resolve_hallucinated_name("mcp_git.delete", (delete, committing)) is None
    assert resolve_hallucinated_name("git.commit", (commit, committing)) is None


WORDS = st.sampled_from(("a", "b", "A", "tools", "_"))
SAID = st.lists(WORDS | st.sampled_from((".", "__", "/", "-")), min_size=1, max_size=5).map("".join)


def known(name: str, space: str | None) -> ToolName:
    return ToolName(qualified_name(space, name), name, space)


DECLARED = st.builds(known, SAID, st.none() | SAID)


@given(SAID, st.lists(DECLARED, max_size=5, unique_by=lambda tool: tool.qualified))
def test_the_tool_that_is_meant_is_the_only_one(said: str, tools: list[ToolName]) -> None:
    meant = resolve_hallucinated_name(said, tools)
    assert resolve_hallucinated_name(said, tools[::-1]) == meant
    if meant is None:
        return
    assert letters(said).endswith(letters(meant.name))
    nearer = [
        tool for tool in tools if letters(said) in (letters(tool.qualified), letters(whole(tool)))
    ]
    assert nearer in ([], [meant])


def letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def whole(tool: ToolName) -> str:
    return (tool.namespace or "") + tool.name


# Grammars


def regex(definition: str) -> CustomTool:
    return CustomTool("t", format="grammar", syntax="regex", definition=definition)


@pytest.mark.parametrize(
    ("definition", "pattern"),
    [
        (r"\d{4}-\d{2}", r"^\d{4}-\d{2}$"),
        (r"^\d+$", r"^\d+$"),
        (r"^a|b$", r"^(^a|b$)$"),
        (r"a\$", r"^a\$$"),
        (r"(a|b)+", r"^(a|b)+$"),
        (r"[|]", r"^[|]$"),
        (r"(?:a|b)", r"^(?:a|b)$"),
        (r"a{2,}?", r"^a{2,}?$"),
        (r"(?i)a", None),
        (r"(?P<year>\d+)", None),
        (r"(?=a)b", None),
        (r"\p{L}+", None),
        (r"\Aa\Z", None),
        (r"a++", None),
        (r"[[:alpha:]]", None),
        (r"[a-z&&[^x]]", None),
        (r"(", None),
        (r"\x{41}", None),
        (r"\x41\u00e9", r"^\x41\u00e9$"),
        (r"[^\]\-a-z]*", r"^[^\]\-a-z]*$"),
        (r"\{\}\/\[", r"^\{\}\/\[$"),
        # Other engines read these in another way, or not at all.
        (r"a{,3}", None),
        (r"a{}", None),
        (r"a{2}+", None),
        (r"{a}", None),
        (r"a]", None),
        (r"[^]]", None),
        (r"[]a]", None),
        (r"[\<]", None),
        (r"\U0001F600", None),
        (r"\07", None),
        (r"\<a", None),
        (r"\ ", None),
        (r"\-", None),
        (r"[a||b]", None),
        # Its number would be another one.
        (r"(a)\1|b", None),
    ],
)
def test_expressions_that_a_schema_can_have(definition: str, pattern: str | None) -> None:
    assert json_schema_pattern(regex(definition)) == pattern


def test_a_grammar_is_shown() -> None:
    lark = CustomTool("ns__p", "Edits files.", "grammar", "lark", "start: LINE+")
    function = custom_tool_as_function(lark, strict=True)
    assert function.name == "ns__p"
    assert function.description is not None
    assert function.description.startswith("Edits files.\n\n")
    schema = json.loads(bytes(function.parameters or b""))
    shown = schema["properties"]["input"]
    assert "lark grammar" in shown["description"]
    assert "start: LINE+" in shown["description"]
    assert "pattern" not in shown
    assert schema["required"] == ["input"]
    assert schema["additionalProperties"] is False


def test_without_a_grammar_none_is_shown() -> None:
    plain = custom_tool_as_function(CustomTool("p"), strict=False)
    schema = json.loads(bytes(plain.parameters or b""))
    assert schema["properties"]["input"] == {"type": "string", "description": "The raw text."}
    assert json_schema_pattern(CustomTool("p", format="text")) is None
