"""Errors of a backend reach every client with their status, in its own words."""

from itertools import product

import openai
import pytest

from tests.gateway import old_sdk_client
from tests.gateway.backend_replies import (
    Call,
    Turn,
    error_events,
    reply_script,
    stream_events,
)
from tests.gateway.conftest import Harness, NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.scripted_backend import (
    Pause,
    ScriptedBackend,
    Step,
    json_reply,
    stream_reply,
    truncated_reply,
)
from tests.gateway.sdk_clients import function_tools, make_client
from tests.judges import sdk as judge
from tests.judges.samples import encoded

CLASSES: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    502: openai.InternalServerError,
    503: openai.InternalServerError,
}
BODY = encoded(
    {
        "error": {
            "message": "No, not «now».",
            "type": "some_error",
            "param": "temperature",
            "code": "not_now",
        }
    }
)
TOLD = {
    "Retry-After": "7",
    "X-Request-Id": "req_backend",
    "X-RateLimit-Remaining-Requests": "0",
}
HIDDEN = {
    "Set-Cookie": "a=b",
    "Server": "secret-sauce/1.0",
    "Keep-Alive": "timeout=5",
    "X-Internal-Host": "10.0.0.1",
}
TURN = Turn("Let me see what there is.", (Call("get_weather", '{"city":"Zürich am See"}'),))
PAIRS = [pytest.param(*pair, id="{}-to-{}".format(*pair)) for pair in product(DIALECTS, DIALECTS)]


@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("status", CLASSES)
@pytest.mark.parametrize(("client", "spoken"), PAIRS)
def test_status_and_error_are_kept(
    client: str, spoken: str, status: int, mode: str, harness: Harness
) -> None:
    backend, model = harness.backend, harness.new_model(spoken)
    backend.enqueue(model, json_reply(BODY, status=status, headers=TOLD | HIDDEN))
    with pytest.raises(CLASSES[status]) as caught:
        make_client(client, harness.sdk, model, mode).send_question()
    error = caught.value
    assert (error.status_code, error.code, error.param) == (status, "not_now", "temperature")
    assert error.type == "some_error"
    assert "No, not «now»." in error.message
    judge.judge_error(error.response.content)
    assert error.response.headers["content-type"] == "application/json"
    assert {name: error.response.headers[name] for name in TOLD} == TOLD
    assert not HIDDEN.keys() & {name.title() for name in error.response.headers}
    # What the backend refused is not sent again unless the configuration says so.
    assert len(backend.received(model)) == 1


@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize(("client", "spoken"), PAIRS)
def test_client_comes_again_when_it_is_told_to(
    client: str, spoken: str, mode: str, harness: Harness
) -> None:
    backend, model = harness.backend, harness.new_model(spoken)
    backend.enqueue(model, json_reply(BODY, status=429, headers={"Retry-After-Ms": "30"}))
    backend.respond_with(model, lambda it: reply_script(spoken, TURN, it.json()))
    patient = harness.sdk.with_options(max_retries=1)
    assert make_client(client, patient, model, mode).send_question().turn == TURN
    assert len(backend.received(model)) == 2


@pytest.mark.parametrize("spoken", DIALECTS)
@pytest.mark.parametrize(
    "body",
    [b"<html><h1>Bad gateway</h1></html>", b"", b'{"error":"overloaded"}', b'{"detail":"x"}'],
)
def test_old_client_always_gets_an_object(
    body: bytes, spoken: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(spoken)
    backend.enqueue(model, json_reply(body, status=502), json_reply(body, status=502))
    asked = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(old_sdk_client.OldSdkError) as caught:
        old_sdk_client.create(gateway.port, {**asked, "functions": function_tools()})
    assert caught.value.status == 502
    assert caught.value.error["message"]
    with pytest.raises(old_sdk_client.OldSdkError):
        next(old_sdk_client.stream(gateway.port, {**asked, "functions": function_tools()}))


# Streams that end badly

# So many events from the beginning leave the text open, and so many the call.
IN_TEXT = {"chat": 4, "legacy": 4, "responses": 5}
IN_CALL = {"chat": 8, "legacy": 8, "responses": -4}
STREAMING = [
    pytest.param(client, spoken, mode, id=f"{client}-to-{spoken}-{mode}")
    for client, spoken in product(DIALECTS, DIALECTS)
    for mode in (("raw", "old") if client == "legacy" else ("raw", "helper"))
]


@pytest.mark.parametrize("where", [IN_TEXT, IN_CALL], ids=["in text", "in a call"])
@pytest.mark.parametrize("how", ["closed", "ended", "error"])
@pytest.mark.parametrize(("client", "spoken", "mode"), STREAMING)
def test_stream_that_breaks_off_is_an_error(
    client: str, spoken: str, mode: str, how: str, where: dict[str, int], harness: Harness
) -> None:
    backend, model = harness.backend, harness.new_model(spoken)
    begun: list[Step] = [*stream_events(spoken, TURN)[: where[spoken]], Pause(0.02)]
    match how:
        case "closed":
            backend.enqueue(model, truncated_reply(*begun))
        case "ended":
            backend.enqueue(model, stream_reply(*begun))
        case _:
            backend.enqueue(model, stream_reply(*begun, *error_events(spoken, "The oven is cold.")))
    with pytest.raises((openai.APIError, old_sdk_client.OldSdkError)) as caught:
        make_client(client, harness.sdk, model, mode).send_question()
    assert not isinstance(caught.value, openai.APIConnectionError), "the error was not told"
    if how == "error":
        assert "The oven is cold." in str(caught.value)
    assert len(backend.received(model)) == 1


@pytest.mark.parametrize("way", ["", "streaming-"])
@pytest.mark.parametrize(("client", "spoken"), PAIRS)
def test_whole_answer_that_is_cut_is_an_error(
    client: str,
    spoken: str,
    way: str,
    sdk: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(f"{way}{spoken}")
    backend.enqueue(model, truncated_reply(*stream_events(spoken, TURN)[: IN_CALL[spoken]]))
    with pytest.raises(openai.InternalServerError) as caught:
        make_client(client, sdk, model, "unary").send_question()
    assert caught.value.status_code == 502
    judge.judge_error(caught.value.response.content)
