"""Conversations by the real client, over both databases and in front of every kind of backend."""

from collections.abc import Iterator
from typing import Any, cast

import httpx
import openai
import pytest
from openai.types.conversations import ConversationItem
from openai.types.responses import Response, ResponseInputItemParam
from pydantic import TypeAdapter

from tests.gateway import wire
from tests.gateway.background.requests import events_of
from tests.gateway.conftest import DIALECTS, Fresh
from tests.gateway.keeping import client_of, heard, says
from tests.gateway.process import Gateway
from tests.gateway.scripted import PATIENCE, ScriptedBackend, answer, cut_stream, stream
from tests.gateway.speech import Call, Turn, error_frames, frames
from tests.judges.reading import object_in, text_in
from tests.judges.sdk import judge_error

BOTH_WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
_ITEM: TypeAdapter[ConversationItem] = TypeAdapter(ConversationItem)


@pytest.fixture
def client(kept: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(kept) as sdk:
        yield sdk


def message(text: str, **fields: str) -> ResponseInputItemParam:
    made = {"type": "message", "role": "user", "content": text, **fields}
    return cast("ResponseInputItemParam", made)


def texts(client: openai.OpenAI, conversation: str) -> list[str]:
    """Give what is said in a conversation, in its order, as the real client pages through it."""
    said: list[str] = []
    for item in client.conversations.items.list(conversation, order="asc", limit=3):
        whole: Any = _ITEM.validate_python(item.to_dict())
        if item.type == "message":
            said += [part["text"] for part in whole.to_dict()["content"]]
        else:
            said.append(item.type)
    return said


def create(
    client: openai.OpenAI, *, streamed: bool, model: str, conversation: Any, **asked: Any
) -> Response:
    responses: Any = client.responses
    if not streamed:
        made: Response = responses.create(model=model, conversation=conversation, **asked)
        return made
    with responses.stream(model=model, conversation=conversation, **asked) as events:
        final: Response = events.get_final_response()
    return final


# The conversation itself


def test_a_conversation_from_beginning_to_end(client: openai.OpenAI) -> None:
    made = client.conversations.create(metadata={"topic": "tea"}, items=[message("Hello")])
    assert made.id.startswith("conv_")
    assert made.object == "conversation"
    assert made.metadata == {"topic": "tea"}
    assert client.conversations.retrieve(made.id) == made
    changed = client.conversations.update(made.id, metadata={"topic": "coffee"})
    assert changed.metadata == {"topic": "coffee"}
    assert client.conversations.retrieve(made.id) == changed
    assert changed.created_at == made.created_at
    assert client.conversations.update(made.id, metadata=None).metadata == {}
    assert texts(client, made.id) == ["Hello"]
    gone = client.conversations.delete(made.id)
    assert (gone.id, gone.object, gone.deleted) == (made.id, "conversation.deleted", True)
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)


def test_a_conversation_may_begin_with_nothing(kept: Gateway, client: openai.OpenAI) -> None:
    assert texts(client, client.conversations.create().id) == []
    bare = httpx.post(f"{kept.url}/conversations", timeout=PATIENCE)
    assert bare.status_code == 200
    assert bare.json()["metadata"] == {}


def test_items_are_added_listed_shown_and_taken_out(client: openai.OpenAI) -> None:
    name = client.conversations.create(items=[message("one")]).id
    call: Any = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1.0}'}
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": "fine"}
    made = client.conversations.items.create(
        name, items=[message("two"), call, output], include=["reasoning.encrypted_content"]
    )
    assert [item.type for item in made.data] == [
        "message",
        "function_call",
        "function_call_output",
    ]
    assert (made.first_id, made.last_id) == (made.data[0].id, made.data[-1].id)
    assert not made.has_more
    for item in made.data:
        _ITEM.validate_python(item.to_dict())
        shown = client.conversations.items.retrieve(item.id or "", conversation_id=name)
        assert shown == item
    # The newest first, unless it is asked for otherwise.
    listed = [item.id for item in client.conversations.items.list(name)]
    assert listed[:3] == [item.id for item in reversed(made.data)]
    assert texts(client, name) == ["one", "two", "function_call", "function_call_output"]
    left = client.conversations.items.delete(made.data[1].id or "", conversation_id=name)
    assert (left.id, left.object) == (name, "conversation")
    assert texts(client, name) == ["one", "two", "function_call_output"]
    with pytest.raises(openai.NotFoundError) as caught:
        client.conversations.items.retrieve(made.data[1].id or "", conversation_id=name)
    assert caught.value.code == "item_not_found"


def test_an_item_may_refer_to_one_that_is_kept(client: openai.OpenAI) -> None:
    first = client.conversations.create(items=[message("said before", id="msg_before")]).id
    reference: Any = {"type": "item_reference", "id": "msg_before"}
    other = client.conversations.create(items=[reference]).id
    client.conversations.items.create(other, items=[message("and after"), reference])
    client.conversations.delete(first)
    assert texts(client, other) == ["said before", "and after", "said before"]
    with pytest.raises(openai.NotFoundError) as caught:
        client.conversations.items.create(other, items=[message("x"), unknown_reference()])
    assert caught.value.param == "items[1]"
    assert texts(client, other) == ["said before", "and after", "said before"]


def unknown_reference() -> Any:
    return {"type": "item_reference", "id": "msg_unknown"}


# What is wrong


def pairs(count: int) -> dict[str, str]:
    return {f"name{number}": "value" for number in range(count)}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"items": [message("x")] * 21}, "items"),
        ({"items": "x"}, "items"),
        ({"items": [message("x"), 3]}, "items[1]"),
        ({"items": [{"type": "message", "role": "user", "content": 7}]}, "items[0].content"),
        ({"metadata": pairs(17)}, "metadata"),
        ({"metadata": {"n" * 65: "v"}}, "metadata"),
        ({"metadata": {"n": "v" * 513}}, "metadata.n"),
        ({"metadata": {"n": 1}}, "metadata[...]"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_what_is_wrong_is_named(kept: Gateway, asked: dict[str, Any], param: str) -> None:
    told = httpx.post(f"{kept.url}/conversations", json=asked, timeout=PATIENCE)
    assert told.status_code == 400
    judge_error(told.content)
    assert told.json()["error"]["param"] == param


def test_twenty_items_and_sixteen_pairs_are_not_too_many(client: openai.OpenAI) -> None:
    longest = pairs(15) | {"n" * 64: "v" * 512}
    made = client.conversations.create(items=[message("x")] * 20, metadata=longest)
    assert made.metadata == longest
    assert len(texts(client, made.id)) == 20


@pytest.mark.parametrize(
    ("path", "asked", "param"),
    [
        ("", {}, "metadata"),
        ("", {"items": []}, "items"),
        ("/items", {}, "items"),
        ("/items", {"items": []}, "items"),
        ("/items", {"items": [message("x")] * 21}, "items"),
    ],
)
def test_what_is_wrong_with_a_change_is_named(
    kept: Gateway, client: openai.OpenAI, path: str, asked: dict[str, Any], param: str
) -> None:
    name = client.conversations.create(items=[message("one")]).id
    told = httpx.post(
        f"{kept.url}/conversations/{name}{path}",
        json=asked,
        headers=headers_of(client),
        timeout=PATIENCE,
    )
    assert told.status_code == 400
    assert told.json()["error"]["param"] == param
    assert texts(client, name) == ["one"]


def headers_of(client: openai.OpenAI) -> dict[str, str]:
    return {"authorization": f"Bearer {client.api_key}"}


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "order=up", "after=none"])
def test_a_part_that_cannot_be_is_refused(kept: Gateway, client: openai.OpenAI, query: str) -> None:
    name = client.conversations.create(items=[message("one")]).id
    path = f"/conversations/{name}/items?{query}"
    told = httpx.get(f"{kept.url}{path}", headers=headers_of(client), timeout=PATIENCE)
    assert told.status_code == 400
    assert told.json()["error"]["param"] == query.partition("=")[0]


def test_what_is_not_there_is_told_alike(
    kept: Gateway, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    """Unknown, deleted, or somebody else's: nobody can tell which."""
    model = fresh("chat")
    foreign = client.conversations.create(items=[message("secret", id="msg_secret")]).id
    deleted = client.conversations.create().id
    client.conversations.delete(deleted)
    told: list[list[str]] = []
    with client_of(kept, "sk-other") as stranger:
        for name in (foreign, deleted, "conv_unknown"):
            items = stranger.conversations.items
            attempts: list[Any] = [
                lambda name=name: stranger.conversations.retrieve(name),
                lambda name=name: stranger.conversations.update(name, metadata={}),
                lambda name=name: stranger.conversations.delete(name),
                lambda name=name, items=items: items.list(name),
                lambda name=name, items=items: items.list(name, after="msg_secret"),
                lambda name=name, items=items: items.create(name, items=[message("x")]),
                lambda name=name, items=items: items.create(name, items=[]),
                lambda name=name, items=items: items.retrieve("msg_secret", conversation_id=name),
                lambda name=name, items=items: items.delete("msg_secret", conversation_id=name),
                lambda name=name: create(
                    stranger, streamed=False, model=model, conversation=name, input="x"
                ),
            ]
            told.append([refusal(attempt).replace(name, "NAME") for attempt in attempts])
    assert told[0] == told[1] == told[2]
    assert all("conversation_not_found" in one for one in told[0])
    assert not backend.received(model)
    assert texts(client, foreign) == ["secret"]


def refusal(attempt: Any) -> str:
    with pytest.raises(openai.NotFoundError) as caught:
        attempt()
    return caught.value.response.text


# Responses in a conversation


@BOTH_WAYS
@pytest.mark.parametrize("dialect", DIALECTS)
def test_responses_go_on_with_a_conversation(
    dialect: str, *, streamed: bool, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    call = Call("weather", '{"city": "Oslo"}')
    says(backend, dialect, model, Turn("Let me see.", (call,)), Turn("Sunny."))
    name = client.conversations.create(items=[message("I live in Oslo.")]).id
    client.conversations.create(items=[message("In metric, please.", id="msg_metric")])
    first = create(
        client, streamed=streamed, model=model, conversation=name, input="What is the weather?"
    )
    assert first.conversation is not None
    assert first.conversation.id == name
    assert "I live in Oslo." in heard(backend, model)
    said = ["I live in Oslo.", "What is the weather?", "Let me see.", "function_call"]
    assert texts(client, name) == said
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
    for words in (*said[:3], "city", "18 degrees", "In metric, please."):
        assert words in heard(backend, model)
    said += ["function_call_output", "In metric, please.", "Sunny."]
    assert texts(client, name) == said
    shown = client.responses.retrieve(second.id)
    assert shown.conversation == second.conversation
    assert shown.output_text == "Sunny."
    before = [item.type for item in client.responses.input_items.list(first.id)]
    assert before == ["message", "message"]


@BOTH_WAYS
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_fails_leaves_the_conversation_as_it_was(
    dialect: str, *, streamed: bool, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    name = client.conversations.create(items=[message("Hello")]).id
    if streamed:
        begun = frames(dialect, Turn("Half an answer"))[:3]
        backend.play(model, stream(*begun, *error_frames(dialect, "no more")))
        backend.play(model, cut_stream(*begun))
    else:
        wrong = b'{"error":{"message":"no","type":"x","param":null,"code":null}}'
        backend.play(model, answer(wrong, status=500), answer(b"{", status=200))
    for _ in range(2):
        try:
            answered = create(
                client, streamed=streamed, model=model, conversation=name, input="And now?"
            )
        except openai.APIError:
            continue
        assert answered.status == "failed"
    assert texts(client, name) == ["Hello"]


@BOTH_WAYS
def test_what_is_not_to_be_stored_is_not_added(
    *, streamed: bool, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    """As at OpenAI: the conversation is read, and stays as it is."""
    model = fresh("chat")
    says(backend, "chat", model, Turn("Fine."))
    name = client.conversations.create(items=[message("Hello")]).id
    create(client, streamed=streamed, model=model, conversation=name, input="And now?", store=False)
    assert "Hello" in heard(backend, model)
    assert texts(client, name) == ["Hello"]


def test_a_conversation_and_a_previous_response_exclude_each_other(
    client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    says(backend, "chat", model, Turn("Fine."))
    name = client.conversations.create().id
    first = client.responses.create(model=model, input="Hello")
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(
            model=model, input="x", conversation=name, previous_response_id=first.id
        )
    assert caught.value.param == "previous_response_id"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_who_continues_a_response_stands_on_the_conversation_that_it_was_made_in(
    dialect: str, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    says(backend, dialect, model, Turn("first"), Turn("second"), Turn("third"))
    conversation = client.conversations.create(items=[message("long ago")])
    made = client.responses.create(model=model, input="lately", conversation=conversation.id)
    aside = client.responses.create(model=model, input="aside", previous_response_id=made.id)
    sent = heard(backend, model)
    assert sent.index("long ago") < sent.index("lately") < sent.index("first")
    listed = client.responses.input_items.list(aside.id, order="asc").to_json()
    assert listed.index("long ago") < listed.index("lately") < listed.index("first")
    # The conversation knows nothing of it.
    assert len(list(client.conversations.items.list(conversation.id))) == 3
    client.conversations.delete(conversation.id)
    client.responses.create(model=model, input="still", previous_response_id=aside.id)
    sent = heard(backend, model)
    assert sent.index("lately") < sent.index("aside") < sent.index("second")


def test_who_continues_what_failed_stands_on_its_conversation_too(
    kept: Gateway, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    conversation = client.conversations.create(items=[message("long ago")])
    backend.play(model, cut_stream(*frames("chat", Turn("One two three four"))[:3]))
    asked = {"model": model, "input": "lately", "conversation": conversation.id, "stream": True}
    told = wire.post(kept.port, "/v1/responses", asked, {"Authorization": "Bearer sk-me"}).body
    failed = object_in(events_of(told)[-1], "response")
    assert failed["status"] == "failed"
    listed = client.responses.input_items.list(text_in(failed, "id"), order="asc").to_json()
    assert listed.index("long ago") < listed.index("lately")
    says(backend, "chat", model, Turn("again"))
    client.responses.create(model=model, input="so?", previous_response_id=text_in(failed, "id"))
    sent = heard(backend, model)
    assert sent.index("long ago") < sent.index("lately") < sent.index("so?")


def test_what_a_response_repeats_of_its_conversation_hides_nothing(
    client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    says(backend, "chat", model, Turn("answer"))
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
