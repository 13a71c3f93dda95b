"""Stored chat completions through the openai package, on both databases and for every backend."""

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion

from tests.gateway.api.common import (
    STREAMED_OR_NOT,
    assert_invalid,
    metadata_pairs,
    not_found_body,
    request,
)
from tests.gateway.api.conftest import ModelFactory
from tests.gateway.backend_replies import (
    Call,
    Turn,
    error_events,
    reply_body,
    stream_events,
)
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.scripted_backend import (
    Gate,
    ScriptedBackend,
    json_reply,
    stream_reply,
    truncated_reply,
)
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until

HELLO: Any = [{"role": "user", "content": "Hello"}]
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
TOOL_CALL = Turn("Let me see.", (Call("weather", '{"city": "Oslo"}'),))
# The usage that the scripted backends report.
TOTAL_TOKENS = 12

_OWNERS = itertools.count()


@pytest.fixture
def client(storing_gateway: Gateway) -> Iterator[openai.OpenAI]:
    """Return a client with a new key, whose lists are empty."""
    with sdk_client(storing_gateway, f"sk-{next(_OWNERS)}") as sdk:
        yield sdk


def complete(client: openai.OpenAI, *, streamed: bool, **fields: Any) -> ChatCompletion:
    """Create a stored completion; a stream is assembled by the openai package."""
    fields = {"messages": HELLO, "store": True} | fields
    completions: Any = client.chat.completions
    if not streamed:
        completion: ChatCompletion = completions.create(**fields)
        return completion
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in completions.create(**fields, stream=True):
        state.handle_chunk(chunk)
    return state.get_final_completion()


def post(client: openai.OpenAI, **options: Any) -> httpx.Response:
    """Post a completion request without the openai package."""
    headers = {"authorization": f"Bearer {client.api_key}"}
    url = f"{client.base_url}chat/completions"
    return httpx.post(url, headers=headers, timeout=TIMEOUT_SECONDS, **options)


def list_ids(client: openai.OpenAI, **filters: Any) -> list[str]:
    return [one.id for one in client.chat.completions.list(**filters)]


def content(completion: ChatCompletion) -> Any:
    """Return what does not depend on whether the completion was streamed."""
    choice = completion.choices[0]
    calls: list[Any] = [call.to_dict() for call in choice.message.tool_calls or ()]
    called = [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls
    ]
    return (completion.id, completion.model, choice.finish_reason, choice.message.content, called)


def text(completion: ChatCompletion) -> str | None:
    return completion.choices[0].message.content


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", ["", "streaming-", "unary-"])
def test_completion_is_stored_as_it_was_sent(
    kind: str, dialect: str, *, streamed: bool, client: openai.OpenAI, model_with: ModelFactory
) -> None:
    model = model_with(f"{kind}{dialect}", TOOL_CALL)
    sent = complete(client, streamed=streamed, model=model, tools=TOOLS, metadata={"topic": "tea"})
    stored = client.chat.completions.retrieve(sent.id)
    assert content(stored) == content(sent)
    assert stored.object == "chat.completion"
    assert stored.to_dict()["metadata"] == {"topic": "tea"}
    ChatCompletion.model_validate(stored.to_dict())
    if not streamed:
        assert {**stored.to_dict(), "metadata": None} == {**sent.to_dict(), "metadata": None}
    # The stream of a Chat backend passes through unchanged, here without usage.
    unchanged = streamed and dialect == "chat" and kind != "unary-"
    assert (stored.usage and stored.usage.total_tokens) == (None if unchanged else TOTAL_TOKENS)


def test_deleted_completion_is_gone(client: openai.OpenAI, model_with: ModelFactory) -> None:
    sent = complete(client, streamed=False, model=model_with("chat", Turn("Fine.")))
    assert list_ids(client) == [sent.id]
    deleted = client.chat.completions.delete(sent.id)
    expected = {"id": sent.id, "object": "chat.completion.deleted", "deleted": True}
    assert deleted.to_dict() == expected
    assert list_ids(client) == []
    reply = not_found_body(lambda: client.chat.completions.retrieve(sent.id))
    assert "completion_not_found" in reply


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_completion_of_a_legacy_client_is_stored(
    dialect: str, *, streamed: bool, client: openai.OpenAI, model_with: ModelFactory
) -> None:
    model = model_with(dialect, TOOL_CALL)
    functions: Any = [{"name": "weather", "parameters": {}}]
    fields = {"model": model, "messages": HELLO, "functions": functions, "store": True}
    completions: Any = client.chat.completions
    if streamed:
        *_, sent = completions.create(**fields, stream=True)
    else:
        sent = completions.create(**fields)
    (choice,) = client.chat.completions.retrieve(str(sent.id)).choices
    assert choice.finish_reason == "function_call"
    assert choice.message.content == "Let me see."
    assert choice.message.function_call is not None
    assert choice.message.function_call.arguments == '{"city": "Oslo"}'


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_store_is_no_loss_and_is_sent_only_to_chat_backends(
    dialect: str,
    *,
    streamed: bool,
    client: openai.OpenAI,
    backend: ScriptedBackend,
    model_with: ModelFactory,
) -> None:
    model = model_with(dialect, Turn("Fine."))
    fields = {"model": model, "messages": HELLO, "store": True, "stream": streamed}
    response = post(client, json=fields)
    assert response.status_code == 200
    assert "store" not in response.headers.get("dragoman-loss", "")
    assert backend.received(model)[-1].json()["store"] == (dialect != "responses")


def test_fields_of_a_stream_that_cannot_be_stored_are_reported(
    storing_gateway: Gateway, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    events = stream_events("chat", Turn("Fine."))
    extended = events[-3].replace(b'"finish_reason"', b'"mood":"good","finish_reason"')
    assert extended != events[-3]
    backend.enqueue(model, stream_reply(*events[:-3], extended, *events[-2:]))
    sent = complete(client, streamed=True, model=model)
    assert content(client.chat.completions.retrieve(sent.id)) == content(sent)
    wait_until(
        lambda: any(
            model in line and "in the stored completion" in line for line in storing_gateway.lines
        )
    )


def test_choices_of_a_stream_are_stored_separately(
    client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    one, other = (stream_events("chat", Turn(word), usage=False)[:-1] for word in ("Yes.", "No."))
    second = [frame.replace(b'"index": 0', b'"index": 1') for frame in other]
    mixed = [frame for both in zip(one, second, strict=True) for frame in both]
    backend.enqueue(model, stream_reply(*mixed, b"data: [DONE]\n\n"))
    sent = complete(client, streamed=True, model=model, n=2)
    stored = client.chat.completions.retrieve(sent.id)
    assert [choice.message.content for choice in stored.choices] == ["Yes.", "No."]


@STREAMED_OR_NOT
def test_request_with_a_lone_surrogate_is_stored(
    *, streamed: bool, client: openai.OpenAI, model_with: ModelFactory
) -> None:
    """JavaScript writes one when it cuts a string in the middle of an emoji."""
    model = model_with("chat", Turn("Fine."))
    body = (
        '{"model":"%s","store":true,"stream":%s,"messages":[{"role":"user","content":"\\ud83d"}]}'
    )
    response = post(client, content=body % (model, str(streamed).lower()))
    assert response.status_code == 200
    (completion_id,) = list_ids(client)
    (message,) = client.chat.completions.messages.list(completion_id)
    assert message.content == "\N{REPLACEMENT CHARACTER}"


def test_stream_without_done_is_stored(
    client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(model, stream_reply(*stream_events("chat", Turn("Fine."))[:-1]))
    sent = complete(client, streamed=True, model=model)
    assert content(client.chat.completions.retrieve(sent.id)) == content(sent)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_completion_is_stored_before_the_stream_ends(
    dialect: str, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    """A client that has read `[DONE]` finds the completion, even if the backend stays connected."""
    model = new_model(dialect)
    gate = Gate()
    backend.enqueue(model, stream_reply(*stream_events(dialect, Turn("Fine.")), gate))
    with httpx.stream(
        "POST",
        f"{client.base_url}chat/completions",
        json={"model": model, "messages": HELLO, "store": True, "stream": True},
        headers={"authorization": f"Bearer {client.api_key}"},
        timeout=TIMEOUT_SECONDS,
    ) as response:
        assert "data: [DONE]" in response.iter_lines()
        assert len(list_ids(client)) == 1
        gate.open()


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
def test_failed_completion_is_not_stored(
    dialect: str,
    *,
    streamed: bool,
    client: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    if streamed:
        start = stream_events(dialect, Turn("Half an answer"))[:3]
        backend.enqueue(
            model, stream_reply(*start, *error_events(dialect, "no more")), truncated_reply(*start)
        )
    else:
        error = b'{"error":{"message":"no","type":"x","param":null,"code":null}}'
        backend.enqueue(model, json_reply(error, status=500), json_reply(b"{"))
    for _ in range(2):
        with pytest.raises(openai.APIError):
            complete(client, streamed=streamed, model=model)
    assert list_ids(client) == []


@STREAMED_OR_NOT
def test_completion_is_not_stored_without_store(
    *, streamed: bool, client: openai.OpenAI, model_with: ModelFactory
) -> None:
    model = model_with("responses", *[Turn("Fine.")] * 3)
    for store in (False, None, openai.NOT_GIVEN):
        assert text(complete(client, streamed=streamed, model=model, store=store)) == "Fine."
    assert list_ids(client) == []


def test_repeated_id_returns_the_latest_completion_of_the_owner(
    storing_gateway: Gateway, client: openai.OpenAI, model_with: ModelFactory
) -> None:
    """Some servers give every completion the same id; the scripted one uses `chatcmpl-1`."""
    model = model_with("chat", Turn("One."), Turn("Theirs."), Turn("Two."))
    first = complete(client, streamed=False, model=model, metadata={"turn": "one"})
    with sdk_client(storing_gateway, f"sk-{next(_OWNERS)}") as stranger:
        theirs = complete(stranger, streamed=True, model=model)
        latest = complete(client, streamed=True, model=model)
        assert first.id == theirs.id == latest.id
        assert text(client.chat.completions.retrieve(first.id)) == "Two."
        assert list_ids(client) == [first.id]
        assert list_ids(client, metadata={"turn": "one"}) == []
        client.chat.completions.delete(first.id)
        assert text(stranger.chat.completions.retrieve(first.id)) == "Theirs."


@pytest.mark.parametrize("backend_id", ["null", '"a b/c"', "7", None])
def test_completion_without_a_usable_id_gets_one(
    backend_id: str | None, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    body = msgspec.json.decode(reply_body("chat", Turn("Fine.")))
    body.pop("id")
    if backend_id is not None:
        body["id"] = msgspec.json.decode(backend_id)
    backend.enqueue(model, json_reply(msgspec.json.encode(body)))
    client.chat.completions.create(model=model, messages=HELLO, store=True)
    (stored_id,) = list_ids(client)
    assert stored_id.startswith("chatcmpl-")
    assert text(client.chat.completions.retrieve(stored_id)) == "Fine."


# Lists, metadata, messages


def test_completions_are_filtered_and_paged(
    client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    models = [new_model("chat"), new_model("chat")]
    ids: list[str] = []
    for number in range(6):
        model = models[number % 2]
        body = reply_body("chat", Turn(str(number)))
        backend.enqueue(model, json_reply(body.replace(b"chatcmpl-1", b"chatcmpl-%d" % number)))
        metadata = {"even": str(number % 2 == 0), "third": str(number // 3)}
        ids.append(complete(client, streamed=False, model=model, metadata=metadata).id)
    assert len(set(ids)) == 6
    assert list_ids(client) == ids
    assert list_ids(client, order="desc", limit=4) == ids[::-1]
    assert list_ids(client, model=models[1]) == ids[1::2]
    assert list_ids(client, metadata={"even": "True", "third": "1"}) == [ids[4]]
    assert list_ids(client, metadata={"even": "neither"}) == []
    assert list_ids(client, after=ids[2], limit=2) == ids[3:]
    assert not client.chat.completions.list(limit=6).has_more
    updated = client.chat.completions.update(ids[0], metadata={"even": "neither"})
    assert updated.to_dict()["metadata"] == {"even": "neither"}
    assert text(updated) == "0"
    assert list_ids(client, metadata={"even": "neither"}) == [ids[0]]


def test_messages_of_the_request_are_listed(
    client: openai.OpenAI, model_with: ModelFactory
) -> None:
    model = model_with("chat", Turn("Fine."))
    parts = [
        {"type": "text", "text": "See?"},
        {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}},
    ]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1.0}'}}
    messages: Any = [
        {"role": "system", "content": "Be brief.", "name": "boss"},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
    ]
    completion_id = complete(client, streamed=False, model=model, messages=messages).id
    listed = [*client.chat.completions.messages.list(completion_id, limit=3)]
    assert [one.id for one in listed] == [f"{completion_id}-{index}" for index in range(4)]
    assert [one.role for one in listed] == ["system", "user", "assistant", "tool"]
    assert [one.content for one in listed] == ["Be brief.", None, None, "7"]
    assert [part.to_dict() for part in listed[1].content_parts or ()] == parts
    assert listed[0].content_parts is None
    assert [one.to_dict() for one in listed[2].tool_calls or ()] == [call]
    newest = client.chat.completions.messages.list(completion_id, order="desc", limit=1).data
    assert [one.id for one in newest] == [f"{completion_id}-3"]


# Invalid requests


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"metadata": metadata_pairs(17)}, "metadata"),
        ({"metadata": {"n" * 65: "v"}}, "metadata"),
        ({"metadata": {"n": "v" * 513}}, "metadata.n"),
        ({"metadata": "x"}, "metadata"),
        ({"messages": "x"}, "messages"),
    ],
)
def test_request_that_cannot_be_stored_is_rejected_before_the_backend_is_called(
    storing_gateway: Gateway,
    fields: dict[str, Any],
    param: str,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model("chat")
    body = {"model": model, "messages": HELLO, "store": True} | fields
    assert_invalid(request(storing_gateway, "POST", "/chat/completions", json=body), param)
    assert not backend.received(model)


@pytest.mark.parametrize(
    ("body", "param"),
    [(b"", "metadata"), (b'{"metadata":{"n":1}}', "metadata[...]"), (b'{"x":1}', "x")],
)
def test_invalid_update_names_the_field(storing_gateway: Gateway, body: bytes, param: str) -> None:
    path = "/chat/completions/chatcmpl-none"
    assert_invalid(request(storing_gateway, "POST", path, content=body), param)


@pytest.mark.parametrize("query", ["limit=0", "order=up", "after=none"])
def test_invalid_page_names_the_parameter(storing_gateway: Gateway, query: str) -> None:
    response = request(storing_gateway, "GET", f"/chat/completions?{query}")
    assert_invalid(response, query.partition("=")[0])


def test_missing_completions_are_all_reported_alike(
    storing_gateway: Gateway, client: openai.OpenAI, model_with: ModelFactory
) -> None:
    """Unknown, deleted and foreign completions cannot be told apart."""
    model = model_with("responses", Turn("Fine."), Turn("Gone."))
    foreign = complete(client, streamed=False, model=model).id
    replies: list[list[str]] = []
    with sdk_client(storing_gateway, f"sk-{next(_OWNERS)}") as stranger:
        completions = stranger.chat.completions
        deleted = complete(stranger, streamed=False, model=model).id
        completions.delete(deleted)
        for name in (foreign, deleted, "chatcmpl-unknown"):
            calls: list[Any] = [
                lambda name=name: completions.retrieve(name),
                lambda name=name: completions.update(name, metadata={}),
                lambda name=name: completions.delete(name),
                lambda name=name: completions.messages.list(name),
                lambda name=name: completions.messages.list(name, after="x"),
            ]
            replies.append([not_found_body(call).replace(name, "NAME") for call in calls])
    assert replies[0] == replies[1] == replies[2]
    assert all("completion_not_found" in one for one in replies[0])
    assert list_ids(client) == [foreign]
