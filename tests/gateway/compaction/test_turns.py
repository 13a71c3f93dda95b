"""Summaries in conversations, over WebSockets, in the background, and one after another."""

import pytest
from openai.types.responses import Response

from tests.gateway.backend_replies import Call, Turn
from tests.gateway.compaction.requests import HISTORY, SUMMARY, TRIGGER, item_types, message
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.sdk_clients import WEATHER_TOOL
from tests.gateway.websocket_client import WebSocketClient
from tests.judges.reading import JsonObject, objects_in

NEXT_SUMMARY = "5. And again in short."
FIRST = "The very first words."
MANAGED: JsonObject = {"context_management": [{"type": "compaction", "compact_threshold": 1}]}

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
stored_or_not = pytest.mark.parametrize("store", [False, True], ids=["remembered", "stored"])


def start_conversation(harness: Harness, *items: JsonObject) -> str:
    # The types of the SDK have no messages of developers here.
    return harness.sdk.conversations.create(items=items).id  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - plain items


def finish(harness: Harness, response: Response) -> Response:
    """Return a background response when it is complete."""
    while response.status in ("queued", "in_progress"):
        response = harness.sdk.responses.retrieve(response.id)
    assert response.status == "completed"
    return response


# In conversations


@every_dialect
def test_conversation_keeps_the_messages_beside_a_summary(dialect: str, harness: Harness) -> None:
    model = harness.script(dialect, SUMMARY, "On we go.")
    # The output is to be sent back whole; it has the messages of the user.
    given = [message("user", FIRST), message("assistant", "So be it.")]
    compacted = harness.post({"model": model, "input": given}, "/v1/responses/compact")
    assert compacted.status == 200, compacted.body
    conversation = start_conversation(harness, *objects_in(compacted.json(), "output"))
    harness.respond(model=model, input="Go on.", conversation=conversation)
    harness.assert_sent_in_order(model, FIRST, SUMMARY, "Go on.")
    assert "So be it." not in harness.sent(model)


@pytest.mark.parametrize("background", [False, True], ids=["at once", "background"])
@every_dialect
def test_conversation_with_a_summary(dialect: str, *, background: bool, harness: Harness) -> None:
    model = harness.script(dialect, "Sunny.", SUMMARY, "18 degrees.")
    conversation = start_conversation(harness, message("developer", "Be brief."))
    harness.respond(model=model, input=FIRST, conversation=conversation)
    response = harness.respond(
        model=model, input=[TRIGGER], conversation=conversation, background=background
    )
    assert item_types(finish(harness, response)) == ["compaction"]
    harness.respond(model=model, input="How warm?", conversation=conversation)
    for words in ("Be brief.", SUMMARY, "How warm?"):
        assert harness.sent(model).count(words) == 1
    assert FIRST not in harness.sent(model)


def test_trigger_is_no_item_of_a_conversation(harness: Harness) -> None:
    # The types of the SDK for listed items have no triggers.
    model = harness.script("chat", "Sunny.", SUMMARY)
    conversation = start_conversation(harness)
    harness.respond(model=model, input=FIRST, conversation=conversation)
    response = harness.respond(model=model, input=[TRIGGER], conversation=conversation)
    listed = harness.sdk.conversations.items.list(conversation, order="asc")
    assert [item.type for item in listed] == ["message", "message", "compaction"]
    inputs = harness.sdk.responses.input_items.list(response.id, order="asc")
    assert "compaction_trigger" not in [item.type for item in inputs]


# Over a WebSocket


@stored_or_not
@every_dialect
def test_two_summaries_in_succession(dialect: str, *, store: bool, harness: Harness) -> None:
    replies = ("Sunny.", SUMMARY, "18 degrees.", NEXT_SUMMARY, "The end.")
    model = harness.script(dialect, *replies)
    fields: JsonObject = {"model": model, "store": store}
    with WebSocketClient(harness.gateway) as socket:
        last = socket.create_response(**fields, input=FIRST)
        for given in ([TRIGGER], "How warm?", [TRIGGER], "And then?"):
            last = socket.create_response(**fields, input=given, previous_response_id=last.id)
            assert item_types(last) == (["compaction"] if given == [TRIGGER] else ["message"])
    # The second summarizes the first and the items after it.
    summarized = (SUMMARY, "How warm?", "18 degrees.")
    harness.assert_sent(model, *summarized, index=3)
    assert FIRST not in harness.sent(model, 3)
    for words in summarized:
        assert words not in harness.sent(model)
    harness.assert_sent(model, NEXT_SUMMARY, "And then?")


@stored_or_not
@every_dialect
def test_calls_between_two_summaries(dialect: str, *, store: bool, harness: Harness) -> None:
    call_turn = Turn("Let me see.", (Call("weather", "{}"),))
    model = harness.script(dialect, SUMMARY, call_turn, NEXT_SUMMARY, "Yes.")
    fields: JsonObject = {"model": model, "store": store, "tools": [WEATHER_TOOL]}
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(**fields, input=[*HISTORY, TRIGGER])
        second = socket.create_response(**fields, input="How is it?", previous_response_id=first.id)
        call = next(item for item in second.output if item.type == "function_call")
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
        given = [output, TRIGGER]
        third = socket.create_response(**fields, input=given, previous_response_id=second.id)
        assert item_types(third) == ["compaction"]
        harness.assert_sent(model, SUMMARY, "Let me see.", "18 degrees")
        socket.create_response(**fields, input="Really?", previous_response_id=third.id)
    assert "18 degrees" not in harness.sent(model)
    for words in ("You are Codex.", NEXT_SUMMARY, "Really?"):
        assert harness.sent(model).count(words) == 1


@every_dialect
def test_management_over_a_websocket_and_in_the_background(dialect: str, harness: Harness) -> None:
    replies = ("Sunny.", SUMMARY, "18 degrees.", NEXT_SUMMARY, "The end.")
    model = harness.script(dialect, *replies)
    first = harness.respond(model=model, input=FIRST)
    question = {"input": "How warm?", "previous_response_id": first.id, "background": True}
    response = finish(harness, harness.respond(streamed=False, model=model, **question, **MANAGED))
    assert item_types(response) == ["compaction", "message"]
    question = {"input": "And then?", "previous_response_id": response.id, "store": False}
    with WebSocketClient(harness.gateway) as socket:
        last = socket.create_response(model=model, **question, **MANAGED)
    assert item_types(last) == ["compaction", "message"]
    harness.assert_sent(model, NEXT_SUMMARY)
    assert FIRST not in harness.sent(model)


def test_reference_to_a_summary(harness: Harness) -> None:
    model = harness.script("chat", SUMMARY, "Yes.")
    (item,) = harness.respond(model=model, input=[message("user", FIRST), TRIGGER]).output
    reference = {"type": "item_reference", "id": item.id}
    harness.respond(model=model, input=[reference, message("user", "Really?")])
    harness.assert_sent(model, SUMMARY)
    assert FIRST not in harness.sent(model)
