"""The replies to equal requests, as the choices of one reply."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

import adapters
from adapters.translation.choices import ChoicesTranslator, choice_bodies
from tests.adapters.text_tools.test_scanner import cut_up
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject
from tests.judges.samples import encoded

TURNS = (Turn("Grüezi, one."), Turn("Two."), Turn("Three: ☃", (Call("f", '{"a":1}'),)))
CLIENTS = ("chat", "legacy")
BACKENDS = ("chat", "responses", "legacy")
POSITIONS = st.lists(st.integers(0, 5000), max_size=12)


def plan(
    client: str, backend: str, *, streamed: bool = False, keep_reply: bool = False, **fields: object
) -> adapters.BackendRequest:
    messages = [{"role": "user", "content": "hi"}]
    function: JsonObject = {"name": "f", "parameters": {"type": "object"}}
    tools: JsonObject = {"tools": [{"type": "function", "function": function}]}
    if client == "legacy":
        tools = {"functions": [function]}
    usage = {"stream_options": {"include_usage": True}} if streamed else {}
    body = {"model": "m", "n": 3, "messages": messages, "stream": streamed, **tools, **usage}
    options = adapters.TranslationOptions(
        adapters.get_dialect(client),
        adapters.get_dialect(backend),
        adapters.deterministic_ids(),
        adapters.Capabilities(unsupported_fields=("n",)),
        rewrite=True,
        keep_reply=keep_reply,
        max_choices=3,
    )
    parsed = adapters.parse_body(encoded({**body, **fields}))
    return adapters.write_backend_request(adapters.read_client_request(parsed, options))


def feed(translator: ChoicesTranslator, pieces: Sequence[tuple[int, bytes]]) -> bytes:
    """Feed pieces of the replies, each to its choice; return what can be sent before the end."""
    sent = b""
    for choice, data in pieces:
        translator.select(choice)
        sent += translator.feed(data)
    return sent


def one_after_another(bodies: Sequence[bytes]) -> list[tuple[int, bytes]]:
    pieces = enumerate(bodies)
    return [piece for number, body in pieces for piece in ((number, body), (number, b""))]


def read_stream(stream: bytes) -> list[tuple[str, str, str | None]]:
    """Return the text, the arguments and the finish reason of each choice."""
    judge.judge_chat_stream(stream)
    choices: dict[int, tuple[str, str, str | None]] = {}
    events = (event.removeprefix(b"data: ") for event in stream.split(b"\n\n"))
    for event in events:
        if not event.startswith(b"{"):
            continue
        for one in ChatCompletionChunk.model_validate_json(event).choices:
            text, arguments, finish = choices.get(one.index, ("", "", None))
            calls = [call.function for call in one.delta.tool_calls or () if call.function]
            calls_text = "".join(call.arguments or "" for call in calls)
            if one.delta.function_call is not None:
                calls_text += one.delta.function_call.arguments or ""
            choices[one.index] = (
                text + (one.delta.content or ""),
                arguments + calls_text,
                one.finish_reason or finish,
            )
    return [choices[number] for number in sorted(choices)]


def read_whole(body: bytes) -> list[tuple[str, str, str | None]]:
    found: list[tuple[str, str, str | None]] = []
    for choice in ChatCompletion.model_validate_json(body).choices:
        calls = [call for call in choice.message.tool_calls or () if call.type == "function"]
        arguments = "".join(call.function.arguments for call in calls)
        if choice.message.function_call is not None:
            arguments += choice.message.function_call.arguments
        found.append((choice.message.content or "", arguments, choice.finish_reason))
    return found


def expected(client: str) -> list[tuple[str, str, str | None]]:
    finish = "function_call" if client == "legacy" else "tool_calls"
    first, second, third = (str(turn.text) for turn in TURNS)
    return [(first, "", "stop"), (second, "", "stop"), (third, '{"a":1}', finish)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_whole_replies_become_choices(client: str, backend: str) -> None:
    sent = plan(client, backend)
    assert sent.reply_plan.requests == 3
    assert [loss.path for loss in sent.losses if loss.path == "n"] == ["n"]
    translator = ChoicesTranslator(sent.reply_plan)
    pieces = one_after_another([reply_body(backend, turn) for turn in TURNS])
    assert feed(translator, pieces) == b""
    assert translator.finished
    end = translator.finish()
    assert read_whole(end.body) == expected(client)
    assert end.usage is not None
    assert end.usage.total_tokens == 36
    assert end.client_reply is not None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("client", CLIENTS)
@given(positions=POSITIONS, order=st.lists(st.integers(0, 2), max_size=60))
def test_replies_may_arrive_in_any_order_and_pieces(
    client: str, backend: str, positions: list[int], order: list[int]
) -> None:
    sent = plan(client, backend, streamed=True)
    waiting = [
        [*(piece for piece in cut_bytes(b"".join(stream_events(backend, turn)), positions)), b""]
        for turn in TURNS
    ]
    # The rest of the replies follows in the order of the choices.
    numbers = [*order, *(number for number, rest in enumerate(waiting) for _ in rest)]
    pieces = [(number, waiting[number].pop(0)) for number in numbers if waiting[number]]
    translator = ChoicesTranslator(sent.reply_plan)
    for number in range(3):
        translator.select(number)
        translator.expect_stream()
    stream = feed(translator, pieces)
    assert translator.finished
    end = translator.finish(started=True)
    assert read_stream(stream + end.body) == expected(client)
    assert adapters.check(client, stream + end.body) == []
    assert end.usage is not None
    assert end.usage.total_tokens == 36


def cut_bytes(data: bytes, positions: Sequence[int]) -> list[bytes]:
    return [piece.encode("latin-1") for piece in cut_up(data.decode("latin-1"), positions)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_forms_of_the_replies_may_differ(backend: str) -> None:
    for streamed in (False, True):
        translator = ChoicesTranslator(plan("chat", backend, streamed=streamed).reply_plan)
        bodies = [reply_body(backend, TURNS[0])]
        bodies += [b"".join(stream_events(backend, turn)) for turn in TURNS[1:]]
        stream = feed(translator, one_after_another(bodies))
        end = translator.finish(started=True)
        read = read_stream(stream + end.body) if streamed else read_whole(end.body)
        assert read == expected("chat")


def test_kept_reply_has_all_choices() -> None:
    sent = plan("chat", "responses", streamed=True, keep_reply=True)
    translator = ChoicesTranslator(sent.reply_plan)
    bodies = [b"".join(stream_events("responses", turn)) for turn in TURNS]
    feed(translator, one_after_another(bodies))
    end = translator.finish(started=True)
    assert end.client_reply is not None
    assert read_whole(encoded(dict(end.client_reply))) == expected("chat")


def test_choices_that_a_backend_divides_are_merged() -> None:
    message = {"role": "assistant", "content": "One."}
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    calls = {"role": "assistant", "content": None, "tool_calls": [call]}
    choices = [
        {"index": 0, "message": message, "finish_reason": "stop"},
        {"index": 1, "message": calls, "finish_reason": "tool_calls"},
    ]
    divided = encoded({"id": "c", "created": 1, "model": "m", "choices": choices})
    bodies = [divided, *(reply_body("chat", turn) for turn in TURNS[1:])]
    for streamed in (False, True):
        translator = ChoicesTranslator(plan("chat", "chat", streamed=streamed).reply_plan)
        stream = feed(translator, one_after_another(bodies))
        end = translator.finish(started=streamed)
        read = read_stream(stream + end.body) if streamed else read_whole(end.body)
        assert read == [("One.", "{}", "tool_calls"), *expected("chat")[1:]]
        # One of the replies has no usage.
        assert end.usage is None


# Failures


def test_first_failure_is_the_end_of_the_reply() -> None:
    translator = ChoicesTranslator(plan("chat", "responses", streamed=True).reply_plan)
    first, second, third = (stream_events("responses", turn) for turn in TURNS)
    pieces = [(0, b"".join(first)), (0, b""), (1, b"".join(second[:5])), (1, b"")]
    stream = feed(translator, pieces)
    assert translator.finished
    assert feed(translator, [(2, b"".join(third)), (2, b"")]) == b""
    end = translator.finish(started=True)
    assert end.error is not None
    assert (stream + end.body).endswith(b"data: [DONE]\n\n")
    assert b'finish_reason":"stop' not in stream + end.body


@pytest.mark.parametrize("streamed", [False, True])
def test_http_error_of_one_request(*, streamed: bool) -> None:
    translator = ChoicesTranslator(plan("chat", "responses", streamed=streamed).reply_plan)
    translator.select(1)
    translator.fail_choice(429, b'{"error":{"message":"slow down"}}')
    assert translator.finished
    assert feed(translator, [(1, b"")]) == b""
    end = translator.finish()
    assert (end.status, end.streamed) == (429, False)
    assert b"slow down" in end.body


def test_whole_reply_that_is_invalid() -> None:
    translator = ChoicesTranslator(plan("chat", "responses").reply_plan)
    translator.feed(b'{"id":')
    with pytest.raises(adapters.InvalidReplyError, match="invalid reply"):
        translator.finish()


# Requests


def test_number_of_choices_is_limited() -> None:
    with pytest.raises(adapters.UnsupportedRequestError, match="at most 3"):
        plan("chat", "responses", n=4)
    body = {"model": "m", "n": 2, "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(adapters.UnsupportedRequestError, match="only one choice"):
        adapters.translate_request(body, client="chat", backend="responses")


def test_single_choice_is_not_sent_to_a_backend_without_the_field() -> None:
    sent = plan("chat", "chat", n=1)
    assert sent.reply_plan.requests == 1
    assert b'"n"' not in sent.body
    assert sent.losses == ()


def test_seed_differs_for_each_choice() -> None:
    sent = plan("chat", "chat", seed=-1)
    assert [loss.path for loss in sent.losses] == ["n", "seed"]
    bodies = choice_bodies(sent)
    assert [b'"seed":%d' % seed in body for seed, body in zip((-1, 0, 1), bodies, strict=True)]
    for seed in (None, "text", 2.5, 10**30):
        sent = plan("chat", "chat", seed=seed)
        assert choice_bodies(sent) == [sent.body] * 3
    single = plan("chat", "chat", n=1)
    assert choice_bodies(single) == [single.body]
    losses = [loss for loss in plan("chat", "responses", seed=1).losses if loss.path == "seed"]
    assert [loss.action for loss in losses] == ["dropped"]
