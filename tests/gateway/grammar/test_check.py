"""Inputs of custom tools, judged by the grammars that their tools have."""

import asyncio

import pytest

from adapters import Loss
from adapters.ir.types import CustomTool
from gateway.grammar_check import LONGEST, Judging, check_grammar

# As Codex sends it.
PATCH = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""


def lark(definition: str) -> CustomTool:
    return CustomTool("t", format="grammar", syntax="lark", definition=definition)


def regex(definition: str) -> CustomTool:
    return CustomTool("t", format="grammar", syntax="regex", definition=definition)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("*** Begin Patch\n*** Add File: a\n+x\n+\n*** End Patch\n", None),
        ("*** Begin Patch\n*** Update File: a\n@@ def f\n-x\n+y\n*** End Patch", None),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch\n", "line 3, column 1"),
        ("*** Begin Patch\n*** Add File: a\n+x\n", "ends too soon"),
        ("", "ends too soon"),
    ],
)
def test_a_patch_keeps_to_its_grammar_or_not(text: str, problem: str | None) -> None:
    found = check_grammar(lark(PATCH), text)
    assert found is None if problem is None else problem in (found or "")


def test_a_slash_in_a_string_or_a_comment_begins_no_expression() -> None:
    grammar = 'start: "/.*/" // or /.*/\n'
    assert check_grammar(lark(grammar), "/.*/") is None
    assert check_grammar(lark(grammar), "") is not None


@pytest.mark.parametrize(
    ("text", "fits"), [("05:30", True), ("25:00", False), ("05:30 ", False), ("", False)]
)
def test_an_expression_must_match_all(text: str, fits: bool) -> None:  # noqa: FBT001 - by name
    found = check_grammar(regex(r"([01]\d|2[0-3]):[0-5]\d"), text)
    assert (found is None) is fits


@pytest.mark.parametrize(
    "tool",
    [
        CustomTool("t"),
        CustomTool("t", format="text"),
        CustomTool("t", format="grammar", syntax="lark"),
        CustomTool("t", format="grammar", syntax="ebnf", definition="x"),
        lark("no grammar at all"),
        lark("start: missing"),
        regex("("),
        regex(r"\p{L}+"),
        regex("[[:alpha:]]"),
    ],
)
def test_what_cannot_be_judged_is_not(tool: CustomTool) -> None:
    assert check_grammar(tool, "anything") is None


def test_a_long_input_is_not_judged() -> None:
    assert check_grammar(regex("a*"), "b" * LONGEST) is not None
    assert check_grammar(regex("a*"), "b" * (LONGEST + 1)) is None


# Each takes longer than anybody will wait.
ENDLESS = [regex("(a+)+b"), lark("start: /(a+)+b/")]
SLOW_TEXT = "a" * 60


@pytest.mark.parametrize("tool", ENDLESS, ids=["regex", "lark"])
def test_a_grammar_that_takes_forever_is_given_up(tool: CustomTool) -> None:
    assert check_grammar(tool, SLOW_TEXT) is None
    # And others are judged again.
    assert check_grammar(regex("a"), "b") is not None


def test_half_a_surrogate_is_judged() -> None:
    assert check_grammar(regex("a"), "\ud83e") is not None


def test_inputs_are_judged_when_the_answer_is_whole() -> None:
    # The process that judges may take longer to start than an answer waits for it.
    assert check_grammar(regex("a"), "a") is None
    judging = Judging()
    judging.note(regex("a"), "b")
    judging.note(regex("a"), "a")
    judging.note(CustomTool("u"), "b")
    why = "its input does not keep to the grammar: it does not match the regular expression"
    assert asyncio.run(judging.losses()) == [Loss("changed", "call t", why)]
    assert asyncio.run(judging.losses()) == []


def test_nobody_else_waits_for_a_judgement() -> None:
    async def watch() -> tuple[list[Loss], int]:
        judging = Judging()
        judging.note(ENDLESS[0], SLOW_TEXT)
        judged = asyncio.ensure_future(judging.losses())
        turns = 0
        while not judged.done():
            await asyncio.sleep(0.01)
            turns += 1
        return await judged, turns

    losses, turns = asyncio.run(watch())
    assert losses == []
    # A loop that is held up has one turn.
    assert turns > 2
