"""A tool output of a continued turn must belong to a call of its history."""

from typing import Any

import openai
import pytest
from msgspec import Raw

from gateway.store import Item
from gateway.turns.history import ToolCallNotFoundError, check_outputs_have_calls
from tests.gateway.backend_replies import Call, Turn
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS

CALL = Item("fc_1", Raw(b'{"type":"function_call","call_id":"call_1","name":"f"}'))
CUSTOM = Item("ctc_1", Raw(b'{"type":"custom_tool_call","call_id":"call_2","name":"g"}'))
SUMMARY = Item("cmp_1", Raw(b'{"type":"compaction","id":"cmp_1","encrypted_content":"x"}'))
SAID = Item("msg_1", Raw(b'{"type":"message","role":"user","content":"call_id"}'))


def output(kind: str, call_id: str) -> Item:
    return Item("o", Raw(f'{{"type":"{kind}","call_id":{call_id},"output":"x"}}'.encode()))


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_output_without_a_call_is_refused_over_http(
    dialect: str, *, streamed: bool, harness: Harness
) -> None:
    model = harness.script(dialect, Turn(None, (Call("f", "{}"),)), "Fine.")
    first = harness.respond(model=model, input="go")
    wrong = {"type": "function_call_output", "call_id": "call_nobody_made", "output": "x"}
    continued: Any = {"model": model, "previous_response_id": first.id}
    with pytest.raises(openai.BadRequestError) as refused:
        harness.respond(**continued, input=[wrong], streamed=streamed)
    assert refused.value.param == "input"
    assert "No tool call found for function call output" in refused.value.message
    # The stored response stays, and can be continued with the right output.
    (call,) = (item for item in first.output if item.type == "function_call")
    second = harness.respond(**continued, input=[{**wrong, "call_id": call.call_id}])
    assert second.output_text == "Fine."
    assert len(harness.backend.received(model)) == 2


@pytest.mark.parametrize(
    ("history", "given"),
    [
        ([CALL], [output("function_call_output", '"call_1"')]),
        ([SAID, CALL, CUSTOM], [output("custom_tool_call_output", '"call_2"'), SAID]),
        # The call comes with its output.
        ([SAID], [CALL, output("function_call_output", '"call_1"')]),
        # OpenAI accepts an output without a call id.
        ([SAID], [output("function_call_output", "null")]),
        # The summarized part may have contained the call.
        ([SUMMARY], [output("function_call_output", '"call_9"')]),
        ([], [SAID]),
        ([], []),
        # The reader of the dialect refuses it.
        ([], [output("function_call_output", "7")]),
    ],
)
def test_output_of_a_call_is_accepted(history: list[Item], given: list[Item]) -> None:
    check_outputs_have_calls(history, given)


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_output_without_a_call_is_refused(kind: str) -> None:
    with pytest.raises(ToolCallNotFoundError) as refused:
        check_outputs_have_calls([CALL, CUSTOM, SAID], [output(kind, '"call_9"')])
    words = kind.replace("_", " ")
    assert str(refused.value) == f"No tool call found for {words} with call_id call_9."
