"""Several choices from a backend that gives one: a request for each, and one reply."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionUserMessageParam

from gateway.pytest_plugin.scripted_backend import (
    ConnectionEnd,
    Gate,
    Script,
    ScriptedBackend,
    json_reply,
    stream_reply,
    truncated_reply,
)
from tests.gateway import raw_http
from tests.gateway.addresses import refusing_address
from tests.gateway.backend_replies import Call, Turn, error_events, reply_body, stream_events
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import STREAMED_OR_NOT, backend_table, capability_table
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.judges import sdk as judge
from tests.judges.reading import objects_in

TURNS = (Turn("One two three."), Turn("Four five six."), Turn("Seven."))
TEXTS = sorted(str(turn.text) for turn in TURNS)
MESSAGES: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hi"}]
ONE_CHOICE = capability_table('unsupported_fields = ["n"]')


@pytest.fixture(scope="module")
def node(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway with backends that give one choice, one of them not reachable."""
    address = backend.address
    retries = "retries = { max_retries = 2, initial_backoff = 0.02, status_codes = [503] }\n"
    with refusing_address() as refusing:
        config = (
            backend_table(address, "responses", "responses", retries)
            + backend_table(address, "chat", "chat", ONE_CHOICE)
            + backend_table(address, "legacy", "legacy", ONE_CHOICE)
            + backend_table(address, "plain-chat", "chat")
            + backend_table(address, "few-responses", "responses", "max_choices = 2\n")
            + backend_table(address, "off-responses", "responses", "max_choices = 1\n")
            + backend_table(address, "off-chat", "chat", "max_choices = 1\n")
            + backend_table(refusing, "down-responses", "responses", "retries.max_retries = 0\n")
            + backend_table(address, "up-responses", "responses").replace("up-responses-*", "down*")
        )
        with run_harness(backend, config, tmp_path_factory.mktemp("choices")) as harness:
            yield harness


def whole(dialect: str, turns: Sequence[Turn] = TURNS) -> list[Script]:
    return [json_reply(reply_body(dialect, turn)) for turn in turns]


def streams(dialect: str, turns: Sequence[Turn] = TURNS) -> list[Script]:
    return [stream_reply(*stream_events(dialect, turn)) for turn in turns]


def read_chunks(body: bytes) -> list[ChatCompletionChunk]:
    """Return the chunks of a stream, which must be valid."""
    judge.judge_chat_stream(body)
    assert body.count(b"data: [DONE]") == 1
    events = (event.removeprefix(b"data: ") for event in body.split(b"\n\n"))
    return [
        ChatCompletionChunk.model_validate_json(event) for event in events if event.startswith(b"{")
    ]


def stream_texts(body: bytes) -> dict[int, str]:
    """Return the text of each choice, or the arguments of its call."""
    texts: defaultdict[int, str] = defaultdict(str)
    for choice in (choice for chunk in read_chunks(body) for choice in chunk.choices):
        call = choice.delta.function_call
        arguments = None if call is None else call.arguments
        texts[choice.index] += choice.delta.content or arguments or ""
    return texts


def finish_reasons(body: bytes) -> list[tuple[int, str]]:
    choices = [choice for chunk in read_chunks(body) for choice in chunk.choices]
    return [(one.index, one.finish_reason) for one in choices if one.finish_reason is not None]


def completion(reply: raw_http.RawResponse) -> ChatCompletion:
    assert reply.status == 200
    return ChatCompletion.model_validate_json(reply.body)


def texts_of(reply: ChatCompletion) -> list[str]:
    """Return the texts in the order of the alphabet: any request may be the first."""
    return sorted(choice.message.content or "" for choice in reply.choices)


def wait_until_cancelled(node: Harness, model: str, count: int) -> None:
    """Wait until the connections of this many requests are closed."""
    wait_until(lambda: sum(one.closed.is_set() for one in node.backend.received(model)) >= count)


def all_closed(node: Harness, model: str, count: int) -> bool:
    node.backend.wait_for_request(model, count)
    received = node.backend.received(model)
    return all(request.closed.wait(TIMEOUT_SECONDS) for request in received)


# Replies


@pytest.mark.parametrize("dialect", ["responses", "chat"])
@STREAMED_OR_NOT
def test_choices_are_requested_one_by_one(dialect: str, node: Harness, *, streamed: bool) -> None:
    scripts = streams(dialect) if streamed else whole(dialect)
    model = node.enqueue(dialect, *scripts)
    if streamed:
        options = {"include_usage": True}
        with node.stream("chat", model, n=3, stream_options=options) as response:
            body, headers = response.read_all(), response.headers
        assert sorted(stream_texts(body).values()) == TEXTS
        assert finish_reasons(body) == [(0, "stop"), (1, "stop"), (2, "stop")]
        chunks = read_chunks(body)
        assert len({chunk.id for chunk in chunks}) == 1
        assert all(chunk.usage is None for chunk in chunks[:-1])
        usage = chunks[-1].usage
    else:
        reply = node.request("chat", model, n=3)
        assert texts_of(completion(reply)) == TEXTS
        assert [choice.index for choice in completion(reply).choices] == [0, 1, 2]
        usage, headers = completion(reply).usage, reply.headers
    assert usage is not None
    assert usage.total_tokens == 36
    assert 'changed;path="n";severity=hint' in headers["dragoman-loss"]
    sent = [received.json() for received in node.backend.received(model)]
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]
    assert "n" not in sent[0]


@STREAMED_OR_NOT
def test_sdk_reads_all_choices(node: Harness, *, streamed: bool) -> None:
    scripts = streams("responses") if streamed else whole("responses")
    model = node.enqueue("responses", *scripts)
    completions = node.sdk.chat.completions
    if streamed:
        with completions.stream(model=model, messages=MESSAGES, n=3) as stream:
            assert texts_of(stream.get_final_completion()) == TEXTS
    else:
        assert texts_of(completions.create(model=model, messages=MESSAGES, n=3)) == TEXTS


@STREAMED_OR_NOT
def test_legacy_client_gets_the_call_of_each_choice(node: Harness, *, streamed: bool) -> None:
    turns = [Turn(calls=(Call("get_weather", f'{{"city":"{city}"}}'),)) for city in ("A", "B")]
    scripts = streams("responses", turns) if streamed else whole("responses", turns)
    model = node.enqueue("responses", *scripts)
    if streamed:
        with node.stream("legacy", model, n=2) as response:
            values = [*stream_texts(response.read_all()).values()]
    else:
        choices = completion(node.request("legacy", model, n=2)).choices
        calls = [choice.message.function_call for choice in choices]
        values = [call.arguments for call in calls if call is not None]
    assert sorted(values) == ['{"city":"A"}', '{"city":"B"}']


def test_choices_are_streamed_side_by_side(node: Harness) -> None:
    gate, scripts = Gate(), list[Script]()
    for turn in TURNS[:2]:
        events = stream_events("responses", turn)
        first = next(number for number, event in enumerate(events, 1) if b"text.delta" in event)
        scripts.append(stream_reply(*events[:first], gate, *events[first:]))
    model = node.enqueue("responses", *scripts)
    with node.stream("chat", model, n=2) as response:
        # Both begin before either of them ends.
        start = response.read_until(b'"delta":{"content":', 2)
        gate.open()
        texts = stream_texts(start + response.read_all())
    assert b'"index":0,"delta":{"content":' in start
    assert b'"index":1,"delta":{"content":' in start
    assert sorted(texts.values()) == sorted(str(turn.text) for turn in TURNS[:2])


def test_first_choice_is_streamed_while_the_others_wait(node: Harness) -> None:
    gate, (first, second, _) = Gate(), streams("responses")
    model = node.enqueue("responses", first, (gate, *second))
    with node.stream("chat", model, n=2) as response:
        start = response.read_until(b"three")
        gate.open()
        texts = stream_texts(start + response.read_all())
    assert sorted(texts.values()) == sorted(str(turn.text) for turn in TURNS[:2])


def test_whole_replies_for_a_streaming_client(node: Harness) -> None:
    model = node.enqueue("responses", *whole("responses")[:1], *streams("responses")[1:])
    with node.stream("chat", model, n=3) as response:
        assert sorted(stream_texts(response.read_all()).values()) == TEXTS
    model = node.enqueue("responses", *whole("responses")[:1], *streams("responses")[1:])
    assert texts_of(completion(node.request("chat", model, n=3))) == TEXTS


def test_each_choice_is_cut_at_the_stop_sequence(node: Harness) -> None:
    scripts = [
        stream_reply(*stream_events("responses", turn)[:-4], Gate())
        for turn in (Turn("One END two END three"), Turn("Four END five END six"))
    ]
    model = node.enqueue("responses", *scripts)
    with node.stream("chat", model, n=2, stop="END") as response:
        body = response.read_all()
    assert sorted(stream_texts(body).values()) == ["Four ", "One "]
    assert finish_reasons(body) == [(0, "stop"), (1, "stop")]
    assert all_closed(node, model, 2)


def test_seeds_differ(node: Harness) -> None:
    model = node.enqueue("chat", *whole("chat"))
    reply = node.request("chat", model, n=3, seed=7)
    assert 'changed;path="seed"' in reply.headers["dragoman-loss"]
    assert {received.json()["seed"] for received in node.backend.received(model)} == {7, 8, 9}


def test_stored_completion_has_all_choices(node: Harness) -> None:
    for scripts, streamed in ((whole("responses"), False), (streams("responses"), True)):
        model = node.enqueue("responses", *scripts)
        node.request("chat", model, n=3, store=True, streamed=streamed)
        path = f"/v1/chat/completions?model={model}"
        (stored,) = objects_in(node.get(path).json(), "data")
        assert texts_of(ChatCompletion.model_validate(stored)) == TEXTS


# Which requests are repeated


def test_other_requests_are_sent_once(node: Harness) -> None:
    model = node.enqueue("responses", *whole("responses")[:2])
    assert len(completion(node.request("chat", model, n=1)).choices) == 1
    assert len(completion(node.request("chat", model)).choices) == 1
    assert len(node.backend.received(model)) == 2
    model = node.enqueue("plain-chat", *whole("chat")[:1])
    node.request("chat", model, n=3)
    assert node.sent_json(model)["n"] == 3


def test_number_of_choices_is_limited(node: Harness) -> None:
    for name, count in (("responses", 9), ("few-responses", 3), ("off-responses", 2)):
        reply = node.request("chat", node.new_model(name), n=count)
        assert reply.status == 400
        assert reply.error["param"] == "n"
    model = node.enqueue("few-responses", *whole("responses")[:2])
    assert len(completion(node.request("chat", model, n=2)).choices) == 2


def refusal(message: str, status: int = 400) -> Script:
    return json_reply(json.dumps({"error": {"message": message}}).encode(), status=status)


def test_refused_field_is_replaced_by_several_requests(node: Harness) -> None:
    model = node.enqueue("plain-chat", refusal("Unknown parameter: 'n'."), *whole("chat"))
    assert texts_of(completion(node.request("chat", model, n=3))) == TEXTS
    assert len(node.backend.received(model)) == 4
    model = node.enqueue("off-chat", refusal("Unknown parameter: 'n'."))
    assert node.request("chat", model, n=3).status == 400


# Failures


@STREAMED_OR_NOT
def test_error_of_one_request_fails_all(node: Harness, *, streamed: bool) -> None:
    waiting: Script = (*streams("responses")[0][:1], Gate()) if streamed else (Gate(),)
    model = node.enqueue("responses", waiting, refusal("slow down", 429), waiting)
    reply = node.request("chat", model, n=3, streamed=streamed)
    assert reply.status == 429
    assert reply.error["message"] == "slow down"
    wait_until_cancelled(node, model, 2)


@STREAMED_OR_NOT
def test_truncated_reply_fails_all(node: Harness, *, streamed: bool) -> None:
    events = stream_events("responses", TURNS[0])
    if streamed:
        broken = truncated_reply(*events[:6])
        waiting = stream_reply(*events[:6], Gate())
    else:
        head, *_ = whole("responses")[0]
        assert isinstance(head, bytes)
        broken, waiting = (head[:-20], ConnectionEnd.CLOSE), (head[:-20], Gate())
    model = node.enqueue("responses", broken, waiting)
    reply = node.request("chat", model, n=2, streamed=streamed)
    if streamed:
        assert reply.body.endswith(b"data: [DONE]\n\n")
        assert b'"error"' in reply.body
    else:
        assert reply.status == 502
    assert all_closed(node, model, 2)


def test_error_in_one_stream_fails_all(node: Harness) -> None:
    events = stream_events("responses", TURNS[0])
    failing = stream_reply(*events[:6], *error_events("responses", "out of memory"))
    model = node.enqueue("responses", failing, stream_reply(*events[:6], Gate()))
    reply = node.request("chat", model, n=2, streamed=True)
    assert b"out of memory" in reply.body
    assert b'"finish_reason":"stop"' not in reply.body
    wait_until_cancelled(node, model, 1)


def test_requests_are_retried_and_fail_over(node: Harness) -> None:
    overloaded = refusal("overloaded", 503)
    model = node.enqueue("responses", overloaded, overloaded, *whole("responses"))
    assert texts_of(completion(node.request("chat", model, n=3))) == TEXTS
    assert len(node.backend.received(model)) == 5
    model = node.enqueue("down-responses", *whole("responses"))
    assert texts_of(completion(node.request("chat", model, n=3))) == TEXTS


@pytest.mark.parametrize("begun", [False, True])
def test_disconnect_of_the_client_cancels_all(node: Harness, *, begun: bool) -> None:
    events = stream_events("responses", TURNS[0])
    script = stream_reply(*events[:6], Gate()) if begun else (Gate(),)
    model = node.enqueue("responses", script, script, (Gate(),))
    body = {"model": model, "messages": MESSAGES, "stream": True, "n": 3}
    connection = raw_http.connect(node.gateway.port)
    connection.sendall(raw_http.request_bytes("/v1/chat/completions", body))
    node.backend.wait_for_request(model, 3)
    if begun:
        assert connection.recv(1)
    connection.close()
    assert all_closed(node, model, 3)


def test_connections_of_complete_replies_are_kept(node: Harness) -> None:
    count = node.backend.connection_count
    for _ in range(3):
        model = node.enqueue("responses", *streams("responses")[:2])
        node.request("chat", model, n=2, streamed=True)
    assert node.backend.connection_count - count <= 2


def test_each_request_has_an_idempotency_key_of_its_own(node: Harness) -> None:
    model = node.enqueue("responses", *whole("responses"))
    response = node.request("chat", model, {"Idempotency-Key": "key"}, n=3)
    assert response.status == 200
    keys = [received.headers["idempotency-key"] for received in node.backend.received(model)]
    assert sorted(keys) == ["key", "key-2", "key-3"]
