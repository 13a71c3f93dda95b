"""Turns that continue stored responses, over backends without state."""

import re
from itertools import islice
from typing import Any, Literal

import openai
import pytest
from msgspec import Raw

from gateway.pytest_plugin.scripted_backend import Gate, ReceivedRequest, Script, stream_reply
from gateway.store import Item
from gateway.turns.history import ToolCallNotFoundError, check_outputs_have_calls
from tests.gateway.backend_replies import Call, Turn, reply_script, stream_events
from tests.gateway.background.requests import halved
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.sdk_clients import WEATHER_TOOL, sdk_client
from tests.gateway.waiting import wait_until
from tests.judges.reading import JsonObject, objects_in, text_in


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_turn_with_only_a_tool_output_continues_a_response(
    dialect: str, storing: Harness, *, streamed: bool
) -> None:
    call = Call("weather", '{"city": "Oslo"}')
    model = storing.script(dialect, Turn("Let me see.", (call,)), "Sunny.", "Yes.")
    settings: dict[str, Any] = {"model": model, "tools": [WEATHER_TOOL], "streamed": streamed}
    first = storing.respond(**settings, input="What is the weather in Oslo?")
    made = next(item for item in first.output if item.type == "function_call")
    output = {"type": "function_call_output", "call_id": made.call_id, "output": "18 degrees"}
    second = storing.respond(**settings, input=[output], previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.output_text == "Sunny."
    storing.assert_sent(model, "What is the weather", "Let me see.", "Oslo", "18 degrees")
    third = storing.respond(**settings, input="Really?", previous_response_id=second.id)
    assert third.output_text == "Yes."
    storing.assert_sent(model, "What is the weather", "18 degrees", "Sunny.", "Really?")
    shown = storing.sdk.responses.retrieve(third.id)
    assert shown.output_text == "Yes."
    assert shown.previous_response_id == second.id


def test_instructions_are_not_inherited_but_the_model_is(storing: Harness) -> None:
    model = storing.script("chat", "Aye.", "Yes.")
    first = storing.respond(model=model, input="Hello?", instructions="Be a pirate.")
    assert "pirate" in storing.sent(model)
    second = storing.respond(input="Hello again?", previous_response_id=first.id)
    assert second.model == first.model
    assert "Hello?" in storing.sent(model)
    assert "pirate" not in storing.sent(model)
    assert second.instructions is None


def test_input_items_are_listed_with_earlier_turns(storing: Harness) -> None:
    model = storing.script("chat", "one", "two")
    first = storing.respond(model=model, input="a")
    said = [{"role": "user", "content": text} for text in "bcd"]
    second = storing.respond(model=model, input=said, previous_response_id=first.id)

    def listed(order: Literal["asc", "desc"], limit: int) -> list[str]:
        # The SDK asks for page after page.
        items = [*storing.sdk.responses.input_items.list(second.id, order=order, limit=limit)]
        return [message_text(item.to_dict()) for item in items]

    assert listed("asc", 2) == ["a", "one", "b", "c", "d"]
    assert listed("desc", 3) == ["d", "c", "b", "one", "a"]
    newest_first = storing.sdk.responses.input_items.list(second.id)
    assert newest_first.has_more is False
    texts = [message_text(item.to_dict()) for item in newest_first.data]
    assert texts == ["d", "c", "b", "one", "a"]


def message_text(item: JsonObject) -> str:
    """Return the text of a message."""
    return "".join(text_in(part, "text") for part in objects_in(item, "content"))


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 20])
def test_list_with_a_repeated_item_ends(
    order: Literal["asc", "desc"], limit: int, storing: Harness
) -> None:
    model = storing.script("chat", "one", "two")
    first = storing.respond(model=model, input="again and again")
    (item,) = storing.sdk.responses.input_items.list(first.id).data
    reference = {"type": "item_reference", "id": str(item.id)}
    repeated = [reference, {"role": "user", "content": "and now?"}]
    second = storing.respond(model=model, input=repeated, previous_response_id=first.id)
    pages = storing.sdk.responses.input_items.list(second.id, order=order, limit=limit)
    listed = [str(one.id) for one in islice(pages, 10)]
    assert listed.count(str(item.id)) == 2
    assert len(listed) == 4


@pytest.mark.parametrize(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=msg_1", "after")],
)
def test_invalid_list_parameter_is_refused(query: str, param: str, storing: Harness) -> None:
    model = storing.script("chat", "one")
    listing = f"/responses/{storing.respond(model=model, input='a').id}/input_items"
    with pytest.raises(openai.BadRequestError) as refused:
        storing.sdk.get(f"{listing}?{query}", cast_to=object)
    assert refused.value.param == param


def test_item_references_are_resolved(storing: Harness) -> None:
    model = storing.script("chat", "the answer is 42", "indeed")
    first = storing.respond(model=model, input="the question")
    (question,) = storing.sdk.responses.input_items.list(first.id).data
    (answer,) = first.output
    assert question.id
    assert answer.id
    again = [
        {"type": "item_reference", "id": question.id},
        {"id": answer.id},
        {"role": "user", "content": "really?"},
    ]
    storing.respond(model=model, input=again)
    storing.assert_sent(model, "the question", "the answer is 42", "really?")


@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("kind", ['"type": "item_reference", ', '"type": null, ', ""])
def test_item_reference_needs_no_type(kind: str, storing: Harness, *, store: bool) -> None:
    model = storing.script("chat", "the answer is 42", "indeed")
    asked: JsonObject = {"model": model, "input": "the question"}
    (answer,) = objects_in(storing.post(asked).json(), "output")
    body = f'{{"model": "{model}", "store": {str(store).lower()}, "input": [{{{kind}"id": '
    body += f'"{answer["id"]}"}}, {{"role": "user", "content": "really?"}}]}}'
    again = storing.post(body.encode())
    assert again.status == 200, again.body
    assert "the answer is 42" in storing.sent(model)


def test_tool_output_without_a_type_is_no_reference(storing: Harness) -> None:
    model = storing.script("chat", Turn("", (Call("weather", "{}"),)), "Sunny.")
    asked: JsonObject = {"model": model, "input": "Oslo?", "tools": [WEATHER_TOOL]}
    first = storing.post(asked).json()
    (call,) = objects_in(first, "output")
    output = {"id": "fco_1", "call_id": call["call_id"], "output": "18 degrees"}
    asked |= {"previous_response_id": first["id"], "input": [output]}
    second = storing.post(asked)
    assert second.status == 200, second.body
    storing.assert_sent(model, "18 degrees")


def test_unknown_item_reference_is_refused(storing: Harness) -> None:
    unknown = {"type": "item_reference", "id": "msg_nobody"}
    with pytest.raises(openai.NotFoundError) as refused:
        storing.respond(model=storing.new_model("chat"), input=[unknown])
    assert refused.value.code == "item_not_found"
    assert refused.value.param == "input[0]"


@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
def test_generated_image_is_found_by_its_id(storing: Harness, *, store: bool) -> None:
    model = storing.script("chat", "a cat", "a blue cat")
    image = {"type": "image_generation_call", "id": "ig_cat", "status": "completed"}
    drawn = [{**image, "result": "iVBORw0KGgo="}, {"role": "user", "content": "What is it?"}]
    storing.respond(model=model, input=drawn)
    again: JsonObject = {"model": model, "store": store, "input": [image, drawn[1]]}
    response = storing.post(again)
    assert response.status == 200, response.body
    assert "data:image/png;base64,iVBORw0KGgo=" in storing.sent(model)


def test_generated_image_that_is_not_stored_is_refused_by_name(storing: Harness) -> None:
    image = {"type": "image_generation_call", "id": "ig_nobody"}
    with pytest.raises(openai.BadRequestError) as refused:
        storing.respond(model=storing.new_model("chat"), input=[image])
    assert refused.value.param == "input[0]"
    assert "ig_nobody" in refused.value.message


# Missing responses


def test_deleting_a_response_keeps_those_that_continue_it(storing: Harness) -> None:
    model = storing.script("chat", "one", "two", "three")
    first = storing.respond(model=model, input="the beginning")
    second = storing.respond(model=model, input="more", previous_response_id=first.id)
    storing.sdk.responses.delete(first.id)
    assert_missing(storing.sdk, model, first.id)
    storing.respond(model=model, input="and more", previous_response_id=second.id)
    assert "the beginning" in storing.sent(model)
    storing.sdk.responses.delete(second.id)
    assert_missing(storing.sdk, model, second.id)


def assert_missing(client: openai.OpenAI, model: str, name: str) -> None:
    """Raise unless a response can neither be read, deleted nor continued, all with one message."""
    messages: set[str] = set()
    responses = client.responses
    for request in (responses.retrieve, responses.delete, responses.input_items.list):
        with pytest.raises(openai.NotFoundError) as error:
            request(name)
        messages.add(error.value.message.replace(name, "…"))
    assert len(messages) == 1
    with pytest.raises(openai.BadRequestError) as not_continued:
        responses.create(model=model, input="go on", previous_response_id=name)
    assert not_continued.value.code == "previous_response_not_found"
    assert not_continued.value.param == "previous_response_id"


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_turn_keeps_its_history_if_the_parent_is_deleted_while_it_runs(
    *, background: bool, storing: Harness
) -> None:
    gate = Gate()
    first, second, fourth = (
        stream_reply(*stream_events("chat", Turn(f"the {number} answer")))
        for number in ("first", "second", "fourth")
    )
    third = halved("chat", gate, Turn("the third answer, which takes a while"))
    model = storing.enqueue("chat", first, second, third, fourth)
    beginning = storing.respond(model=model, input="the beginning", streamed=True).id
    parent: Any = {"model": model, "previous_response_id": beginning}
    middle = storing.respond(**parent, input="the middle", streamed=True).id
    parent["previous_response_id"] = middle
    responses, last = storing.sdk.responses, ""
    with responses.create(**parent, input="more", stream=True, background=background) as events:
        for event in events:
            if event.type == "response.output_text.delta" and not gate.is_open:
                responses.delete(middle)
                responses.delete(beginning)
                gate.open()
            if event.type == "response.completed":
                last = event.response.id
    assert responses.retrieve(last).output_text.startswith("the third")
    listed = "".join(item.model_dump_json() for item in responses.input_items.list(last))
    assert "the beginning" in listed
    assert "the second answer" in listed
    parent["previous_response_id"] = last
    final = storing.respond(**parent, input="and more", streamed=True)
    storing.assert_sent_in_order(model, "the beginning", "the second", "the third")
    assert responses.retrieve(final.id).previous_response_id == last


def test_responses_of_others_and_missing_ones_get_the_same_error(storing: Harness) -> None:
    model = storing.script("chat", "mine", "mine")
    mine = storing.respond(model=model, input="secret")
    unkept = storing.respond(model=model, input="secret", store=False)
    forged = mine.id[:-1] + ("0" if mine.id[-1] != "0" else "1")
    with sdk_client(storing.gateway, "sk-you") as other:
        assert_missing(other, model, mine.id)
        (item,) = storing.sdk.responses.input_items.list(mine.id).data
        reference: Any = {"type": "item_reference", "id": str(item.id)}
        with pytest.raises(openai.NotFoundError):
            other.responses.create(model=model, input=[reference])
    for name in (unkept.id, forged, "resp_", "x" * 5000, "résp", "resp_%00", "' OR 1=1 --"):
        assert_missing(storing.sdk, model, name)
    assert storing.sdk.responses.retrieve(mine.id).output_text == "mine"
    # None of those requests reached the backend.
    assert len(storing.backend.received(model)) == 2


def test_previous_response_and_conversation_exclude_each_other(storing: Harness) -> None:
    both: Any = {"previous_response_id": "a", "conversation": "b"}
    with pytest.raises(openai.BadRequestError) as refused:
        storing.respond(model=storing.new_model("chat"), input="go on", **both)
    assert refused.value.param == "previous_response_id"


@pytest.mark.parametrize("how", [{}, {"stream": True}, {"background": True}])
def test_running_status_at_the_end_is_stored_as_completed(
    how: JsonObject, storing: Harness
) -> None:
    model = storing.new_model("responses")
    turns = iter((Turn("hey"), Turn("on")))

    def reply(received: ReceivedRequest) -> Script:
        script = reply_script("responses", next(turns), received.json())
        # Both have the same length, which is in the head of the reply.
        usual, odd = b'"completed", "incomplete_', b'"queued",    "incomplete_'
        return tuple(step.replace(usual, odd) if type(step) is bytes else step for step in script)

    storing.backend.respond_with(model, reply)
    asked: JsonObject = {"model": model, "input": "hi", **how}
    reply_bytes = storing.post(asked, headers={"Authorization": "Bearer sk-me"}).body
    name = str(re.findall(rb'"id": ?"(resp_[0-9a-f]+)"', reply_bytes)[-1], "ascii")
    wait_until(lambda: storing.sdk.responses.retrieve(name).status == "completed")
    with pytest.raises(openai.BadRequestError):
        storing.sdk.responses.cancel(name)
    second = storing.respond(model=model, input="go on", previous_response_id=name)
    assert second.output_text == "on"


def test_losses_have_the_paths_of_the_client(storing: Harness) -> None:
    model = storing.script("chat", "one", "two")
    first = storing.post({"model": model, "input": "hello"}).json()
    asked = {
        "model": model,
        "previous_response_id": first["id"],
        "input": [{"role": "user", "content": "and?"}, {"type": "web_search_call", "id": "ws_1"}],
    }
    second = storing.post(asked)
    assert second.status == 200
    assert "input[1]" in second.headers["dragoman-loss"]
    bad = {**asked, "input": [{"role": "user", "content": [{"type": "input_hologram"}]}]}
    assert str(storing.post(bad).error["param"]).startswith("input[0]")


@pytest.mark.parametrize("how", [{"stream": True}, {}, {"background": True}], ids=str)
def test_stored_response_has_the_losses_of_its_exchange(storing: Harness, how: JsonObject) -> None:
    def reply(received: ReceivedRequest) -> Script:
        script = reply_script("chat", Turn("hello"), received.json())
        # Both have the same length, which is in the head of the reply.
        return tuple(
            step.replace(b'"stop"', b'"odd!"') if type(step) is bytes else step for step in script
        )

    model = storing.new_model("chat")
    storing.backend.respond_with(model, reply)
    created = storing.post({"model": model, "input": "hi", "truncation": "auto", **how})
    name = str(re.findall(rb'"id": ?"(resp_[0-9a-f]+)"', created.body)[-1], "ascii")
    wait_until(lambda: storing.sdk.responses.retrieve(name).status == "completed")
    stored = storing.sdk.responses.with_raw_response.retrieve(name)
    losses = stored.headers["dragoman-loss"]
    assert 'path="truncation"' in losses
    # It is found at the end of the reply, after the header of a stream is sent.
    assert 'path="status"' in losses
    assert ('path="status"' in created.headers.get("dragoman-loss", "")) == (not how)


# Tool outputs must belong to a call of the history

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
