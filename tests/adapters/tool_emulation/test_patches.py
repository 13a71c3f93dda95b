"""The patch in the input of `apply_patch`, whole and streamed."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.tool_emulation.patches import PatchParser
from tests.adapters.text_tools.test_scanner import cut_up

CHANGES = "*** Update File: a.md\n@@\n-```\n+*** End Patch\n *** End Patch"
PATCH = f"*** Begin Patch\n{CHANGES}\n*** End Patch"
POSITIONS = st.lists(st.integers(0, 300), max_size=30)
PIECES = ("*** Begin Patch", "*** End Patch", "\n", "+a", " ", "```", '{"a":"', '"}', "***")

WRAPPED = {
    "code block": f"```\n{PATCH}\n```",
    "code block with a language": f"```patch\n{PATCH}\n```\n",
    "text around it": f"Here is the patch:\n{PATCH}\nDone.",
    "shell command": f"apply_patch <<'EOF'\n{PATCH}\nEOF\n",
    "list": json.dumps(["apply_patch", PATCH]),
    "command": json.dumps({"command": ["apply_patch", PATCH + "\n"]}),
    "command in a shell": json.dumps(
        {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}
    ),
    "number beside it": json.dumps({"n": 1, "patch": {"text": PATCH}, "note": "x"}),
    "string": json.dumps(PATCH),
    "text after it": f"{PATCH}\n```",
}
UNCHANGED = (
    *(PATCH, PATCH + "\n", f"\n{PATCH}\n\n", "", "ls -l", "*** Begin", "```\n*** Begin Patch\n```"),
    *('{"command": ["ls"]}', "*** End Patch", "[1, null]"),
)


def parse(pieces: Sequence[str], *, is_complete: bool = True) -> tuple[str, bool]:
    parser = PatchParser()
    text = "".join(map(parser.feed, pieces))
    rest, is_changed = parser.finish(is_complete=is_complete)
    return text + rest, is_changed


@pytest.mark.parametrize("text", WRAPPED.values(), ids=WRAPPED)
def test_patch_is_taken_out_of_its_wrapping(text: str) -> None:
    for pieces in ([text], list(text)):
        patch, is_changed = parse(pieces)
        assert patch.rstrip("\n") == PATCH
        assert is_changed


@pytest.mark.parametrize("text", UNCHANGED)
def test_other_input_is_unchanged(text: str) -> None:
    for pieces in ([text], list(text)):
        assert parse(pieces) == (text, False)


@pytest.mark.parametrize("text", [*WRAPPED.values(), *UNCHANGED])
def test_incomplete_input_is_unchanged(text: str) -> None:
    assert parse(list(text), is_complete=False) == (text, False)


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12), positions=POSITIONS)
def test_cuts_do_not_change_the_result(pieces: Sequence[str], positions: Sequence[int]) -> None:
    text = "".join(pieces)
    assert parse(cut_up(text, positions)) == parse([text]) == parse(list(text))


def test_patch_is_passed_on_at_once() -> None:
    parser = PatchParser()
    assert parser.feed("*** Begin") == ""
    assert parser.feed(" Patch\n*** Del") == "*** Begin Patch\n*** Del"
    assert parser.feed("ete File: a\n*** End") == "ete File: a\n*** End"
    assert parser.feed(" Patch\n``") == " Patch"
    assert parser.finish(is_complete=True) == ("", True)
