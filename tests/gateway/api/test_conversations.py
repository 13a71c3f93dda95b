"""Conversations through the openai package, on both databases and for every backend."""

from collections.abc import Iterator
from typing import Any, cast

import openai
import pytest
from openai.types.conversations import ConversationItem
from openai.types.responses import Response, ResponseInputItemParam
from pydantic import TypeAdapter

from tests.gateway import raw_http
from tests.gateway.api.common import (
    STREAMED_OR_NOT,
    assert_invalid,
    metadata_pairs,
    not_found_body,
    request,
)
from tests.gateway.api.conftest import ModelFactory
from tests.gateway.backend_replies import Call, Turn, error_events, script_turns, stream_events
from tests.gateway.backend_requests import received_body
from tests.gateway.background.requests import events_of
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.scripted_backend import (
    ScriptedBackend,
    json_reply,
    stream_reply,
    truncated_reply,
)
from tests.gateway.sdk_clients import sdk_client
from tests.judges.reading import object_in, text_in

_ITEM: TypeAdapter[ConversationItem] = TypeAdapter(ConversationItem)
UNKNOWN_REFERENCE: Any = {"type": "item_reference", "id": "msg_unknown"}


@pytest.fixture
def client(storing_gateway: Gateway) -> Iterator[openai.OpenAI]:
    with sdk_client(storing_gateway) as sdk:
        yield sdk


def message(text: str, **fields: str) -> ResponseInputItemParam:
    item = {"type": "message", "role": "user", "content": text, **fields}
    return cast("ResponseInputItemParam", item)


def texts(client: openai.OpenAI, conversation: str) -> list[str]:
    """Return the texts of all messages and the types of all other items, in their order."""
    result: list[str] = []
    for item in client.conversations.items.list(conversation, order="asc", limit=3):
        parsed: Any = _ITEM.validate_python(item.to_dict())
        if item.type == "message":
            result += [part["text"] for part in parsed.to_dict()["content"]]
        else:
            result.append(item.type)
    return result


def create(
    client: openai.OpenAI, *, streamed: bool, model: str, conversation: Any, **fields: Any
) -> Response:
    """Create a response in a conversation."""
    responses: Any = client.responses
    response: Response
    if not streamed:
        response = responses.create(model=model, conversation=conversation, **fields)
        return response
    with responses.stream(model=model, conversation=conversation, **fields) as events:
        response = events.get_final_response()
    return response


def assert_in_order(text: str, *parts: str) -> None:
    positions = [text.index(part) for part in parts]
    assert positions == sorted(positions)


# Conversations and items


def test_conversation_is_created_updated_and_deleted(client: openai.OpenAI) -> None:
    created = client.conversations.create(metadata={"topic": "tea"}, items=[message("Hello")])
    assert created.id.startswith("conv_")
    assert created.object == "conversation"
    assert created.metadata == {"topic": "tea"}
    assert client.conversations.retrieve(created.id) == created
    updated = client.conversations.update(created.id, metadata={"topic": "coffee"})
    assert updated.metadata == {"topic": "coffee"}
    assert client.conversations.retrieve(created.id) == updated
    assert updated.created_at == created.created_at
    assert client.conversations.update(created.id, metadata=None).metadata == {}
    assert texts(client, created.id) == ["Hello"]
    deleted = client.conversations.delete(created.id)
    assert deleted.to_dict() == {
        "id": created.id,
        "object": "conversation.deleted",
        "deleted": True,
    }
    not_found_body(lambda: client.conversations.retrieve(created.id))


def test_conversation_may_start_empty(storing_gateway: Gateway, client: openai.OpenAI) -> None:
    assert texts(client, client.conversations.create().id) == []
    without_body = request(storing_gateway, "POST", "/conversations")
    assert without_body.status_code == 200
    assert without_body.json()["metadata"] == {}


def test_items_are_added_listed_returned_and_deleted(client: openai.OpenAI) -> None:
    name = client.conversations.create(items=[message("one")]).id
    call: Any = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1.0}'}
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": "fine"}
    added = client.conversations.items.create(
        name, items=[message("two"), call, output], include=["reasoning.encrypted_content"]
    )
    assert [item.type for item in added.data] == [
        "message",
        "function_call",
        "function_call_output",
    ]
    assert (added.first_id, added.last_id) == (added.data[0].id, added.data[-1].id)
    assert not added.has_more
    for item in added.data:
        _ITEM.validate_python(item.to_dict())
        assert client.conversations.items.retrieve(item.id or "", conversation_id=name) == item
    # The newest items come first by default.
    listed = [item.id for item in client.conversations.items.list(name)]
    assert listed[:3] == [item.id for item in reversed(added.data)]
    assert texts(client, name) == ["one", "two", "function_call", "function_call_output"]
    call_id = added.data[1].id or ""
    conversation = client.conversations.items.delete(call_id, conversation_id=name)
    assert (conversation.id, conversation.object) == (name, "conversation")
    assert texts(client, name) == ["one", "two", "function_call_output"]
    assert "item_not_found" in not_found_body(
        lambda: client.conversations.items.retrieve(call_id, conversation_id=name)
    )


def test_item_may_refer_to_a_stored_item(client: openai.OpenAI) -> None:
    first = client.conversations.create(items=[message("said before", id="msg_before")]).id
    reference: Any = {"type": "item_reference", "id": "msg_before"}
    other = client.conversations.create(items=[reference]).id
    client.conversations.items.create(other, items=[message("and after"), reference])
    client.conversations.delete(first)
    assert texts(client, other) == ["said before", "and after", "said before"]
    with pytest.raises(openai.NotFoundError) as caught:
        client.conversations.items.create(other, items=[message("x"), UNKNOWN_REFERENCE])
    assert caught.value.param == "items[1]"
    assert texts(client, other) == ["said before", "and after", "said before"]


# Invalid requests


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"items": [message("x")] * 21}, "items"),
        ({"items": "x"}, "items"),
        ({"items": [message("x"), 3]}, "items[1]"),
        ({"items": [{"type": "message", "role": "user", "content": 7}]}, "items[0].content"),
        ({"metadata": metadata_pairs(17)}, "metadata"),
        ({"metadata": {"n" * 65: "v"}}, "metadata"),
        ({"metadata": {"n": "v" * 513}}, "metadata.n"),
        ({"metadata": {"n": 1}}, "metadata[...]"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_invalid_conversation_names_the_field(
    storing_gateway: Gateway, fields: dict[str, Any], param: str
) -> None:
    assert_invalid(request(storing_gateway, "POST", "/conversations", json=fields), param)


def test_twenty_items_and_sixteen_metadata_pairs_are_accepted(client: openai.OpenAI) -> None:
    longest = metadata_pairs(15) | {"n" * 64: "v" * 512}
    created = client.conversations.create(items=[message("x")] * 20, metadata=longest)
    assert created.metadata == longest
    assert len(texts(client, created.id)) == 20


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
    storing_gateway: Gateway, client: openai.OpenAI, path: str, fields: dict[str, Any], param: str
) -> None:
    name = client.conversations.create(items=[message("one")]).id
    assert_invalid(
        request(storing_gateway, "POST", f"/conversations/{name}{path}", json=fields), param
    )
    assert texts(client, name) == ["one"]


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "order=up", "after=none"])
def test_invalid_page_names_the_parameter(
    storing_gateway: Gateway, client: openai.OpenAI, query: str
) -> None:
    name = client.conversations.create(items=[message("one")]).id
    response = request(storing_gateway, "GET", f"/conversations/{name}/items?{query}")
    assert_invalid(response, query.partition("=")[0])


def test_missing_conversations_are_all_reported_alike(
    storing_gateway: Gateway, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    """Unknown, deleted and foreign conversations cannot be told apart."""
    model = new_model("chat")
    foreign = client.conversations.create(items=[message("secret", id="msg_secret")]).id
    deleted = client.conversations.create().id
    client.conversations.delete(deleted)
    replies: list[list[str]] = []
    with sdk_client(storing_gateway, "sk-other") as stranger:
        conversations, items = stranger.conversations, stranger.conversations.items
        for name in (foreign, deleted, "conv_unknown"):
            calls: list[Any] = [
                lambda name=name: conversations.retrieve(name),
                lambda name=name: conversations.update(name, metadata={}),
                lambda name=name: conversations.delete(name),
                lambda name=name: items.list(name),
                lambda name=name: items.list(name, after="msg_secret"),
                lambda name=name: items.create(name, items=[message("x")]),
                lambda name=name: items.create(name, items=[]),
                lambda name=name: items.retrieve("msg_secret", conversation_id=name),
                lambda name=name: items.delete("msg_secret", conversation_id=name),
                lambda name=name: create(
                    stranger, streamed=False, model=model, conversation=name, input="x"
                ),
            ]
            replies.append([not_found_body(call).replace(name, "NAME") for call in calls])
    assert replies[0] == replies[1] == replies[2]
    assert all("conversation_not_found" in one for one in replies[0])
    assert not backend.received(model)
    assert texts(client, foreign) == ["secret"]


# Responses in a conversation


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_responses_continue_a_conversation(
    dialect: str,
    *,
    streamed: bool,
    client: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    call = Call("weather", '{"city": "Oslo"}')
    script_turns(backend, dialect, model, Turn("Let me see.", (call,)), Turn("Sunny."))
    name = client.conversations.create(items=[message("I live in Oslo.")]).id
    client.conversations.create(items=[message("In metric, please.", id="msg_metric")])
    first = create(
        client, streamed=streamed, model=model, conversation=name, input="What is the weather?"
    )
    assert first.conversation is not None
    assert first.conversation.id == name
    assert "I live in Oslo." in received_body(backend, model)
    expected = ["I live in Oslo.", "What is the weather?", "Let me see.", "function_call"]
    assert texts(client, name) == expected
    made = next(item for item in first.output if item.type == "function_call")
    output: Any = {"type": "function_call_output", "call_id": made.call_id, "output": "18 degrees"}
    reference: Any = {"type": "item_reference", "id": "msg_metric"}
    second = create(
        client,
        streamed=streamed,
        model=model,
        conversation={"id": name},
        input=[output, reference],
    )
    assert second.output_text == "Sunny."
    for text in (*expected[:3], "city", "18 degrees", "In metric, please."):
        assert text in received_body(backend, model)
    expected += ["function_call_output", "In metric, please.", "Sunny."]
    assert texts(client, name) == expected
    stored = client.responses.retrieve(second.id)
    assert stored.conversation == second.conversation
    assert stored.output_text == "Sunny."
    input_types = [item.type for item in client.responses.input_items.list(first.id)]
    assert input_types == ["message", "message"]


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_failed_response_leaves_the_conversation_unchanged(
    dialect: str,
    *,
    streamed: bool,
    client: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    name = client.conversations.create(items=[message("Hello")]).id
    if streamed:
        start = stream_events(dialect, Turn("Half an answer"))[:3]
        backend.enqueue(model, stream_reply(*start, *error_events(dialect, "no more")))
        backend.enqueue(model, truncated_reply(*start))
    else:
        error = b'{"error":{"message":"no","type":"x","param":null,"code":null}}'
        backend.enqueue(model, json_reply(error, status=500), json_reply(b"{", status=200))
    for _ in range(2):
        try:
            response = create(
                client, streamed=streamed, model=model, conversation=name, input="And now?"
            )
        except openai.APIError:
            continue
        assert response.status == "failed"
    assert texts(client, name) == ["Hello"]


@STREAMED_OR_NOT
def test_response_that_is_not_stored_is_not_added(
    *, streamed: bool, client: openai.OpenAI, backend: ScriptedBackend, model_with: ModelFactory
) -> None:
    """OpenAI does the same: the conversation is read and not changed."""
    model = model_with("chat", Turn("Fine."))
    name = client.conversations.create(items=[message("Hello")]).id
    create(client, streamed=streamed, model=model, conversation=name, input="And now?", store=False)
    assert "Hello" in received_body(backend, model)
    assert texts(client, name) == ["Hello"]


def test_conversation_and_previous_response_exclude_each_other(
    client: openai.OpenAI, model_with: ModelFactory
) -> None:
    model = model_with("chat", Turn("Fine."))
    name = client.conversations.create().id
    first = client.responses.create(model=model, input="Hello")
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(
            model=model, input="x", conversation=name, previous_response_id=first.id
        )
    assert caught.value.param == "previous_response_id"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_continued_response_brings_its_conversation(
    dialect: str, client: openai.OpenAI, backend: ScriptedBackend, model_with: ModelFactory
) -> None:
    model = model_with(dialect, Turn("first"), Turn("second"), Turn("third"))
    conversation = client.conversations.create(items=[message("long ago")])
    made = client.responses.create(model=model, input="lately", conversation=conversation.id)
    aside = client.responses.create(model=model, input="aside", previous_response_id=made.id)
    assert_in_order(received_body(backend, model), "long ago", "lately", "first")
    listed = client.responses.input_items.list(aside.id, order="asc").to_json()
    assert_in_order(listed, "long ago", "lately", "first")
    # The continuation itself is not added to the conversation.
    assert len(list(client.conversations.items.list(conversation.id))) == 3
    client.conversations.delete(conversation.id)
    client.responses.create(model=model, input="still", previous_response_id=aside.id)
    assert_in_order(received_body(backend, model), "lately", "aside", "second")


def test_continued_failed_response_brings_its_conversation(
    storing_gateway: Gateway, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    conversation = client.conversations.create(items=[message("long ago")])
    backend.enqueue(model, truncated_reply(*stream_events("chat", Turn("One two three four"))[:3]))
    body = {"model": model, "input": "lately", "conversation": conversation.id, "stream": True}
    sent = raw_http.post(
        storing_gateway.port, "/v1/responses", body, {"Authorization": "Bearer sk-me"}
    ).body
    failed = object_in(events_of(sent)[-1], "response")
    assert failed["status"] == "failed"
    listed = client.responses.input_items.list(text_in(failed, "id"), order="asc").to_json()
    assert_in_order(listed, "long ago", "lately")
    script_turns(backend, "chat", model, Turn("again"))
    client.responses.create(model=model, input="so?", previous_response_id=text_in(failed, "id"))
    assert_in_order(received_body(backend, model), "long ago", "lately", "so?")


def test_reference_to_an_item_of_the_conversation_is_listed_too(
    client: openai.OpenAI, model_with: ModelFactory
) -> None:
    model = model_with("chat", Turn("answer"))
    conversation = client.conversations.create(items=[message("one"), message("two")])
    (first, _) = client.conversations.items.list(conversation.id, order="asc").data
    made = client.responses.create(
        model=model,
        input=[{"type": "item_reference", "id": str(first.id)}],
        conversation=conversation.id,
    )
    listed = client.responses.input_items.list(made.id, order="asc").data
    assert [str(item.id) for item in listed].count(str(first.id)) == 2
    assert len(listed) == 3
