"""The rules of Open Responses (release 2026-04-24), each asked over HTTP of a running gateway.

The requests are those of its compliance suite, in our words, before a backend of each dialect. What
its prose demands and its suite does not test follows.
"""

import base64
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.gateway import raw_http
from tests.gateway.backend_replies import (
    Call,
    Turn,
    error_events,
    reply_body,
    reply_script,
    stream_events,
)
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.scripted_backend import (
    Pause,
    ScriptedBackend,
    json_reply,
    truncated_reply,
)
from tests.judges.open_responses import assert_compaction, assert_response, assert_stream
from tests.judges.reading import JsonObject, object_in, objects_in, read_object, text_in

MODELS = ("demo", "demo-responses", "demo-legacy")
# A picture of one pixel.
PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d49444154789c6360000000000500010d0a2db40000000049454e44ae426082"
    )
).decode()
WEATHER: JsonObject = {
    "type": "function",
    "name": "get_weather",
    "description": "Tell the weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def user(content: object) -> JsonObject:
    return {"type": "message", "role": "user", "content": content}


def assistant(content: object, **more: object) -> JsonObject:
    return {"type": "message", "role": "assistant", "content": content, **more}


# What the suite asks, by its own names for it.
ASKED: dict[str, JsonObject] = {
    "basic-response": {"input": [user("Say hello in exactly three words.")]},
    "assistant-phase": {
        "input": [
            assistant("Let me look.", phase="commentary"),
            assistant("It is blue.", phase="final_answer"),
            user("And at night?"),
        ]
    },
    "system-prompt": {
        "input": [
            {"type": "message", "role": "system", "content": "Talk like a pirate."},
            user("Say hello."),
        ]
    },
    "image-input": {
        "input": [
            user(
                [
                    {"type": "input_text", "text": "What do you see?"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
                ]
            )
        ]
    },
    "multi-turn": {
        "input": [user("My name is Alice."), assistant("Hello, Alice."), user("Who am I?")]
    },
    "tool-calling": {"input": [user("What is the weather in Oslo?")], "tools": [WEATHER]},
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Run the gateway as a newcomer does."""
    with run_gateway("", tmp_path_factory.mktemp("demo")) as gateway:
        yield gateway


def ask(gateway: Gateway, **body: object) -> raw_http.RawResponse:
    return raw_http.post(gateway.port, "/v1/responses", body)


def created(gateway: Gateway, **body: object) -> JsonObject:
    """Have a response made, and see that it is one."""
    heard = ask(gateway, **body)
    assert heard.status == 200, heard.body
    assert_response(heard.json())
    return heard.json()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ASKED)
def test_whole(name: str, model: str, demo: Gateway) -> None:
    response = created(demo, model=model, **ASKED[name])
    assert response["status"] == "completed"
    kinds = [item["type"] for item in objects_in(response, "output")]
    assert ("function_call" if name == "tool-calling" else "message") in kinds


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ASKED)
def test_streamed(name: str, model: str, demo: Gateway) -> None:
    heard = ask(demo, model=model, stream=True, **ASKED[name])
    assert heard.status == 200
    assert_stream(heard.body)
    events = events_of(heard.body)
    last = object_in(events[-1], "response")
    assert last["status"] == "completed"
    assert objects_in(last, "output")
    if name == "tool-calling":
        kinds = {event["type"] for event in events}
        assert {f"response.function_call_arguments.{end}" for end in ("delta", "done")} <= kinds


@pytest.mark.parametrize("model", MODELS)
def test_compact_response(model: str, demo: Gateway) -> None:
    given = [user("My name is Alice."), assistant("Hello, Alice.")]
    body = {"model": model, "prompt_cache_key": "short", "input": given}
    heard = raw_http.post(demo.port, "/v1/responses/compact", body)
    assert heard.status == 200, heard.body
    assert_compaction(heard.json())
    assert heard.json()["object"] == "response.compaction"
    kinds = [item["type"] for item in objects_in(heard.json(), "output")]
    assert kinds == ["message", "compaction"]


def test_compact_missing_model(demo: Gateway) -> None:
    heard = raw_http.post(demo.port, "/v1/responses/compact", {"input": [user("Hello.")]})
    assert (heard.status, heard.error["param"]) == (400, "model")


def test_all_at_once(demo: Gateway) -> None:
    # The suite begins with all its tests at the same moment.
    with ThreadPoolExecutor(len(ASKED) * len(MODELS)) as pool:
        made = [
            pool.submit(created, demo, model=model, **asked)
            for model in MODELS
            for asked in ASKED.values()
        ]
        assert {one.result()["status"] for one in made} == {"completed"}


def events_of(stream: bytes) -> list[JsonObject]:
    return [
        read_object(block.partition(b"data: ")[2])
        for block in stream.split(b"\n\n")
        if block.startswith(b"event: ")
    ]


# What the prose demands


@pytest.mark.parametrize("model", MODELS)
def test_frames_are_what_strict_readers_take(model: str, demo: Gateway) -> None:
    body = ask(demo, model=model, stream=True, **ASKED["tool-calling"]).body
    *blocks, done, rest = body.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    for block in blocks:
        assert not re.search(rb"^id:", block, re.MULTILINE)
        name, data = block.split(b"\n")
        assert name == b"event: " + text_in(read_object(data[6:]), "type").encode()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_turn_stands_on_the_input_and_the_output_before_it(
    dialect: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    for text in ("the output", "the end"):
        backend.enqueue(model, json_reply(reply_body(dialect, Turn(text))))
    first = created(gateway, model=model, input="the input")
    created(gateway, model=model, input="the rest", previous_response_id=first["id"])
    body = backend.received(model)[-1].body.decode()
    places = [body.index(words) for words in ("the input", "the output", "the rest")]
    assert places == sorted(places)


# A server of the client's own dialect sees to that itself: its answers pass as they are.
@pytest.mark.parametrize("dialect", ["chat", "legacy"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_call_that_is_not_allowed_is_not_told(
    dialect: str, *, streamed: bool, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    turn = Turn("I would rather not.", (Call("forbidden", "{}"),))
    backend.respond_with(model, lambda received: reply_script(dialect, turn, received.json()))
    tools = [WEATHER, {**WEATHER, "name": "forbidden"}]
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [named("get_weather")]}
    heard = ask(gateway, model=model, input="hi", tools=tools, tool_choice=allowed, stream=streamed)
    assert heard.status == 200
    response = object_in(events_of(heard.body)[-1], "response") if streamed else heard.json()
    assert [item["type"] for item in objects_in(response, "output")] == ["message"]


def named(name: str) -> JsonObject:
    return {"type": "function", "name": name}


def test_input_is_never_dropped_to_make_it_fit(
    gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(model, json_reply(reply_body("chat", Turn("Fine."))))
    said = [user(f"remember the number {number}") for number in range(500)]
    response = created(gateway, model=model, input=said)
    assert response["truncation"] == "disabled"
    body = backend.received(model)[-1].body
    assert all(b"remember the number %d" % number in body for number in range(500))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_is_followed_by_a_failed_response(
    dialect: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    begun = stream_events(dialect, Turn("Once upon a time"))[:4]
    # Each event arrives in a read of its own.
    errors = [
        step for frame in error_events(dialect, "out of memory") for step in (frame, Pause(0.1))
    ]
    backend.enqueue(model, truncated_reply(*begun, *errors))
    heard = ask(gateway, model=model, input="hi", stream=True)
    kinds = [event["type"] for event in events_of(heard.body)]
    assert kinds[-2:] == ["error", "response.failed"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_broke_off_comes_last(
    dialect: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    backend.enqueue(model, truncated_reply(*stream_events(dialect, Turn("Once upon a time"))[:4]))
    heard = ask(gateway, model=model, input="hi", stream=True)
    response = object_in(events_of(heard.body)[-1], "response")
    assert response["status"] == "failed"
    statuses = [item.get("status") for item in objects_in(response, "output")]
    assert "incomplete" not in statuses[:-1]


@pytest.mark.parametrize("model", MODELS)
def test_names_and_ids_are_legal(model: str, demo: Gateway) -> None:
    response = created(demo, model=model, **ASKED["tool-calling"])
    for item in objects_in(response, "output"):
        if item["type"] == "function_call":
            for field in ("name", "call_id"):
                assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", text_in(item, field))
