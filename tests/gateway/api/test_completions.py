"""Chat completions that are kept, by the real client, over both databases and every backend."""

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion

from tests.gateway.conftest import DIALECTS, Fresh
from tests.gateway.keeping import client_of, says, until
from tests.gateway.process import Gateway
from tests.gateway.scripted import (
    PATIENCE,
    Gate,
    ScriptedBackend,
    answer,
    cut_stream,
    stream,
)
from tests.gateway.speech import Call, Turn, error_frames, frames, whole
from tests.judges.sdk import judge_error

BOTH_WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
HELLO: Any = [{"role": "user", "content": "Hello"}]
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
CALLED = Turn("Let me see.", (Call("weather", '{"city": "Oslo"}'),))
# How many tokens the answer costs, as the scripted backends have it.
COST = 12


_OWNERS = itertools.count()


@pytest.fixture
def client(kept: Gateway) -> Iterator[openai.OpenAI]:
    """Give a client that nobody knows yet: what others have is not in its lists."""
    with client_of(kept, f"sk-{next(_OWNERS)}") as sdk:
        yield sdk


def complete(client: openai.OpenAI, *, streamed: bool, **asked: Any) -> ChatCompletion:
    """Ask for a completion; of a stream, give what the real client makes of it."""
    asked = {"messages": HELLO, "store": True} | asked
    completions: Any = client.chat.completions
    if not streamed:
        made: ChatCompletion = completions.create(**asked)
        return made
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in completions.create(**asked, stream=True):
        state.handle_chunk(chunk)
    return state.get_final_completion()


def listed(client: openai.OpenAI, **asked: Any) -> list[str]:
    return [one.id for one in client.chat.completions.list(**asked)]


def told(completion: ChatCompletion) -> Any:
    """Give what of a completion does not depend on how it was sent."""
    choice = completion.choices[0]
    calls: list[Any] = [call.to_dict() for call in choice.message.tool_calls or ()]
    called = [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls
    ]
    return (completion.id, completion.model, choice.finish_reason, choice.message.content, called)


@BOTH_WAYS
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_completion_is_kept_as_it_was_told(
    dialect: str, *, streamed: bool, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    says(backend, dialect, model, CALLED)
    made = complete(client, streamed=streamed, model=model, tools=TOOLS, metadata={"topic": "tea"})
    shown = client.chat.completions.retrieve(made.id)
    assert told(shown) == told(made)
    assert shown.object == "chat.completion"
    assert shown.to_dict()["metadata"] == {"topic": "tea"}
    ChatCompletion.model_validate(shown.to_dict())
    if not streamed:
        assert {**shown.to_dict(), "metadata": None} == {**made.to_dict(), "metadata": None}
    elif dialect != "chat":
        # A backend of one's own kind is asked as the client asks, and was not asked for the cost.
        assert (shown.usage and shown.usage.total_tokens) == COST
    assert listed(client) == [made.id]
    gone = client.chat.completions.delete(made.id)
    assert (gone.id, gone.object, gone.deleted) == (made.id, "chat.completion.deleted", True)
    assert listed(client) == []
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.retrieve(made.id)
    assert caught.value.code == "completion_not_found"


@BOTH_WAYS
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", ["streaming", "unary"])
def test_it_does_not_matter_how_the_backend_answers(
    kind: str,
    dialect: str,
    *,
    streamed: bool,
    client: openai.OpenAI,
    backend: ScriptedBackend,
    fresh: Fresh,
) -> None:
    model = fresh(f"{kind}-{dialect}")
    says(backend, dialect, model, CALLED)
    made = complete(client, streamed=streamed, model=model, tools=TOOLS)
    assert bool(backend.received(model)[0].json().get("stream")) == (kind == "streaming")
    shown = client.chat.completions.retrieve(made.id)
    assert told(shown) == told(made)
    # The stream of a backend of one's own kind passes as it is, here without the cost.
    passes = streamed and kind == "streaming" and dialect == "chat"
    assert (shown.usage and shown.usage.total_tokens) == (None if passes else COST)


@BOTH_WAYS
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_legacy_client_has_its_completions_kept_too(
    dialect: str, *, streamed: bool, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    says(backend, dialect, model, CALLED)
    functions: Any = [{"name": "weather", "parameters": {}}]
    asked = {"model": model, "messages": HELLO, "functions": functions, "store": True}
    completions: Any = client.chat.completions
    if streamed:
        *_, made = completions.create(**asked, stream=True)
    else:
        made = completions.create(**asked)
    name: str = made.id
    (choice,) = client.chat.completions.retrieve(name).choices
    assert choice.finish_reason == "function_call"
    assert choice.message.content == "Let me see."
    assert choice.message.function_call is not None
    assert choice.message.function_call.arguments == '{"city": "Oslo"}'


@BOTH_WAYS
@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_is_lost_and_nobody_else_is_made_to_keep_it(
    dialect: str, *, streamed: bool, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    says(backend, dialect, model, Turn("Fine."))
    asked = {"model": model, "messages": HELLO, "store": True, "stream": streamed}
    answered = httpx.post(
        f"{client.base_url}chat/completions",
        json=asked,
        headers={"authorization": f"Bearer {client.api_key}"},
    )
    assert answered.status_code == 200
    assert "store" not in answered.headers.get("dragoman-loss", "")
    sent = backend.received(model)[-1].json()
    # Servers of the client's own family hear what it says.
    assert sent["store"] == (dialect != "responses")


def test_what_of_a_stream_cannot_be_kept_is_reported(
    kept: Gateway, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    said = frames("chat", Turn("Fine."))
    strange = said[-3].replace(b'"finish_reason"', b'"mood":"good","finish_reason"')
    assert strange != said[-3]
    backend.play(model, stream(*said[:-3], strange, *said[-2:]))
    made = complete(client, streamed=True, model=model)
    assert told(client.chat.completions.retrieve(made.id)) == told(made)
    until(lambda: any(model in line and "that is kept" in line for line in kept.lines))


def test_the_streams_of_several_choices_are_kept_apart(
    client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    one, other = (frames("chat", Turn(text), usage=False)[:-1] for text in ("Yes.", "No."))
    second = [frame.replace(b'"index": 0', b'"index": 1') for frame in other]
    mixed = [frame for both in zip(one, second, strict=True) for frame in both]
    backend.play(model, stream(*mixed, b"data: [DONE]\n\n"))
    made = complete(client, streamed=True, model=model, n=2)
    shown = client.chat.completions.retrieve(made.id)
    assert [choice.message.content for choice in shown.choices] == ["Yes.", "No."]


@BOTH_WAYS
def test_half_a_character_does_not_keep_it_from_being_kept(
    *, streamed: bool, kept: Gateway, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    """JavaScript writes such a thing when it cuts a string in an emoji."""
    model = fresh("chat")
    says(backend, "chat", model, Turn("Fine."))
    said = (
        '{"model":"%s","store":true,"stream":%s,"messages":[{"role":"user","content":"\\ud83d"}]}'
    )
    answered = httpx.post(
        f"{kept.url}/chat/completions",
        content=said % (model, str(streamed).lower()),
        headers={"authorization": f"Bearer {client.api_key}"},
    )
    assert answered.status_code == 200
    (name,) = listed(client)
    (shown,) = client.chat.completions.messages.list(name)
    assert shown.content == "\N{REPLACEMENT CHARACTER}"


def test_a_stream_that_ends_without_a_last_word_is_kept(
    client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    backend.play(model, stream(*frames("chat", Turn("Fine."))[:-1]))
    made = complete(client, streamed=True, model=model)
    assert told(client.chat.completions.retrieve(made.id)) == told(made)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_completion_is_kept_before_its_end_is_told(
    dialect: str, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    """Whoever has read the last of a stream finds it kept, though its backend says no more."""
    model = fresh(dialect)
    gate = Gate()
    backend.play(model, stream(*frames(dialect, Turn("Fine.")), gate))
    asked = {"model": model, "messages": HELLO, "store": True, "stream": True}
    with httpx.stream(
        "POST",
        f"{client.base_url}chat/completions",
        json=asked,
        headers={"authorization": f"Bearer {client.api_key}"},
        timeout=PATIENCE,
    ) as answered:
        assert "data: [DONE]" in answered.iter_lines()
        assert len(listed(client)) == 1
        gate.open()


@BOTH_WAYS
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_fails_is_not_kept(
    dialect: str, *, streamed: bool, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    if streamed:
        begun = frames(dialect, Turn("Half an answer"))[:3]
        backend.play(model, stream(*begun, *error_frames(dialect, "no more")), cut_stream(*begun))
    else:
        wrong = b'{"error":{"message":"no","type":"x","param":null,"code":null}}'
        backend.play(model, answer(wrong, status=500), answer(b"{"))
    for _ in range(2):
        with pytest.raises(openai.APIError):
            complete(client, streamed=streamed, model=model)
    assert listed(client) == []


@BOTH_WAYS
def test_nothing_is_kept_unasked(
    *, streamed: bool, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("responses")
    says(backend, "responses", model, *[Turn("Fine.")] * 3)
    for store in (False, None, openai.NOT_GIVEN):
        made = complete(client, streamed=streamed, model=model, store=store)
        assert made.choices[0].message.content == "Fine."
    assert listed(client) == []


def test_an_id_that_is_repeated_leads_to_the_latest_of_its_owner(
    kept: Gateway, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    """Some servers call every answer alike (as this one does: `chatcmpl-1`)."""
    model = fresh("chat")
    says(backend, "chat", model, Turn("One."), Turn("Theirs."), Turn("Two."))
    first = complete(client, streamed=False, model=model, metadata={"turn": "one"})
    with client_of(kept, f"sk-{next(_OWNERS)}") as stranger:
        theirs = complete(stranger, streamed=True, model=model)
        latest = complete(client, streamed=True, model=model)
        assert first.id == theirs.id == latest.id
        shown = client.chat.completions.retrieve(first.id)
        assert shown.choices[0].message.content == "Two."
        assert listed(client) == [first.id]
        assert listed(client, metadata={"turn": "one"}) == []
        client.chat.completions.delete(first.id)
        assert told(stranger.chat.completions.retrieve(first.id))[3] == "Theirs."


@pytest.mark.parametrize("name", ["null", '"a b/c"', "7", None])
def test_an_answer_without_a_name_gets_one_in_the_list(
    name: str | None, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    plain = msgspec.json.decode(whole("chat", Turn("Fine.")))
    plain.pop("id")
    if name is not None:
        plain["id"] = msgspec.json.decode(name)
    backend.play(model, answer(msgspec.json.encode(plain)))
    client.chat.completions.create(model=model, messages=HELLO, store=True)
    (found,) = listed(client)
    assert found.startswith("chatcmpl-")
    assert told(client.chat.completions.retrieve(found))[3] == "Fine."


# Lists, metadata, messages


def test_lists_are_filtered_and_paged(
    client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    models = [fresh("chat"), fresh("chat")]
    made: list[str] = []
    for number in range(6):
        model = models[number % 2]
        body = whole("chat", Turn(str(number)))
        backend.play(model, answer(body.replace(b"chatcmpl-1", b"chatcmpl-%d" % number)))
        metadata = {"even": str(number % 2 == 0), "third": str(number // 3)}
        made.append(complete(client, streamed=False, model=model, metadata=metadata).id)
    assert len(set(made)) == 6
    assert listed(client) == made
    assert listed(client, order="desc", limit=4) == made[::-1]
    assert listed(client, model=models[1]) == made[1::2]
    assert listed(client, metadata={"even": "True", "third": "1"}) == [made[4]]
    assert listed(client, metadata={"even": "neither"}) == []
    assert listed(client, after=made[2], limit=2) == made[3:]
    page = client.chat.completions.list(limit=6)
    assert not page.has_more
    changed = client.chat.completions.update(made[0], metadata={"even": "neither"})
    assert changed.to_dict()["metadata"] == {"even": "neither"}
    assert told(changed)[3] == "0"
    assert listed(client, metadata={"even": "neither"}) == [made[0]]


def test_the_messages_of_a_request_are_shown(
    client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    says(backend, "chat", model, Turn("Fine."))
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
    name = complete(client, streamed=False, model=model, messages=messages).id
    shown = [*client.chat.completions.messages.list(name, limit=3)]
    assert [one.id for one in shown] == [f"{name}-{place}" for place in range(4)]
    assert [one.role for one in shown] == ["system", "user", "assistant", "tool"]
    assert [one.content for one in shown] == ["Be brief.", None, None, "7"]
    assert [part.to_dict() for part in shown[1].content_parts or ()] == parts
    assert shown[0].content_parts is None
    assert [one.to_dict() for one in shown[2].tool_calls or ()] == [call]
    newest = client.chat.completions.messages.list(name, order="desc", limit=1).data
    assert [one.id for one in newest] == [f"{name}-3"]


def pairs(count: int) -> dict[str, str]:
    return {f"name{number}": "value" for number in range(count)}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"metadata": pairs(17)}, "metadata"),
        ({"metadata": {"n" * 65: "v"}}, "metadata"),
        ({"metadata": {"n": "v" * 513}}, "metadata.n"),
        ({"metadata": "x"}, "metadata"),
        ({"messages": "x"}, "messages"),
    ],
)
def test_what_could_not_be_kept_is_refused_before_it_is_asked(
    kept: Gateway,
    asked: dict[str, Any],
    param: str,
    backend: ScriptedBackend,
    fresh: Fresh,
) -> None:
    model = fresh("chat")
    body = {"model": model, "messages": HELLO, "store": True} | asked
    refused = httpx.post(f"{kept.url}/chat/completions", json=body)
    assert refused.status_code == 400
    judge_error(refused.content)
    assert refused.json()["error"]["param"] == param
    assert not backend.received(model)


@pytest.mark.parametrize(
    ("body", "param"),
    [(b"", "metadata"), (b'{"metadata":{"n":1}}', "metadata[...]"), (b'{"x":1}', "x")],
)
def test_what_is_wrong_with_a_change_is_named(kept: Gateway, body: bytes, param: str) -> None:
    refused = httpx.post(f"{kept.url}/chat/completions/chatcmpl-none", content=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == param


@pytest.mark.parametrize("query", ["limit=0", "order=up", "after=none"])
def test_a_part_that_cannot_be_is_refused(kept: Gateway, query: str) -> None:
    refused = httpx.get(f"{kept.url}/chat/completions?{query}")
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == query.partition("=")[0]


def test_what_is_not_there_is_told_alike(
    kept: Gateway, client: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("responses")
    says(backend, "responses", model, Turn("Fine."), Turn("Gone."))
    foreign = complete(client, streamed=False, model=model).id
    told: list[list[str]] = []
    with client_of(kept, f"sk-{next(_OWNERS)}") as stranger:
        deleted = complete(stranger, streamed=False, model=model).id
        stranger.chat.completions.delete(deleted)
        for name in (foreign, deleted, "chatcmpl-unknown"):
            completions = stranger.chat.completions
            attempts: list[Any] = [
                lambda name=name, it=completions: it.retrieve(name),
                lambda name=name, it=completions: it.update(name, metadata={}),
                lambda name=name, it=completions: it.delete(name),
                lambda name=name, it=completions: it.messages.list(name),
                lambda name=name, it=completions: it.messages.list(name, after="x"),
            ]
            told.append([refusal(attempt).replace(name, "NAME") for attempt in attempts])
    assert told[0] == told[1] == told[2]
    assert all("completion_not_found" in one for one in told[0])
    assert listed(client) == [foreign]


def refusal(attempt: Any) -> str:
    with pytest.raises(openai.NotFoundError) as caught:
        attempt()
    return caught.value.response.text
