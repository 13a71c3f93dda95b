"""Conversations through the openai package, on both databases and for every backend."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai.types.conversations import ConversationItem
from pydantic import TypeAdapter

from gateway.pytest_plugin.scripted_backend import truncated_reply
from tests.gateway.api.common import (
    INVALID_METADATA,
    assert_indistinguishable,
    assert_invalid,
    failing_replies,
    metadata_pairs,
    not_found_body,
)
from tests.gateway.backend_replies import Call, Turn, script_turns, stream_events
from tests.gateway.background.requests import events_of
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT
from tests.gateway.raw_http import send
from tests.gateway.sdk_clients import sdk_client
from tests.judges.reading import JsonObject, object_in, text_in

_ITEM: TypeAdapter[ConversationItem] = TypeAdapter(ConversationItem)


def message(text: str, **fields: str) -> Any:
    return {"type": "message", "role": "user", "content": text, **fields}


def reference(item_id: str) -> Any:
    return {"type": "item_reference", "id": item_id}


def start(harness: Harness, *items: Any) -> str:
    """Create a conversation and return its id."""
    return harness.sdk.conversations.create(items=items).id


def texts(harness: Harness, conversation: str) -> list[str]:
    """Return the texts of all messages and the types of all other items, in their order."""
    result: list[str] = []
    for item in harness.sdk.conversations.items.list(conversation, order="asc", limit=3):
        parsed: Any = _ITEM.validate_python(item.to_dict())
        if item.type == "message":
            result += [part["text"] for part in parsed.to_dict()["content"]]
        else:
            result.append(item.type)
    return result


def assert_input_in_order(harness: Harness, response_id: str, *parts: str) -> None:
    """Check that the listed input of a response contains these texts in this order."""
    listed = harness.sdk.responses.input_items.list(response_id, order="asc").to_json()
    positions = [listed.index(part) for part in parts]
    assert positions == sorted(positions)


# Conversations and items


def test_conversation_is_created_updated_and_deleted(storing: Harness) -> None:
    conversations = storing.sdk.conversations
    created = conversations.create(metadata={"topic": "tea"}, items=[message("Hello")])
    assert created.id.startswith("conv_")
    assert created.object == "conversation"
    assert created.metadata == {"topic": "tea"}
    assert conversations.retrieve(created.id) == created
    updated = conversations.update(created.id, metadata={"topic": "coffee"})
    assert updated.metadata == {"topic": "coffee"}
    assert conversations.retrieve(created.id) == updated
    assert updated.created_at == created.created_at
    assert conversations.update(created.id, metadata=None).metadata == {}
    assert texts(storing, created.id) == ["Hello"]
    expected = {"id": created.id, "object": "conversation.deleted", "deleted": True}
    assert conversations.delete(created.id).to_dict() == expected
    not_found_body(lambda: conversations.retrieve(created.id))


def test_conversation_may_start_empty(storing: Harness) -> None:
    assert texts(storing, storing.sdk.conversations.create().id) == []
    without_body = send(storing.gateway, "POST", "/v1/conversations", None, storing.authorization)
    assert without_body.status == 200
    assert without_body.json()["metadata"] == {}


def test_items_are_added_listed_returned_and_deleted(storing: Harness) -> None:
    name, items = start(storing, message("one")), storing.sdk.conversations.items
    call: Any = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1.0}'}
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": "fine"}
    added = items.create(
        name, items=[message("two"), call, output], include=["reasoning.encrypted_content"]
    )
    types = ["message", "function_call", "function_call_output"]
    assert [item.type for item in added.data] == types
    assert (added.first_id, added.last_id) == (added.data[0].id, added.data[-1].id)
    assert not added.has_more
    for item in added.data:
        _ITEM.validate_python(item.to_dict())
        assert items.retrieve(item.id or "", conversation_id=name) == item
    # The newest items come first by default.
    listed = [item.id for item in items.list(name)]
    assert listed[:3] == [item.id for item in reversed(added.data)]
    assert texts(storing, name) == ["one", "two", "function_call", "function_call_output"]
    call_id = added.data[1].id or ""
    conversation = items.delete(call_id, conversation_id=name)
    assert (conversation.id, conversation.object) == (name, "conversation")
    assert texts(storing, name) == ["one", "two", "function_call_output"]
    body = not_found_body(lambda: items.retrieve(call_id, conversation_id=name))
    assert "item_not_found" in body


def test_item_may_refer_to_a_stored_item(storing: Harness) -> None:
    items = storing.sdk.conversations.items
    first = start(storing, message("said before", id="msg_before"))
    other = start(storing, reference("msg_before"))
    items.create(other, items=[message("and after"), reference("msg_before")])
    storing.sdk.conversations.delete(first)
    assert texts(storing, other) == ["said before", "and after", "said before"]
    with pytest.raises(openai.NotFoundError) as caught:
        items.create(other, items=[message("x"), reference("msg_unknown")])
    assert caught.value.param == "items[1]"
    assert texts(storing, other) == ["said before", "and after", "said before"]


# Invalid requests


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"items": [message("x")] * 21}, "items"),
        ({"items": "x"}, "items"),
        ({"items": [message("x"), 3]}, "items[1]"),
        ({"items": [{"type": "message", "role": "user", "content": 7}]}, "items[0].content"),
        *INVALID_METADATA,
        ({"metadata": {"n": 1}}, "metadata"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_invalid_conversation_is_rejected(storing: Harness, fields: JsonObject, param: str) -> None:
    assert_invalid(storing.post(fields, "/v1/conversations"), param)


def test_twenty_items_and_sixteen_metadata_pairs_are_accepted(storing: Harness) -> None:
    longest = metadata_pairs(15) | {"n" * 64: "v" * 512}
    created = storing.sdk.conversations.create(items=[message("x")] * 20, metadata=longest)
    assert created.metadata == longest
    assert len(texts(storing, created.id)) == 20


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("", {}, "metadata"),
        ("", {"items": []}, "items"),
        ("/items", {}, "items"),
        ("/items", {"items": []}, "items"),
        ("/items", {"items": [message("x")] * 21}, "items"),
    ],
)
def test_invalid_update_names_the_field(
    storing: Harness, path: str, fields: dict[str, Any], param: str
) -> None:
    name = start(storing, message("one"))
    assert_invalid(storing.post(fields, f"/v1/conversations/{name}{path}"), param)
    assert texts(storing, name) == ["one"]


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "order=up", "after=none"])
def test_invalid_page_names_the_parameter(storing: Harness, query: str) -> None:
    name = start(storing, message("one"))
    response = storing.get(f"/v1/conversations/{name}/items?{query}")
    assert_invalid(response, query.partition("=")[0])


def test_missing_conversations_are_all_reported_alike(storing: Harness) -> None:
    """Unknown, deleted and foreign conversations cannot be told apart."""
    model = storing.new_model("chat")
    foreign = start(storing, message("secret", id="msg_secret"))
    deleted = start(storing)
    storing.sdk.conversations.delete(deleted)
    with sdk_client(storing.gateway, "sk-other") as other:
        conversations, items = other.conversations, other.conversations.items

        def make_calls(name: str) -> list[Callable[[], object]]:
            return [
                lambda: conversations.retrieve(name),
                lambda: conversations.update(name, metadata={}),
                lambda: conversations.delete(name),
                lambda: items.list(name),
                lambda: items.list(name, after="msg_secret"),
                lambda: items.create(name, items=[message("x")]),
                lambda: items.create(name, items=[]),
                lambda: items.retrieve("msg_secret", conversation_id=name),
                lambda: items.delete("msg_secret", conversation_id=name),
                lambda: other.responses.create(model=model, conversation=name, input="x"),
            ]

        names = (foreign, deleted, "conv_unknown")
        assert_indistinguishable(names, make_calls, "conversation_not_found")
    assert not storing.backend.received(model)
    assert texts(storing, foreign) == ["secret"]


# Responses in a conversation


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_responses_in_a_conversation(dialect: str, *, streamed: bool, storing: Harness) -> None:
    call = Call("weather", '{"city": "Oslo"}')
    model = storing.script(dialect, Turn("Let me see.", (call,)), "Sunny.")
    name = start(storing, message("I live in Oslo."))
    start(storing, message("In metric, please.", id="msg_metric"))
    question = "What is the weather?"
    first = storing.respond(streamed=streamed, model=model, conversation=name, input=question)
    assert first.conversation is not None
    assert first.conversation.id == name
    storing.assert_sent(model, "I live in Oslo.")
    expected = ["I live in Oslo.", "What is the weather?", "Let me see.", "function_call"]
    assert texts(storing, name) == expected
    made = next(item for item in first.output if item.type == "function_call")
    output = {"type": "function_call_output", "call_id": made.call_id, "output": "18 degrees"}
    given = [output, reference("msg_metric")]
    second = storing.respond(streamed=streamed, model=model, conversation={"id": name}, input=given)
    assert second.output_text == "Sunny."
    storing.assert_sent(model, *expected[:3], "city", "18 degrees", "In metric, please.")
    expected += ["function_call_output", "In metric, please.", "Sunny."]
    assert texts(storing, name) == expected
    stored = storing.sdk.responses.retrieve(second.id)
    assert stored.conversation == second.conversation
    assert stored.output_text == "Sunny."
    input_types = [item.type for item in storing.sdk.responses.input_items.list(first.id)]
    assert input_types == ["message", "message"]


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_failed_response_leaves_the_conversation_unchanged(
    dialect: str, *, streamed: bool, storing: Harness
) -> None:
    model = storing.enqueue(dialect, *failing_replies(dialect, streamed=streamed))
    name = start(storing, message("Hello"))
    for _ in range(2):
        try:
            response = storing.respond(
                streamed=streamed, model=model, conversation=name, input="And now?"
            )
        except openai.APIError:
            continue
        assert response.status == "failed"
    assert texts(storing, name) == ["Hello"]


@STREAMED_OR_NOT
def test_response_that_is_not_stored_is_not_added(*, streamed: bool, storing: Harness) -> None:
    """OpenAI does the same: the conversation is read and not changed."""
    name = start(storing, message("Hello"))
    fields = {"model": storing.script("chat", "Fine."), "conversation": name, "input": "And now?"}
    storing.respond(streamed=streamed, **fields, store=False)
    storing.assert_sent(fields["model"], "Hello")
    assert texts(storing, name) == ["Hello"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_continued_response_brings_its_conversation(dialect: str, storing: Harness) -> None:
    model = storing.script(dialect, "first", "second", "third")
    name = start(storing, message("long ago"))
    made = storing.respond(model=model, input="lately", conversation=name)
    aside = storing.respond(model=model, input="aside", previous_response_id=made.id)
    storing.assert_sent_in_order(model, "long ago", "lately", "first")
    assert_input_in_order(storing, aside.id, "long ago", "lately", "first")
    # The continuation itself is not added to the conversation.
    assert len(texts(storing, name)) == 3
    storing.sdk.conversations.delete(name)
    storing.respond(model=model, input="still", previous_response_id=aside.id)
    storing.assert_sent_in_order(model, "lately", "aside", "second")


def test_continued_failed_response_brings_its_conversation(storing: Harness) -> None:
    events = stream_events("chat", Turn("One two three four"))[:3]
    model = storing.enqueue("chat", truncated_reply(*events))
    fields = {"input": "lately", "conversation": start(storing, message("long ago"))}
    received = storing.post({"model": model, "stream": True, **fields})
    failed = object_in(events_of(received.body)[-1], "response")
    assert failed["status"] == "failed"
    assert_input_in_order(storing, text_in(failed, "id"), "long ago", "lately")
    script_turns(storing.backend, "chat", model, Turn("again"))
    storing.respond(model=model, input="so?", previous_response_id=failed["id"])
    storing.assert_sent_in_order(model, "long ago", "lately", "so?")


def test_reference_to_an_item_of_the_conversation_is_listed_too(storing: Harness) -> None:
    name = start(storing, message("one"), message("two"))
    (first, _) = storing.sdk.conversations.items.list(name, order="asc").data
    fields = {"input": [reference(str(first.id))], "conversation": name}
    made = storing.respond(streamed=False, model=storing.script("chat", "answer"), **fields)
    listed = storing.sdk.responses.input_items.list(made.id, order="asc").data
    assert [str(item.id) for item in listed].count(str(first.id)) == 2
    assert len(listed) == 3
