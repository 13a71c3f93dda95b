"""Laws of calls in text: nothing depends on where the text was cut, and nothing is lost."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from adapters.capabilities import TextFormat
from adapters.text_tools.declared_tools import DeclaredTools
from adapters.text_tools.formats import FORMATS
from adapters.text_tools.scanner import FoundCalls, Scanner
from tests.adapters.text_tools.test_formats import ALL, LOOK, TIME, TOOLS, told

WORDS = (
    "<tool_call>",
    "</tool_call>",
    "<function=look>",
    "</function>",
    "<parameter=city>",
    "</parameter>",
    '<invoke name="time">',
    "</invoke>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
    "```json\n",
    "```",
    LOOK,
    TIME,
    "look",
    "{",
    "}",
    "[",
    '"',
    "\\",
    ";",
    "<",
    "\n",
    " ",
    "é",
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=14).map("".join)
PLACES = st.lists(st.integers(0, 300), max_size=40)


def cut_up(text: str, places: Sequence[int]) -> list[str]:
    borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(borders)]


@given(text=TEXTS, places=PLACES)
def test_where_a_text_was_cut_does_not_matter(text: str, places: Sequence[int]) -> None:
    whole = told([text], *ALL)
    assert told(cut_up(text, places), *ALL) == whole
    assert told(list(text), *ALL) == whole


@given(text=TEXTS, places=PLACES)
def test_nothing_is_lost(text: str, places: Sequence[int]) -> None:
    """What comes out is all of the text, in its order."""
    scanner = Scanner([FORMATS[name] for name in ALL], DeclaredTools(TOOLS))
    pieces = [one for piece in cut_up(text, places) for one in scanner.feed(piece)]
    rest = text
    for one in pieces + scanner.end():
        length = one.length if isinstance(one, FoundCalls) else len(one)
        assert isinstance(one, FoundCalls) or rest.startswith(one)
        rest = rest[length:]
    assert not rest


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(
    arguments=st.dictionaries(st.text(max_size=6), VALUES, max_size=3),
    indent=st.sampled_from([None, 0, 2]),
    places=PLACES,
)
def test_arguments_are_kept_as_they_were_spelled(
    arguments: dict[str, object], indent: int | None, places: Sequence[int]
) -> None:
    plain = msgspec.json.encode(arguments)
    spelled = (plain if indent is None else msgspec.json.format(plain, indent=indent)).decode()
    markups: dict[TextFormat, str] = {
        "hermes": f'<tool_call>{{"name": "look", "arguments": {spelled}}}</tool_call>',
        "mistral": f"[TOOL_CALLS]look[ARGS]{spelled}",
        "llama": f'<|python_tag|>{{"name": "look", "parameters": {spelled}}}',
        "json": f'{{"name": "look", "arguments": {spelled}}}',
        "fenced_json": f'```json\n{{"name": "look", "arguments": {spelled}}}\n```',
        "qwen3_coder": f"<function=look>{spelled}</function>",
    }
    for name, text in markups.items():
        assert told(cut_up(text, places), name) == [("look", spelled)]


def test_a_long_block_is_read_once() -> None:
    """A second of work would mean that every piece is looked at again with the next."""
    body = msgspec.json.encode({"text": "word " * 40_000}).decode()
    text = f'<tool_call>{{"name": "look", "arguments": {body}}}</tool_call>'
    pieces = [text[place : place + 4] for place in range(0, len(text), 4)]
    assert told(pieces, *ALL) == [("look", body)]
    broken = "<function=a><parameter=b>" * 20_000
    assert told([broken], *ALL) == [broken]
