"""Turns over a WebSocket, among them those with which Open Responses tests a server."""

import pytest

from tests.gateway.asked import read_asked
from tests.gateway.conftest import DIALECTS, Scene
from tests.gateway.keeping import line_about
from tests.gateway.scripted import answer, stream
from tests.gateway.sockets import Socket, judged, judged_error
from tests.gateway.speech import Call, Turn, error_frames, frames, script
from tests.gateway.wire import AUTHORIZED, post
from tests.judges.open_responses import assert_compaction
from tests.judges.reading import JsonObject, object_in, objects_in

TOOL: JsonObject = {
    "type": "function",
    "name": "weather",
    "description": None,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}
OSLO = Call("weather", '{"city":  "Oslo"}')


def says(scene: Scene, dialect: str, *turns: Turn) -> str:
    """Have a new model say these, one after the other; give its name."""
    model, left = scene.fresh(dialect), iter(turns)
    scene.backend.play_always(model, lambda it: script(dialect, next(left), it.json()))
    return model


def heard(scene: Scene, model: str) -> str:
    return scene.backend.received(model)[-1].body.decode()


def output_of(call_id: str, output: str = "18 degrees") -> list[JsonObject]:
    return [{"type": "function_call_output", "call_id": call_id, "output": output}]


# As in the suite of Open Responses


@pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_response(dialect: str, path: str, scene: Scene) -> None:
    model = says(scene, dialect, Turn("1, 2, 3."))
    with Socket(scene.gateway, path=path) as socket:
        given = [{"type": "message", "role": "user", "content": "Count from 1 to 3."}]
        response = socket.answered(model=model, input=given)
    assert response.status == "completed"
    assert response.output_text == "1, 2, 3."


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_sequential_responses(dialect: str, scene: Scene) -> None:
    model = says(scene, dialect, Turn("One."), Turn("Two."))
    with Socket(scene.gateway) as socket:
        first = socket.answered(model=model, input="one", store=False)
        second = socket.answered(model=model, input="two", store=False)
    assert (first.output_text, second.output_text) == ("One.", "Two.")
    assert first.id != second.id
    assert "one" not in heard(scene, model)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_continuation(dialect: str, scene: Scene) -> None:
    model = says(scene, dialect, Turn("Hello, Ada."), Turn("Ada."))
    with Socket(scene.gateway) as socket:
        first = socket.answered(model=model, input="My name is Ada.", store=False)
        second = socket.answered(
            model=model, input="What is it?", store=False, previous_response_id=first.id
        )
    assert (second.status, second.previous_response_id) == ("completed", first.id)
    for words in ("My name is Ada.", "Hello, Ada.", "What is it?"):
        assert words in heard(scene, model)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_reconnect_store_false_recovery(dialect: str, scene: Scene) -> None:
    model = says(scene, dialect, Turn("One."), Turn("Three."))
    with Socket(scene.gateway) as one, Socket(scene.gateway) as other:
        first = one.answered(model=model, input="one", store=False)
        continued = {"model": model, "input": "two", "store": False}
        error = other.refused(**continued, previous_response_id=first.id)
        assert (error["code"], error["status"]) == ("previous_response_not_found", 400)
        assert other.answered(model=model, input="three", store=False).output_text == "Three."


def test_websocket_previous_response_not_found(scene: Scene) -> None:
    model = says(scene, "chat")
    with Socket(scene.gateway) as socket:
        error = socket.refused(
            model=model, input="hi", store=False, previous_response_id="resp_none"
        )
    assert error["code"] == "previous_response_not_found"
    assert error["param"] == "previous_response_id"
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_failed_continuation_evicts_cache(dialect: str, scene: Scene) -> None:
    model = says(scene, dialect, Turn("One."))
    with Socket(scene.gateway) as socket:
        first = socket.answered(model=model, input="one", store=False)
        continued = {"model": model, "store": False, "previous_response_id": first.id}
        error = socket.refused(**continued, input=output_of("call_nobody_made"))
        sentence = "No tool call found for function call output with call_id call_nobody_made."
        assert (error["message"], error["param"], error["status"]) == (sentence, "input", 400)
        error = socket.refused(**continued, input="again")
        assert error["code"] == "previous_response_not_found"
    assert len(scene.backend.received(model)) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_compact_new_chain(dialect: str, scene: Scene) -> None:
    model = says(scene, dialect, Turn("Ada said hello."), Turn("On we go."))
    body = {
        "model": model,
        "prompt_cache_key": "chain",
        "input": [
            {"type": "message", "role": "user", "content": "My name is Ada."},
            {"type": "message", "role": "assistant", "content": "Hello, Ada."},
        ],
    }
    made = post(scene.gateway.port, "/v1/responses/compact", body, AUTHORIZED)
    assert made.status == 200, made.body
    assert_compaction(made.json())
    chain = [
        *objects_in(made.json(), "output"),
        {"type": "message", "role": "user", "content": "What is it?"},
    ]
    with Socket(scene.gateway) as socket:
        response = socket.answered(model=model, input=chain, tools=[], store=False)
    assert (response.status, response.output_text) == ("completed", "On we go.")
    for words in ("My name is Ada.", "Ada said hello.", "What is it?"):
        assert words in heard(scene, model)
    assert "Hello, Ada." not in heard(scene, model)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_new_chain_from_items(dialect: str, scene: Scene) -> None:
    model = says(scene, dialect, Turn("On we go."))
    chain = [
        {"type": "message", "role": "user", "content": "Before."},
        {"type": "message", "role": "assistant", "content": "Then."},
        {"type": "message", "role": "user", "content": "Now."},
    ]
    with Socket(scene.gateway) as socket:
        response = socket.answered(model=model, input=chain, tools=[], store=False)
    assert (response.status, response.output_text) == ("completed", "On we go.")


# Turns that stand on each other


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_is_answered_by_its_output_alone(dialect: str, scene: Scene) -> None:
    model = says(scene, dialect, Turn("Let me see.", (OSLO,)), Turn("Sunny."), Turn("Yes."))
    shared: JsonObject = {"model": model, "tools": [TOOL], "store": False}
    with Socket(scene.gateway) as socket:
        first = socket.answered(**shared, input="How is the weather in Oslo?")
        call = next(item for item in first.output if item.type == "function_call")
        assert call.arguments == OSLO.arguments
        second = socket.answered(
            **shared, input=output_of(call.call_id), previous_response_id=first.id
        )
        assert second.output_text == "Sunny."
        third = socket.answered(**shared, input="Really?", previous_response_id=second.id)
    assert third.output_text == "Yes."
    for words in ("How is the weather", "Let me see.", "18 degrees", "Sunny.", "Really?"):
        assert words in heard(scene, model)
    if dialect != "responses":
        # A backend of the client's own dialect is told the items as they were shown.
        assert read_asked(dialect, scene.backend.wait(model, 3)).done == ((OSLO, "18 degrees"),)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_stored_goes_on_anywhere(dialect: str, scene: Scene) -> None:
    model = says(scene, dialect, Turn("One."), Turn("Two."), Turn("Three."))
    with Socket(scene.gateway) as socket:
        first = socket.answered(model=model, input="one")
    with Socket(scene.gateway) as socket:
        second = socket.answered(input="two", previous_response_id=first.id)
    assert second.to_dict()["store"] is True
    third = scene.sdk.responses.create(input="three", previous_response_id=second.id)
    assert third.output_text == "Three."
    for words in ("one", "One.", "two", "Two.", "three"):
        assert words in heard(scene, model)


def test_what_another_continued_from_elsewhere_stays_private(scene: Scene) -> None:
    model = says(scene, "chat", Turn("One."))
    with Socket(scene.gateway) as socket:
        first = socket.answered(model=model, input="one")
    with Socket(scene.gateway, {"Authorization": "Bearer sk-somebody-else"}) as socket:
        error = socket.refused(model=model, input="two", previous_response_id=first.id)
    assert error["code"] == "previous_response_not_found"


def test_a_failure_of_the_backend_evicts_too(scene: Scene) -> None:
    model = scene.fresh("chat")
    broken = stream(*frames("chat", Turn("One two three"))[:3], *error_frames("chat", "sorry"))
    scene.backend.play(model, stream(*frames("chat", Turn("One."))), broken)
    with Socket(scene.gateway) as socket:
        first = socket.answered(model=model, input="one", store=False)
        continued = {"model": model, "store": False, "previous_response_id": first.id}
        events = socket.turn(**continued, input="two")
        # What breaks off in the middle ends as over HTTP: an error, and the failed response.
        assert events[-1]["type"] == "error"
        assert "status" not in events[-1]
        failed = judged([*events, *socket.hear_turn()])
        assert failed.status == "failed"
        error = socket.refused(**continued, input="again")
        assert error["code"] == "previous_response_not_found"
        error = socket.refused(model=model, input="x", store=False, previous_response_id=failed.id)
        assert error["code"] == "previous_response_not_found"


def test_only_the_latest_are_remembered(scene: Scene) -> None:
    model = says(scene, "chat", *(Turn(f"{number}.") for number in range(6)))
    with Socket(scene.gateway) as socket:
        shared: JsonObject = {"model": model, "store": False}
        made = [socket.answered(**shared, input="go") for _ in range(5)]
        error = socket.refused(**shared, input="on", previous_response_id=made[0].id)
        assert error["code"] == "previous_response_not_found"
        again = socket.answered(**shared, input="on", previous_response_id=made[1].id)
    assert again.output_text == "5."


# Warming up


@pytest.mark.parametrize("given", ["Be brief.", list[object]()], ids=["text", "nothing"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_turn_is_prepared_without_asking_anybody(
    dialect: str, given: object, scene: Scene
) -> None:
    model = says(scene, dialect, Turn("Hi."))
    with Socket(scene.gateway) as socket:
        events = socket.turn(model=model, input=given, tools=[TOOL], store=False, generate=False)
        prepared = judged(events)
        assert (prepared.status, prepared.output) == ("completed", [])
        assert prepared.usage is not None
        assert prepared.usage.total_tokens == 0
        assert scene.backend.received(model) == []
        # The model need not be named again.
        response = socket.answered(input="Hello", store=False, previous_response_id=prepared.id)
    assert response.output_text == "Hi."
    assert response.model
    assert not isinstance(given, str) or given in heard(scene, model)


def test_a_prepared_turn_may_be_stored(scene: Scene) -> None:
    model = says(scene, "chat", Turn("Hi."))
    cache = {"prewarm": True}
    with Socket(scene.gateway) as socket:
        prepared = socket.answered(model=model, input="Be brief.", prompt_cache_options=cache)
    assert prepared.output == []
    made = scene.sdk.responses.create(input="Hello", previous_response_id=prepared.id)
    assert made.output_text == "Hi."
    assert "Be brief." in heard(scene, model)


def test_what_cannot_be_prepared_is_told(scene: Scene) -> None:
    with Socket(scene.gateway) as socket:
        error = socket.refused(model="nobody-has-it", input="x", generate=False)
        assert (error["code"], error["status"]) == ("model_not_found", 404)
        error = socket.refused(model="chat-1", input=7, generate=False)
        assert error["param"] == "input"


# Errors


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_of_the_backend_keeps_its_status_and_headers(dialect: str, scene: Scene) -> None:
    model = scene.fresh(dialect)
    body = b'{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":null}}'
    headers = {"Retry-After": "7", "x-ratelimit-remaining-requests": "0"}
    scene.backend.play(model, answer(body, status=429, headers=headers))
    with Socket(scene.gateway) as socket:
        (event,) = socket.turn(model=model, input="x")
    error = judged_error(event)
    assert (error["status"], error["message"]) == (429, "slow down")
    # Over HTTP it may be null; here it may not.
    assert error["code"] == "rate_limit_error"
    told = object_in(object_in(event, "error"), "headers")
    assert (told["retry-after"], told["x-ratelimit-remaining-requests"]) == ("7", "0")
    assert not {"content-type", "content-length", "dragoman-loss"} & told.keys()


def test_what_is_lost_is_logged_and_not_told(scene: Scene) -> None:
    model = says(scene, "chat", Turn("Hi."))
    with Socket(scene.gateway) as socket:
        events = socket.turn(model=model, input="x", safety_identifier="s", truncation="auto")
        judged(events)
    line = line_about(scene.gateway, model)
    assert '"path":"/v1/responses"' in line
    assert '"status":200,"outcome":"ok"' in line
    assert "truncation" in line
    assert "dragoman-loss" not in str(events)


def test_which_protocol_is_spoken_concerns_no_backend(scene: Scene) -> None:
    model = says(scene, "responses", Turn("Hi."))
    headers = {
        "OpenAI-Beta": "responses_websockets=2026-02-06, other=1",
        "Idempotency-Key": "once",
        "originator": "codex_exec",
    }
    with Socket(scene.gateway, headers) as socket:
        # Codex always says that it wants a stream.
        assert socket.answered(model=model, input="x", stream=True).output_text == "Hi."
    received = scene.backend.wait(model)
    assert received.headers["openai-beta"] == "other=1"
    assert received.headers["originator"] == "codex_exec"
    assert "idempotency-key" not in received.headers
    asked = received.json()
    assert asked["stream"] is True
    assert not {"type", "stream_id", "generate"} & asked.keys()
    assert asked["input"] == "x"
