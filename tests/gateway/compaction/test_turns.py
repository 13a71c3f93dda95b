"""Summaries where else they may be: in conversations, on sockets, and one behind the other."""

import pytest
from openai.types.responses import Response

from tests.gateway.backend_replies import Call, Turn, reply_script
from tests.gateway.backend_requests import received_body
from tests.gateway.compaction.requests import (
    HISTORY,
    SUMMARY,
    TRIGGER,
    message,
    script_texts,
)
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.raw_http import AUTHORIZED, post
from tests.gateway.websocket_client import WebSocketClient
from tests.judges.reading import JsonObject, objects_in

AGAIN = "5. And again in short."
FIRST = "The very first words."
MANAGED: JsonObject = {
    "context_management": [{"type": "compaction", "compact_threshold": 1}],
}
TOOL: JsonObject = {
    "type": "function",
    "name": "weather",
    "description": None,
    "parameters": {"type": "object", "properties": {}},
    "strict": None,
}


def kinds(response: Response) -> list[str]:
    return [item.type for item in response.output]


def compact(harness: Harness, model: str, *said: JsonObject) -> list[JsonObject]:
    """Have a conversation summed up; give what is to be replayed."""
    body = {"model": model, "input": list(said)}
    answer = post(harness.gateway.port, "/v1/responses/compact", body, AUTHORIZED)
    assert answer.status == 200, answer.body
    return objects_in(answer.json(), "output")


# In conversations


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_conversation_keeps_what_stands_beside_a_summary(dialect: str, harness: Harness) -> None:
    model = harness.new_model(dialect)
    script_texts(harness.backend, dialect, model, SUMMARY, "On we go.")
    # The output is to be replayed whole: users' words stand in it, and stay.
    output = compact(harness, model, message("user", FIRST), message("assistant", "So be it."))
    conversation = harness.sdk.conversations.create(items=output)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - as it came
    harness.sdk.responses.create(model=model, input="Go on.", conversation=conversation.id)
    sent = received_body(harness.backend, model)
    places = [sent.index(words) for words in (FIRST, SUMMARY, "Go on.")]
    assert places == sorted(places)
    assert "So be it." not in sent


@pytest.mark.parametrize("background", [False, True], ids=["at once", "background"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_conversation_goes_on_from_its_summary(
    dialect: str, *, background: bool, harness: Harness
) -> None:
    model = harness.new_model(dialect)
    script_texts(harness.backend, dialect, model, "Sunny.", SUMMARY, "18 degrees.")
    items = [message("developer", "Be brief.")]
    conversation = harness.sdk.conversations.create(items=items)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - a plain message
    ask = harness.sdk.responses.create
    ask(model=model, input=FIRST, conversation=conversation.id)
    made = ask(
        model=model,
        input=[{"type": "compaction_trigger"}],
        conversation=conversation.id,
        background=background,
    )
    while made.status in ("queued", "in_progress"):
        made = harness.sdk.responses.retrieve(made.id)
    assert (made.status, kinds(made)) == ("completed", ["compaction"])
    ask(model=model, input="How warm?", conversation=conversation.id)
    sent = received_body(harness.backend, model)
    for words in ("Be brief.", SUMMARY, "How warm?"):
        assert sent.count(words) == 1
    assert FIRST not in sent


def test_a_wish_for_a_summary_is_no_item(harness: Harness) -> None:
    # The package's types for what is listed know none such.
    model = harness.new_model("chat")
    script_texts(harness.backend, "chat", model, "Sunny.", SUMMARY)
    conversation = harness.sdk.conversations.create()
    ask = harness.sdk.responses.create
    ask(model=model, input=FIRST, conversation=conversation.id)
    made = ask(model=model, input=[{"type": "compaction_trigger"}], conversation=conversation.id)
    listed = harness.sdk.conversations.items.list(conversation.id, order="asc")
    assert [item.type for item in listed] == ["message", "message", "compaction"]
    shown = harness.sdk.responses.input_items.list(made.id, order="asc")
    assert "compaction_trigger" not in [item.type for item in shown]


# On a socket


@pytest.mark.parametrize("store", [False, True], ids=["remembered", "stored"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_summary_behind_the_other(dialect: str, *, store: bool, harness: Harness) -> None:
    model = harness.new_model(dialect)
    script_texts(
        harness.backend, dialect, model, "Sunny.", SUMMARY, "18 degrees.", AGAIN, "The end."
    )
    with WebSocketClient(harness.gateway) as socket:
        last = socket.create_response(model=model, input=FIRST, store=store)
        for said in ([TRIGGER], "How warm?", [TRIGGER], "And then?"):
            last = socket.create_response(
                model=model, input=said, store=store, previous_response_id=last.id
            )
            assert kinds(last) == (["compaction"] if said == [TRIGGER] else ["message"])
    # The second was made of the first and of what came after it.
    for words in (SUMMARY, "How warm?", "18 degrees."):
        assert words in received_body(harness.backend, model, 3)
    assert FIRST not in received_body(harness.backend, model, 3)
    for words in (SUMMARY, "How warm?", "18 degrees."):
        assert words not in received_body(harness.backend, model)
    for words in (AGAIN, "And then?"):
        assert words in received_body(harness.backend, model)


@pytest.mark.parametrize("store", [False, True], ids=["remembered", "stored"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_between_two_summaries(dialect: str, *, store: bool, harness: Harness) -> None:
    model = harness.new_model(dialect)
    turns = iter(
        (Turn(SUMMARY), Turn("Let me see.", (Call("weather", "{}"),)), Turn(AGAIN), Turn("Yes."))
    )
    harness.backend.respond_with(model, lambda it: reply_script(dialect, next(turns), it.json()))
    shared: JsonObject = {"model": model, "store": store, "tools": [TOOL]}
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(**shared, input=[*HISTORY, TRIGGER])
        second = socket.create_response(**shared, input="How is it?", previous_response_id=first.id)
        call = next(item for item in second.output if item.type == "function_call")
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
        third = socket.create_response(
            **shared, input=[output, TRIGGER], previous_response_id=second.id
        )
        assert kinds(third) == ["compaction"]
        for words in (SUMMARY, "Let me see.", "18 degrees"):
            assert words in received_body(harness.backend, model)
        socket.create_response(**shared, input="Really?", previous_response_id=third.id)
    sent = received_body(harness.backend, model)
    assert "18 degrees" not in sent
    for words in ("You are Codex.", AGAIN, "Really?"):
        assert sent.count(words) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_long_conversations_are_summed_up_on_a_socket_and_in_the_background(
    dialect: str, harness: Harness
) -> None:
    model = harness.new_model(dialect)
    script_texts(
        harness.backend, dialect, model, "Sunny.", SUMMARY, "18 degrees.", AGAIN, "The end."
    )
    first = harness.sdk.responses.create(model=model, input=FIRST)
    made = harness.sdk.responses.create(
        model=model,
        input="How warm?",
        previous_response_id=first.id,
        background=True,
        context_management=[{"type": "compaction", "compact_threshold": 1}],
    )
    while made.status in ("queued", "in_progress"):
        made = harness.sdk.responses.retrieve(made.id)
    assert (made.status, kinds(made)) == ("completed", ["compaction", "message"])
    with WebSocketClient(harness.gateway) as socket:
        last = socket.create_response(
            model=model, input="And then?", store=False, previous_response_id=made.id, **MANAGED
        )
    assert kinds(last) == ["compaction", "message"]
    assert AGAIN in received_body(harness.backend, model)
    assert FIRST not in received_body(harness.backend, model)


def test_a_summary_may_be_referred_to(harness: Harness) -> None:
    model = harness.new_model("chat")
    script_texts(harness.backend, "chat", model, SUMMARY, "Yes.")
    made = harness.sdk.responses.create(
        model=model,
        input=[{"role": "user", "content": FIRST}, {"type": "compaction_trigger"}],
    )
    (item,) = made.output
    assert item.id is not None
    harness.sdk.responses.create(
        model=model,
        input=[{"type": "item_reference", "id": item.id}, {"role": "user", "content": "Really?"}],
    )
    assert SUMMARY in received_body(harness.backend, model)
    assert FIRST not in received_body(harness.backend, model)
