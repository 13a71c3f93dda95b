"""Inputs of custom tools are checked against the grammars of their tools."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from adapters import CustomInput, Loss
from adapters.ir.types import CustomTool
from gateway import grammar_check
from gateway.grammar_check import MAX_INPUT_CHARACTERS, check_inputs, check_inputs_blocking
from gateway.pytest_plugin.scripted_backend import ScriptedBackend
from tests.gateway.backend_replies import Call, Turn
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import backend_table, capability_table
from tests.gateway.plain_requests import request_body
from tests.gateway.raw_http import RawResponse, get
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.judges.samples import encoded

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


SLOW_TEXT = "a" * 60


def check_grammar(tool: CustomTool, text: str) -> str | None:
    """Return the reason of the loss, or None if the text matches."""
    losses = check_inputs_blocking([CustomInput(tool, text, "call t (1)")])
    return losses[0].reason if losses else None


@pytest.mark.parametrize(
    ("text", "mismatch"),
    [
        ("*** Begin Patch\n*** Add File: a\n+x\n+\n*** End Patch\n", None),
        ("*** Begin Patch\n*** Update File: a\n@@ def f\n-x\n+y\n*** End Patch", None),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch\n", "line 3, column 1"),
        ("*** Begin Patch\n*** Add File: a\n+x\n", "unexpected end of input"),
        ("", "unexpected end of input"),
    ],
)
def test_patch_is_checked_against_the_grammar_of_codex(text: str, mismatch: str | None) -> None:
    found = check_grammar(lark(PATCH), text)
    assert found is None if mismatch is None else mismatch in (found or "")


def test_slash_in_a_string_or_comment_starts_no_expression() -> None:
    grammar = 'start: "/.*/" // or /.*/\n'
    assert check_grammar(lark(grammar), "/.*/") is None
    assert check_grammar(lark(grammar), "") is not None


@pytest.mark.parametrize(
    ("text", "matches"),
    [("05:30", True), ("25:00", False), ("05:30 ", False), ("", False), ("\ud83e", False)],
)
def test_regex_must_match_the_whole_input(text: str, *, matches: bool) -> None:
    mismatch = check_grammar(regex(r"([01]\d|2[0-3]):[0-5]\d"), text)
    assert (mismatch is None) is matches


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
def test_unknown_or_invalid_grammar_is_not_checked(tool: CustomTool) -> None:
    assert check_grammar(tool, "anything") is None


def test_long_input_is_not_checked() -> None:
    assert check_grammar(regex("a*"), "b" * MAX_INPUT_CHARACTERS) is not None
    assert check_grammar(regex("a*"), "b" * (MAX_INPUT_CHARACTERS + 1)) is None


def test_mismatches_of_a_reply_are_losses() -> None:
    inputs = [
        CustomInput(regex("a"), "b", "call t (1)"),
        CustomInput(regex("a"), "a", "call t (2)"),
        CustomInput(CustomTool("u"), "b", "call u (3)"),
    ]
    reason = "the input does not match the grammar: no match of the regular expression"
    assert check_inputs_blocking(inputs) == [Loss("changed", "call t (1)", reason)]


@pytest.mark.parametrize("tool", [regex("(a+)+b"), lark("start: /(a+)+b/")], ids=["regex", "lark"])
def test_slow_check_is_killed_and_blocks_nothing(
    tool: CustomTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar_check, "TIMEOUT_SECONDS", 1.0)

    async def count_loop_turns() -> int:
        inputs = [CustomInput(tool, SLOW_TEXT, "call t (1)")]
        task = asyncio.ensure_future(check_inputs(inputs))
        turns = 0
        while not task.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert await task == []
        return turns

    started = time.monotonic()
    # A blocked event loop has one turn.
    assert asyncio.run(count_loop_turns()) > 2
    assert time.monotonic() - started < TIMEOUT_SECONDS


# In the gateway

BACKEND = "checked-chat"


@pytest.fixture(scope="module")
def checking(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    settings = capability_table("check_grammars = true")
    table = backend_table(backend.address, BACKEND, "chat", settings)
    with run_harness(backend, table, tmp_path_factory.mktemp("checking")) as harness:
        yield harness


def script_call(checking: Harness, text: str) -> str:
    """Return a new model that calls the tool with this input in every reply."""
    arguments = encoded({"input": text}).decode()
    return checking.script_always(BACKEND, Turn(None, (Call("say", arguments),)))


def send_pattern(
    checking: Harness, model: str, pattern: str, *, streamed: bool = False
) -> RawResponse:
    grammar = {"type": "grammar", "syntax": "regex", "definition": pattern}
    tool = {"type": "custom", "name": "say", "format": grammar}
    body = request_body("responses", model, streamed=streamed) | {"tools": [tool]}
    return checking.post(body)


def test_mismatch_is_reported_in_the_loss_header(checking: Harness) -> None:
    model = script_call(checking, "b")

    def reports_mismatch(pattern: str) -> bool:
        response = send_pattern(checking, model, pattern)
        assert response.status == 200
        return "does not match the grammar" in response.headers.get("dragoman-loss", "")

    # On a busy machine the first checks may take longer than the timeout.
    wait_until(lambda: reports_mismatch("a"))
    assert not reports_mismatch("b")
    response = send_pattern(checking, model, "a", streamed=True)
    assert b"response.completed" in response.body


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_slow_check_does_not_block_other_requests(checking: Harness, *, streamed: bool) -> None:
    model = script_call(checking, SLOW_TEXT)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(send_pattern, checking, model, "(a+)+b", streamed=streamed)
        checking.backend.wait_for_request(model)
        served = 0
        while not slow.done():
            assert get(checking.gateway.port, "/health").status == 200
            served += 1
        assert slow.result().status == 200
    assert SLOW_TEXT.encode() in slow.result().body
    # A blocked gateway would serve only a few, before the check begins.
    assert served > 3
