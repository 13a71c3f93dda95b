"""A tool output of a continued turn must belong to a call of its history."""

import openai
import pytest
from msgspec import Raw
from openai.types.responses.response_input_item_param import FunctionCallOutput

from gateway.store import Item
from gateway.turns.history import ToolCallNotFoundError, check_outputs_have_calls
from tests.gateway.backend_replies import Call, Turn
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.websocket.test_websocket import says

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
    model = says(harness, dialect, Turn(None, (Call("f", "{}"),)), Turn("Fine."))
    first = harness.sdk.responses.create(model=model, input="go")
    wrong: FunctionCallOutput = {
        "type": "function_call_output",
        "call_id": "call_nobody_made",
        "output": "x",
    }
    with pytest.raises(openai.BadRequestError) as refused:
        harness.sdk.responses.create(
            model=model, input=[wrong], previous_response_id=first.id, stream=streamed
        )
    assert refused.value.param == "input"
    assert "No tool call found for function call output" in refused.value.message
    # Nothing is evicted from the store, and the right output is taken.
    (call,) = (item for item in first.output if item.type == "function_call")
    right: FunctionCallOutput = {**wrong, "call_id": call.call_id}
    second = harness.sdk.responses.create(model=model, input=[right], previous_response_id=first.id)
    assert second.output_text == "Fine."
    assert len(harness.backend.received(model)) == 2


@pytest.mark.parametrize(
    ("history", "given"),
    [
        ([CALL], [output("function_call_output", '"call_1"')]),
        ([SAID, CALL, CUSTOM], [output("custom_tool_call_output", '"call_2"'), SAID]),
        # The call comes with its output.
        ([SAID], [CALL, output("function_call_output", '"call_1"')]),
        # OpenAI lets an output name no call.
        ([SAID], [output("function_call_output", "null")]),
        # What was summed up may have had the call in it.
        ([SUMMARY], [output("function_call_output", '"call_9"')]),
        ([], [SAID]),
        ([], []),
        # Whoever reads it next says what is wrong.
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
