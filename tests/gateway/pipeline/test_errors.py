"""Errors of a backend reach every client with their status, in its own words."""

from itertools import product

import openai
import pytest

from tests.gateway import old_client
from tests.gateway.clients import functions, make_client
from tests.gateway.conftest import DIALECTS, Fresh, Scene
from tests.gateway.process import Gateway
from tests.gateway.scripted import Pause, ScriptedBackend, Step, answer, cut_stream, stream
from tests.gateway.speech import Call, Turn, error_frames, frames, script
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
    client: str, spoken: str, status: int, mode: str, scene: Scene
) -> None:
    backend, model = scene.backend, scene.fresh(spoken)
    backend.play(model, answer(BODY, status=status, headers=TOLD | HIDDEN))
    with pytest.raises(CLASSES[status]) as caught:
        make_client(client, scene.sdk, model, mode).ask()
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
    client: str, spoken: str, mode: str, scene: Scene
) -> None:
    backend, model = scene.backend, scene.fresh(spoken)
    backend.play(model, answer(BODY, status=429, headers={"Retry-After-Ms": "30"}))
    backend.play_always(model, lambda it: script(spoken, TURN, it.json()))
    patient = scene.sdk.with_options(max_retries=1)
    assert make_client(client, patient, model, mode).ask().turn == TURN
    assert len(backend.received(model)) == 2


@pytest.mark.parametrize("spoken", DIALECTS)
@pytest.mark.parametrize(
    "body",
    [b"<html><h1>Bad gateway</h1></html>", b"", b'{"error":"overloaded"}', b'{"detail":"x"}'],
)
def test_old_client_always_gets_an_object(
    body: bytes, spoken: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(spoken)
    backend.play(model, answer(body, status=502), answer(body, status=502))
    asked = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(old_client.OldError) as caught:
        old_client.create(gateway.port, {**asked, "functions": functions()})
    assert caught.value.status == 502
    assert caught.value.error["message"]
    with pytest.raises(old_client.OldError):
        next(old_client.stream(gateway.port, {**asked, "functions": functions()}))


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
    client: str, spoken: str, mode: str, how: str, where: dict[str, int], scene: Scene
) -> None:
    backend, model = scene.backend, scene.fresh(spoken)
    begun: list[Step] = [*frames(spoken, TURN)[: where[spoken]], Pause(0.02)]
    match how:
        case "closed":
            backend.play(model, cut_stream(*begun))
        case "ended":
            backend.play(model, stream(*begun))
        case _:
            backend.play(model, stream(*begun, *error_frames(spoken, "The oven is cold.")))
    with pytest.raises((openai.APIError, old_client.OldError)) as caught:
        make_client(client, scene.sdk, model, mode).ask()
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
    fresh: Fresh,
) -> None:
    model = fresh(f"{way}{spoken}")
    backend.play(model, cut_stream(*frames(spoken, TURN)[: IN_CALL[spoken]]))
    with pytest.raises(openai.InternalServerError) as caught:
        make_client(client, sdk, model, "unary").ask()
    assert caught.value.status_code == 502
    judge.judge_error(caught.value.response.content)
