"""Loops over backends that want to see their reasoning again, with clients that know nothing of it.

The backends here refuse every turn whose reasoning is not exactly theirs.
"""

import json
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import openai
import pytest

from tests.adapters.test_loops import streamed
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import backend_table, capability_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.raw_http import post
from tests.gateway.rows import count_rows
from tests.gateway.scripted_backend import (
    ReceivedRequest,
    Script,
    ScriptedBackend,
    json_reply,
    stream_reply,
)
from tests.gateway.sdk_clients import create_completion, create_response
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import JsonObject, object_in, objects_in
from tests.judges.samples import encoded, response

STEPS = 3
KEY = "c2VhbGVkIHdpdGggdGhpcnR5LXR3byBieXRlcyE9PTA="
OTHER_KEY = "00" * 32
PARAMETERS: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}


def config(backend: ScriptedBackend, key: str = "KEY") -> str:
    return f'[sealing]\nkey_env = "{key}"\n' + "".join(
        (
            backend_table(backend.address, "deepseek", "chat", 'profile = "deepseek"\n'),
            backend_table(backend.address, "gemini", "chat"),
            backend_table(backend.address, "router", "chat", 'profile = "openrouter"\n'),
            backend_table(backend.address, "openai", "responses"),
            backend_table(
                backend.address, "open", "responses", capability_table('reasoning_items = "text"')
            ),
        )
    )


@contextmanager
def started(
    backend: ScriptedBackend, folder: Path, key: str = "KEY"
) -> Generator[tuple[Gateway, openai.OpenAI]]:
    environment = {"KEY": KEY, "OTHER": OTHER_KEY}
    with (
        run_gateway(config(backend, key), folder, environment) as gateway,
        openai.OpenAI(
            base_url=gateway.url, api_key="sk-test", max_retries=0, timeout=TIMEOUT_SECONDS
        ) as sdk,
    ):
        yield gateway, sdk


@pytest.fixture(scope="module")
def both(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Gateway, openai.OpenAI]]:
    with started(backend, tmp_path_factory.mktemp("reasoning")) as running_gateway:
        yield running_gateway


# Backends


def refused(message: str, **more: object) -> Script:
    error = {"message": message, "type": "invalid_request_error", "code": None, **more}
    return json_reply(encoded({"error": error}), status=400)


def said(dialect: str, reply: JsonObject, asked: JsonObject) -> Script:
    body = encoded(reply)
    return stream_reply(streamed(dialect, body)) if asked.get("stream") else json_reply(body)


def completion(message: JsonObject, finish: str) -> JsonObject:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": usage}


def chat_player(thought: Callable[[int], tuple[JsonObject, JsonObject]]) -> Callable[..., Script]:
    """Make a Chat backend that calls a tool in each step, and demands what it thought with it.

    `thought` gives what a step has on its message, and on its call.
    """

    def play(request: ReceivedRequest) -> Script:
        asked = request.json()
        turns = [one for one in objects_in(asked, "messages") if one["role"] == "assistant"]
        for number, turn in enumerate(turns):
            on_message, on_call = thought(number)
            call = objects_in(turn, "tool_calls")[0]
            if any(turn.get(name) != value for name, value in on_message.items()):
                return refused(f"the reasoning of turn {number} must be passed back: {turn}")
            if any(call.get(name) != value for name, value in on_call.items()):
                return refused(f"the call of turn {number} is missing its signature: {call}")
        step = len(turns)
        if step == STEPS:
            return said("chat", completion({"content": "Done."}, "stop"), asked)
        on_message, on_call = thought(step)
        function = {"name": "count", "arguments": json.dumps({"n": step})}
        # The same ids again and again, as some servers have them.
        call = {"id": f"count:{step}", "type": "function", "function": function, **on_call}
        message = {"content": None, **on_message, "tool_calls": [call]}
        return said("chat", completion(message, "tool_calls"), asked)

    return play


def deepseek(step: int) -> tuple[JsonObject, JsonObject]:
    return {"reasoning_content": f"Step {step}: I count on. ☀"}, {}


def gemini(step: int) -> tuple[JsonObject, JsonObject]:
    return {}, {"extra_content": {"google": {"thought_signature": f"signature {step}"}}}


def router(step: int) -> tuple[JsonObject, JsonObject]:
    sealed = {"type": "reasoning.encrypted", "data": f"blob {step}", "index": 1}
    told = {"type": "reasoning.text", "text": f"Step {step}.", "index": 0}
    return {"reasoning_details": [told, sealed]}, {}


CHATS = {"deepseek": deepseek, "gemini": gemini, "router": router}


def responses_player(*, plain: bool = False) -> Callable[[ReceivedRequest], Script]:
    """Make a Responses backend that demands its reasoning before each call, and nothing else."""

    def thought(step: int) -> JsonObject:
        item: JsonObject = {"type": "reasoning", "summary": list[object]()}
        if plain:
            told = [{"type": "reasoning_text", "text": f"Step {step}."}]
            return {**item, "content": told}
        return {**item, "id": f"rs_{step}", "encrypted_content": f"gAAAAA{step}"}

    def play(request: ReceivedRequest) -> Script:
        asked = request.json()
        if not plain and asked.get("include") != ["reasoning.encrypted_content"]:
            return refused("this is not how one asks for sealed reasoning")
        items = objects_in(asked, "input")
        places = [place for place, item in enumerate(items) if item["type"] == "function_call"]
        for step, place in enumerate(places):
            if items[place - 1] != thought(step):
                return refused(f"function_call without its required 'reasoning' item: {items}")
        step = len(places)
        if step == STEPS:
            text: JsonObject = {"type": "output_text", "text": "Done.", "annotations": []}
            last: JsonObject = {"type": "message", "id": "msg_1", "status": "completed"}
            return said("responses", ended({**last, "role": "assistant", "content": [text]}), asked)
        call: JsonObject = {"type": "function_call", "id": f"fc_{step}", "status": "completed"}
        call |= {"call_id": f"call_{step}", "name": "count", "arguments": f'{{"n": {step}}}'}
        return said("responses", ended({"id": f"rs_{step}", **thought(step)}, call), asked)

    return play


def ended(*items: JsonObject) -> JsonObject:
    return response("completed", items)


# Clients


def responses_turn(sdk: openai.OpenAI, mode: str, asked: JsonObject) -> bool:
    """Ask once more, and run what is called; tell whether anything was."""
    made = create_response(sdk, mode, asked)
    given = [item.to_dict() for item in made.output]
    outputs: list[JsonObject] = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "counted"}
        for item in made.output
        if item.type == "function_call"
    ]
    asked["input"] = [*cast("list[object]", asked["input"]), *given, *outputs]
    assert outputs or made.output_text == "Done."
    return bool(outputs)


def responses_request(model: str, *, include: bool = True) -> JsonObject:
    tool = {"type": "function", "name": "count", "parameters": PARAMETERS, "strict": False}
    asked: JsonObject = {"model": model, "input": [{"role": "user", "content": "Count."}]}
    asked["tools"] = [tool]
    # Who carries everything itself wants nothing to be kept.
    carrying: JsonObject = {"include": ["reasoning.encrypted_content"], "store": False}
    return asked | (carrying if include else {})


def without_summaries(asked: JsonObject) -> None:
    """Forget what was shown, as clients do that keep only what is sealed."""
    for item in objects_in(asked, "input"):
        if item.get("type") == "reasoning":
            item["summary"] = []


@pytest.mark.parametrize("mode", ["unary", "raw", "helper"])
@pytest.mark.parametrize("kind", CHATS)
def test_a_responses_client_carries_the_reasoning_of_a_chat_backend(
    kind: str,
    mode: str,
    both: tuple[Gateway, openai.OpenAI],
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    _, sdk = both
    model = new_model(kind)
    backend.respond_with(model, chat_player(CHATS[kind]))
    asked = responses_request(model)
    while responses_turn(sdk, mode, asked):
        without_summaries(asked)
    assert len(backend.received(model)) == STEPS + 1


@pytest.mark.parametrize("mode", ["unary", "raw"])
def test_the_gateway_may_be_started_anew_between_turns(
    mode: str, backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("deepseek")
    backend.respond_with(model, chat_player(deepseek))
    asked = responses_request(model)
    for goes_on in (True, True, True, False):
        with started(backend, tmp_path) as (_, sdk):
            assert responses_turn(sdk, mode, asked) is goes_on
        without_summaries(asked)


def test_what_another_key_sealed_is_reported_and_left_out(
    both: tuple[Gateway, openai.OpenAI],
    backend: ScriptedBackend,
    new_model: NewModel,
    tmp_path: Path,
) -> None:
    _, sdk = both
    model = new_model("gemini")
    backend.enqueue(model, chat_player(gemini)(_asking(model)))
    asked = responses_request(model)
    assert responses_turn(sdk, "unary", asked)
    backend.enqueue(model, said("chat", completion({"content": "So be it."}, "stop"), {}))
    with started(backend, tmp_path, "OTHER") as (other, _):
        answered = post(other.port, "/v1/responses", asked)
    assert answered.status == 200
    assert "input[1]" in answered.headers["dragoman-loss"]
    sent = objects_in(backend.wait_for_request(model, 2).json(), "messages")
    assert "extra_content" not in objects_in(sent[1], "tool_calls")[0]


def _asking(model: str) -> ReceivedRequest:
    body = {"model": model, "messages": [{"role": "user", "content": "Count."}]}
    return ReceivedRequest("POST", "/", {}, encoded(cast("JsonObject", body)), cast("Any", None))


@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("kind", ["gemini", "router"])
def test_a_client_that_carries_nothing_is_remembered(
    kind: str,
    mode: str,
    both: tuple[Gateway, openai.OpenAI],
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    _, sdk = both
    model = new_model(kind)
    backend.respond_with(model, chat_player(CHATS[kind]))
    asked = responses_request(model, include=False)
    while responses_turn(sdk, mode, asked):
        pass
    assert len(backend.received(model)) == STEPS + 1


def test_so_is_one_whose_backend_says_no_last_word(
    both: tuple[Gateway, openai.OpenAI],
    backend: ScriptedBackend,
    new_model: NewModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That the answer is whole, only the end of the stream tells."""
    told = streamed

    def without_last_word(dialect: str, body: bytes) -> bytes:
        whole = told(dialect, body)
        assert whole.endswith(b"data: [DONE]\n\n")
        return whole.removesuffix(b"data: [DONE]\n\n")

    monkeypatch.setattr(sys.modules[__name__], "streamed", without_last_word)
    _, sdk = both
    model = new_model("gemini")
    backend.respond_with(model, chat_player(gemini))
    asked = responses_request(model, include=False)
    while responses_turn(sdk, "raw", asked):
        pass
    assert len(backend.received(model)) == STEPS + 1


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
def test_one_that_wants_nothing_to_be_kept_is_told_what_that_costs(
    *, stream: bool, backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("gemini")
    backend.respond_with(model, chat_player(gemini))
    asked = responses_request(model, include=False) | {"store": False, "stream": stream}
    with started(backend, tmp_path) as (gateway, _):
        answered = post(gateway.port, "/v1/responses", asked)
        assert answered.status == 200
        assert count_rows(f"sqlite:{tmp_path / 'dragoman.db'}") == {}
    # The head of a stream is gone when this is known.
    told = gateway.log if stream else answered.headers["dragoman-loss"]
    assert "wants to see again with its calls" in told


# Chat clients


def chat_loop(sdk: openai.OpenAI, model: str, mode: str, *, echoes: bool = True) -> None:
    function = {"name": "count", "parameters": PARAMETERS}
    messages: list[object] = [{"role": "user", "content": "Count."}]
    asked: JsonObject = {"model": model, "messages": messages}
    asked["tools"] = [{"type": "function", "function": function}]
    while True:
        message = create_completion(sdk, mode, asked).choices[0].message
        calls = message.tool_calls or []
        echo: JsonObject = message.to_dict()
        if not echoes:
            for call in objects_in(echo, "tool_calls") if calls else []:
                call.pop("extra_content", None)
        messages.append(echo)
        if not calls:
            assert message.content == "Done."
            return
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": "counted"} for call in calls
        ]


@pytest.mark.parametrize("echoes", [True, False], ids=["echoing", "forgetful"])
@pytest.mark.parametrize("mode", ["unary", "raw", "helper"])
@pytest.mark.parametrize("kind", ["openai", "open"])
def test_a_chat_client_keeps_the_reasoning_of_a_responses_backend(
    kind: str,
    mode: str,
    echoes: bool,  # noqa: FBT001 - pytest gives it by its name
    both: tuple[Gateway, openai.OpenAI],
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    _, sdk = both
    model = new_model(kind)
    backend.respond_with(model, responses_player(plain=kind == "open"))
    chat_loop(sdk, model, mode, echoes=echoes)
    assert len(backend.received(model)) == STEPS + 1


def test_an_echoing_chat_client_survives_new_starts(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("openai")
    backend.respond_with(model, responses_player())
    asked: JsonObject = {"model": model, "messages": [{"role": "user", "content": "Count."}]}
    answers: list[object] = []
    for _ in range(STEPS + 1):
        with started(backend, tmp_path) as (gateway, _):
            answered = post(gateway.port, "/v1/chat/completions", asked)
        assert answered.status == 200, answered.body
        message = object_in(objects_in(answered.json(), "choices")[0], "message")
        answers.append(message["content"])
        calls = objects_in(message, "tool_calls") if "tool_calls" in message else []
        outputs = [{"role": "tool", "tool_call_id": one["id"], "content": "1"} for one in calls]
        asked["messages"] = [*objects_in(asked, "messages"), message, *outputs]
    assert answers == [None, None, None, "Done."]


def test_workers_share_a_key_where_none_is_configured(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    table = backend_table(backend.address, "deepseek", "chat", 'profile = "deepseek"\n')
    with (
        run_gateway(f"[server]\nworkers = 2\n{table}", tmp_path) as gateway,
        # A connection for each request, so that both of them are asked.
        openai.OpenAI(
            base_url=gateway.url,
            api_key="sk-test",
            max_retries=0,
            default_headers={"Connection": "close"},
        ) as sdk,
    ):
        for _ in range(5):
            model = new_model("deepseek")
            backend.respond_with(model, chat_player(deepseek))
            asked = responses_request(model)
            while responses_turn(sdk, "unary", asked):
                without_summaries(asked)


@pytest.mark.parametrize(
    "junk", ["dragoman", ["dragoman"], {"dragoman": "x"}, {"dragoman": {"sealed": 5}}], ids=str
)
def test_what_others_carry_in_our_field_fails_nothing(
    junk: object, both: tuple[Gateway, openai.OpenAI], backend: ScriptedBackend, new_model: NewModel
) -> None:
    gateway, _ = both
    model = new_model("open")
    text: JsonObject = {"type": "output_text", "text": "Yes.", "annotations": []}
    item: JsonObject = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    backend.enqueue(model, said("responses", ended(item), {}))
    function = {"name": "count", "arguments": "{}"}
    call = {"id": "call_0", "type": "function", "function": function, "extra_content": junk}
    asked: JsonObject = {
        "model": model,
        "messages": [
            {"role": "user", "content": "Count."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_0", "content": "counted"},
        ],
    }
    answered = post(gateway.port, "/v1/chat/completions", asked)
    assert answered.status == 200
    assert "messages[1].tool_calls[0].extra_content" in answered.headers["dragoman-loss"]


def test_what_one_client_was_told_is_not_given_to_another(
    both: tuple[Gateway, openai.OpenAI], backend: ScriptedBackend, new_model: NewModel
) -> None:
    gateway, _ = both
    model = new_model("openai")
    backend.respond_with(model, responses_player())
    asked: JsonObject = {"model": model, "messages": [{"role": "user", "content": "Count."}]}
    first = post(gateway.port, "/v1/chat/completions", asked, _key("one"))
    message = object_in(objects_in(first.json(), "choices")[0], "message")
    del objects_in(message, "tool_calls")[0]["extra_content"]
    output = {"role": "tool", "tool_call_id": "call_0", "content": "counted"}
    asked["messages"] = [*objects_in(asked, "messages"), message, output]
    assert post(gateway.port, "/v1/chat/completions", asked, _key("two")).status == 400
    assert post(gateway.port, "/v1/chat/completions", asked, _key("one")).status == 200


def _key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer sk-{name}", "Content-Type": "application/json"}


def test_a_model_that_cannot_seal_is_asked_without(
    both: tuple[Gateway, openai.OpenAI], backend: ScriptedBackend, new_model: NewModel
) -> None:
    gateway, _ = both
    model = new_model("openai")

    def play(request: ReceivedRequest) -> Script:
        if "include" in request.json():
            why = "Encrypted content is not supported with this model."
            return refused(why, param="include")
        text: JsonObject = {"type": "output_text", "text": "Yes.", "annotations": []}
        item: JsonObject = {"type": "message", "id": "msg_1", "role": "assistant"}
        return said("responses", ended({**item, "content": [text]}), request.json())

    backend.respond_with(model, play)
    asked: JsonObject = {"model": model, "messages": [{"role": "user", "content": "Well?"}]}
    for _ in range(2):
        assert post(gateway.port, "/v1/chat/completions", asked).status == 200
    # The second time nobody had to be told.
    assert len(backend.received(model)) == 3


def test_another_refusal_reaches_the_client(
    both: tuple[Gateway, openai.OpenAI], backend: ScriptedBackend, new_model: NewModel
) -> None:
    gateway, _ = both
    model = new_model("openai")
    backend.respond_with(model, lambda _: refused("no such thing", param="tools"))
    asked: JsonObject = {"model": model, "messages": [{"role": "user", "content": "Well?"}]}
    answered = post(gateway.port, "/v1/chat/completions", asked)
    assert answered.status == 400
    assert answered.error["message"] == "no such thing"
    assert len(backend.received(model)) == 1
