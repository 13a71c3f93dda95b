"""Stored chat completions through the openai package, on both databases and for every backend."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion

from gateway.pytest_plugin.scripted_backend import Gate, json_reply, stream_reply
from tests.gateway.api.common import (
    INVALID_METADATA,
    assert_indistinguishable,
    assert_invalid,
    failing_replies,
    not_found_body,
)
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.waiting import wait_until

HELLO: Any = [{"role": "user", "content": "Hello"}]
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
TOOL_CALL = Turn("Let me see.", (Call("weather", '{"city": "Oslo"}'),))
# The usage that the scripted backends report.
TOTAL_TOKENS = 12
PATH = "/v1/chat/completions"

_OWNERS = itertools.count()


@pytest.fixture
def owner(storing: Harness) -> Iterator[Harness]:
    """Return a harness with a new key, whose lists are empty."""
    with sdk_client(storing.gateway, f"sk-{next(_OWNERS)}") as sdk:
        yield replace(storing, sdk=sdk)


# A second harness in the same test, with a key of its own.
other_owner = owner


def complete(owner: Harness, *, streamed: bool = False, **fields: Any) -> ChatCompletion:
    """Create a stored completion; a stream is assembled by the openai package."""
    fields = {"messages": HELLO, "store": True} | fields
    completions: Any = owner.sdk.chat.completions
    if not streamed:
        completion: ChatCompletion = completions.create(**fields)
        return completion
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in completions.create(**fields, stream=True):
        state.handle_chunk(chunk)
    return state.get_final_completion()


def retrieve(owner: Harness, completion_id: str) -> ChatCompletion:
    return owner.sdk.chat.completions.retrieve(completion_id)


def list_ids(owner: Harness, **filters: Any) -> list[str]:
    return [one.id for one in owner.sdk.chat.completions.list(**filters)]


def content(completion: ChatCompletion) -> Any:
    """Return what does not depend on whether the completion was streamed."""
    choice = completion.choices[0]
    calls: list[Any] = choice.message.tool_calls or []
    called = [(call.id, call.function.name, call.function.arguments) for call in calls]
    return (completion.id, completion.model, choice.finish_reason, choice.message.content, called)


def text(completion: ChatCompletion) -> str | None:
    return completion.choices[0].message.content


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", ["", "streaming-", "unary-"])
def test_completion_is_stored_as_it_was_sent(
    kind: str, dialect: str, *, streamed: bool, owner: Harness
) -> None:
    fields = {"tools": TOOLS, "metadata": {"topic": "tea"}}
    model = owner.script(f"{kind}{dialect}", TOOL_CALL)
    sent = complete(owner, streamed=streamed, model=model, **fields)
    stored = retrieve(owner, sent.id)
    assert content(stored) == content(sent)
    assert stored.object == "chat.completion"
    assert stored.to_dict()["metadata"] == {"topic": "tea"}
    ChatCompletion.model_validate(stored.to_dict())
    if not streamed:
        assert {**stored.to_dict(), "metadata": None} == {**sent.to_dict(), "metadata": None}
    # The stream of a Chat backend passes through unchanged, here without usage, and legacy backends
    # may not accept `stream_options`.
    backend_streams = kind == "streaming-" or (streamed and not kind)
    unknown = (backend_streams and dialect == "legacy") or (
        streamed and dialect == "chat" and kind != "unary-"
    )
    assert (stored.usage and stored.usage.total_tokens) == (None if unknown else TOTAL_TOKENS)


def test_deleted_completion_is_gone(owner: Harness) -> None:
    sent = complete(owner, model=owner.script("chat", "Fine."))
    assert list_ids(owner) == [sent.id]
    expected = {"id": sent.id, "object": "chat.completion.deleted", "deleted": True}
    assert owner.sdk.chat.completions.delete(sent.id).to_dict() == expected
    assert list_ids(owner) == []
    assert "completion_not_found" in not_found_body(lambda: retrieve(owner, sent.id))


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_legacy_completion_is_stored(dialect: str, *, streamed: bool, owner: Harness) -> None:
    model = owner.script(dialect, TOOL_CALL)
    functions = [{"name": "weather", "parameters": dict[str, object]()}]
    response = owner.request("legacy", model, streamed=streamed, functions=functions, store=True)
    assert response.status == 200
    (completion_id,) = list_ids(owner)
    assert completion_id.encode() in response.body
    (choice,) = retrieve(owner, completion_id).choices
    assert choice.finish_reason == "function_call"
    assert choice.message.content == "Let me see."
    assert choice.message.function_call is not None
    assert choice.message.function_call.arguments == '{"city": "Oslo"}'


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_store_is_no_loss_and_is_sent_only_to_chat_backends(
    dialect: str, *, streamed: bool, owner: Harness
) -> None:
    model = owner.script(dialect, "Fine.")
    response = owner.request("chat", model, streamed=streamed, store=True)
    assert response.status == 200
    assert "store" not in response.headers.get("dragoman-loss", "")
    # The Responses API stores replies by default, and legacy backends may not know the field.
    expected = {"chat": True, "responses": False, "legacy": None}[dialect]
    assert owner.sent_json(model).get("store") is expected


def test_fields_of_a_stream_that_cannot_be_stored_are_reported(owner: Harness) -> None:
    events = stream_events("chat", Turn("Fine."))
    extended = events[-3].replace(b'"finish_reason"', b'"mood":"good","finish_reason"')
    assert extended != events[-3]
    model = owner.enqueue("chat", stream_reply(*events[:-3], extended, *events[-2:]))
    sent = complete(owner, streamed=True, model=model)
    assert content(retrieve(owner, sent.id)) == content(sent)
    words, lines = "in the stored completion", owner.gateway.lines
    wait_until(lambda: any(model in line and words in line for line in lines))


def test_choices_of_a_stream_are_stored_separately(owner: Harness) -> None:
    one, other = (stream_events("chat", Turn(word), usage=False)[:-1] for word in ("Yes.", "No."))
    second = [frame.replace(b'"index": 0', b'"index": 1') for frame in other]
    mixed = [frame for both in zip(one, second, strict=True) for frame in both]
    model = owner.enqueue("chat", stream_reply(*mixed, b"data: [DONE]\n\n"))
    stored = retrieve(owner, complete(owner, streamed=True, model=model, n=2).id)
    assert [choice.message.content for choice in stored.choices] == ["Yes.", "No."]


@STREAMED_OR_NOT
def test_request_with_a_lone_surrogate_is_stored(*, streamed: bool, owner: Harness) -> None:
    """JavaScript writes one when it cuts a string in the middle of an emoji."""
    messages = [{"role": "user", "content": "\ud83d"}]
    model = owner.script("chat", "Fine.")
    response = owner.request("chat", model, streamed=streamed, messages=messages, store=True)
    assert response.status == 200
    (completion_id,) = list_ids(owner)
    (message,) = owner.sdk.chat.completions.messages.list(completion_id)
    assert message.content == "\N{REPLACEMENT CHARACTER}"


def test_stream_without_done_is_stored(owner: Harness) -> None:
    events = stream_events("chat", Turn("Fine."))
    sent = complete(owner, streamed=True, model=owner.enqueue("chat", stream_reply(*events[:-1])))
    assert content(retrieve(owner, sent.id)) == content(sent)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_completion_is_stored_before_the_stream_ends(dialect: str, owner: Harness) -> None:
    """A client that has read `[DONE]` finds the completion, even if the backend stays connected."""
    gate = Gate()
    model = owner.enqueue(dialect, stream_reply(*stream_events(dialect, Turn("Fine.")), gate))
    with owner.stream("chat", model, store=True) as response:
        response.read_until(b"data: [DONE]")
        assert len(list_ids(owner)) == 1
        gate.open()


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_failed_completion_is_not_stored(dialect: str, *, streamed: bool, owner: Harness) -> None:
    model = owner.enqueue(dialect, *failing_replies(dialect, streamed=streamed))
    for _ in range(2):
        with pytest.raises(openai.APIError):
            complete(owner, streamed=streamed, model=model)
    assert list_ids(owner) == []


@STREAMED_OR_NOT
def test_completion_is_not_stored_without_store(*, streamed: bool, owner: Harness) -> None:
    model = owner.script("responses", *["Fine."] * 3)
    for store in (False, None, openai.NOT_GIVEN):
        assert text(complete(owner, streamed=streamed, model=model, store=store)) == "Fine."
    assert list_ids(owner) == []


def test_repeated_id_is_the_owners_latest_completion(owner: Harness, other_owner: Harness) -> None:
    """Some servers give every completion the same id; the scripted one uses `chatcmpl-1`."""
    model = owner.script("chat", "One.", "Theirs.", "Two.")
    first = complete(owner, model=model, metadata={"turn": "one"})
    theirs = complete(other_owner, streamed=True, model=model)
    latest = complete(owner, streamed=True, model=model)
    assert first.id == theirs.id == latest.id
    assert text(retrieve(owner, first.id)) == "Two."
    assert list_ids(owner) == [first.id]
    assert list_ids(owner, metadata={"turn": "one"}) == []
    owner.sdk.chat.completions.delete(first.id)
    assert text(retrieve(other_owner, first.id)) == "Theirs."


@pytest.mark.parametrize("backend_id", ["null", '"a b/c"', "7", None])
def test_completion_without_a_usable_id_gets_one(backend_id: str | None, owner: Harness) -> None:
    body = msgspec.json.decode(reply_body("chat", Turn("Fine.")))
    body.pop("id")
    if backend_id is not None:
        body["id"] = msgspec.json.decode(backend_id)
    complete(owner, model=owner.enqueue("chat", json_reply(msgspec.json.encode(body))))
    (stored_id,) = list_ids(owner)
    assert stored_id.startswith("chatcmpl-")
    assert text(retrieve(owner, stored_id)) == "Fine."


# Lists, metadata, messages


def test_completions_are_filtered_and_paged(owner: Harness) -> None:
    models = [owner.new_model("chat"), owner.new_model("chat")]
    ids: list[str] = []
    for number in range(6):
        model = models[number % 2]
        body = reply_body("chat", Turn(str(number))).replace(b"cmpl-1", b"cmpl-%d" % number)
        owner.backend.enqueue(model, json_reply(body))
        metadata = {"even": str(number % 2 == 0), "third": str(number // 3)}
        ids.append(complete(owner, model=model, metadata=metadata).id)
    assert len(set(ids)) == 6
    assert list_ids(owner) == ids
    assert list_ids(owner, order="desc", limit=4) == ids[::-1]
    assert list_ids(owner, model=models[1]) == ids[1::2]
    assert list_ids(owner, metadata={"even": "True", "third": "1"}) == [ids[4]]
    assert list_ids(owner, metadata={"even": "neither"}) == []
    assert list_ids(owner, after=ids[2], limit=2) == ids[3:]
    assert not owner.sdk.chat.completions.list(limit=6).has_more
    updated = owner.sdk.chat.completions.update(ids[0], metadata={"even": "neither"})
    assert updated.to_dict()["metadata"] == {"even": "neither"}
    assert text(updated) == "0"
    assert list_ids(owner, metadata={"even": "neither"}) == [ids[0]]


def test_messages_of_the_request_are_listed(owner: Harness) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}}
    parts = [{"type": "text", "text": "See?"}, image]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1.0}'}}
    messages = [
        {"role": "system", "content": "Be brief.", "name": "boss"},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
    ]
    sent = complete(owner, model=owner.script("chat", "Fine."), messages=messages)
    listed = [*owner.sdk.chat.completions.messages.list(sent.id, limit=3)]
    assert [one.id for one in listed] == [f"{sent.id}-{index}" for index in range(4)]
    assert [one.role for one in listed] == ["system", "user", "assistant", "tool"]
    assert [one.content for one in listed] == ["Be brief.", None, None, "7"]
    assert [part.to_dict() for part in listed[1].content_parts or ()] == parts
    assert listed[0].content_parts is None
    assert [one.to_dict() for one in listed[2].tool_calls or ()] == [call]
    newest = owner.sdk.chat.completions.messages.list(sent.id, order="desc", limit=1).data
    assert [one.id for one in newest] == [f"{sent.id}-3"]


# Invalid requests


@pytest.mark.parametrize(
    ("fields", "param"),
    [*INVALID_METADATA, ({"metadata": "x"}, "metadata"), ({"messages": "x"}, "messages")],
)
def test_request_that_cannot_be_stored_is_rejected_before_the_backend_is_called(
    storing: Harness, fields: dict[str, Any], param: str
) -> None:
    model = storing.new_model("chat")
    body = {"model": model, "messages": HELLO, "store": True} | fields
    assert_invalid(storing.post(body, PATH), param)
    assert not storing.backend.received(model)


@pytest.mark.parametrize(
    ("body", "param"),
    [(b"", "metadata"), (b'{"metadata":{"n":1}}', "metadata"), (b'{"x":1}', "x")],
)
def test_invalid_update_names_the_field(storing: Harness, body: bytes, param: str) -> None:
    assert_invalid(storing.post(body, f"{PATH}/chatcmpl-none"), param)


@pytest.mark.parametrize("query", ["limit=0", "order=up", "after=none"])
def test_invalid_page_names_the_parameter(storing: Harness, query: str) -> None:
    assert_invalid(storing.get(f"{PATH}?{query}"), query.partition("=")[0])


def test_missing_completions_are_all_reported_alike(owner: Harness, other_owner: Harness) -> None:
    """Unknown, deleted and foreign completions cannot be told apart."""
    model = owner.script("responses", "Fine.", "Gone.")
    foreign = complete(owner, model=model).id
    deleted = complete(other_owner, model=model).id
    completions = other_owner.sdk.chat.completions
    completions.delete(deleted)

    def make_calls(name: str) -> list[Callable[[], object]]:
        return [
            lambda: completions.retrieve(name),
            lambda: completions.update(name, metadata={}),
            lambda: completions.delete(name),
            lambda: completions.messages.list(name),
            lambda: completions.messages.list(name, after="x"),
        ]

    names = (foreign, deleted, "chatcmpl-unknown")
    assert_indistinguishable(names, make_calls, "completion_not_found")
    assert list_ids(owner) == [foreign]
