"""How long a backend is waited for, and when it is asked again."""

import time

import openai
import pytest

from tests.gateway.backend_replies import Turn, reply_script, stream_events
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.scripted_backend import (
    JSON,
    ConnectionEnd,
    Gate,
    Pause,
    Script,
    ScriptedBackend,
    Step,
    chunk,
    json_reply,
    reply_head,
    stream_head,
    stream_reply,
)
from tests.gateway.sdk_clients import make_client, request_error
from tests.gateway.waiting import TIMEOUT_SECONDS

TURN = Turn("One two three four five six.")

every_client = pytest.mark.parametrize("client", DIALECTS)
both_modes = pytest.mark.parametrize("mode", ["unary", "raw"])


# Slow

SLOW: dict[str, tuple[str, Script]] = {
    "no first byte": ("late-chat", (Gate(),)),
    "no body": ("silent-chat", (stream_head(), Gate())),
    "a silent whole": (
        "silent-chat",
        (reply_head(200, {**JSON, "Content-Length": "9"}), b"{", Gate()),
    ),
}


@pytest.mark.parametrize(
    ("name", "client", "mode"),
    [
        ("no first byte", "chat", "unary"),
        ("no first byte", "responses", "raw"),
        ("no first byte", "legacy", "raw"),
        ("no body", "responses", "raw"),
        ("no body", "chat", "raw"),
        ("a silent whole", "responses", "unary"),
    ],
)
def test_slow_backend_is_a_timeout(
    name: str,
    client: str,
    mode: str,
    sdk: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    kind, slow = SLOW[name]
    model = new_model(kind)
    backend.enqueue(model, slow)
    error = request_error(client, mode, sdk, model)
    assert (error.status_code, error.code) == (504, "backend_timeout")
    # The backend's work is ended, too.
    assert backend.wait_for_request(model).closed.wait(TIMEOUT_SECONDS)


def falls_silent(said: list[bytes]) -> Script:
    """Say this in one piece, in which nobody pauses for too long, and nothing more."""
    return (stream_head() + chunk(b"".join(said)), Gate())


@every_client
def test_stream_that_falls_silent_ends_with_an_error(
    client: str, sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("silent-chat")
    backend.enqueue(model, falls_silent(stream_events("chat", TURN)[:4]))
    with pytest.raises(openai.APIError, match=r"0\.5 seconds"):
        make_client(client, sdk, model, "raw").send_question()
    assert backend.wait_for_request(model).closed.wait(TIMEOUT_SECONDS)


SILENCES = {"after the usage": -1, "after the finish": -2}


@pytest.mark.parametrize("said", SILENCES.values(), ids=SILENCES)
@both_modes
@every_client
def test_finished_answer_is_whole_though_the_stream_never_ends(
    client: str,
    mode: str,
    said: int,
    sdk: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    """A server that says no last word, and keeps the connection open (P156)."""
    model = new_model("silent-chat" if mode == "raw" else "hanging-chat")
    backend.enqueue(model, falls_silent(stream_events("chat", TURN)[:said]))
    assert make_client(client, sdk, model, mode).send_question().turn == TURN
    assert backend.wait_for_request(model).closed.wait(TIMEOUT_SECONDS)


@both_modes
def test_answer_that_takes_too_long_as_a_whole(
    mode: str, sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("endless-chat")
    drops: list[Step] = [part for _ in range(200) for part in (b": drop\n\n", Pause(0.05))]
    backend.enqueue(model, stream_reply(*stream_events("chat", TURN)[:4], *drops))
    with pytest.raises(openai.APIError, match="in time"):
        make_client("responses", sdk, model, mode).send_question()
    assert backend.wait_for_request(model).closed.wait(TIMEOUT_SECONDS)


def test_slow_answer_within_the_limits_is_whole(
    sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("steady-chat")
    said = stream_events("chat", TURN)
    # All in all it takes longer than a pause may.
    backend.enqueue(model, stream_reply(*(part for frame in said for part in (frame, Pause(0.8)))))
    assert make_client("responses", sdk, model, "raw").send_question().turn == TURN


# Asked again

REFUSED = json_reply(b'{"error":{"message":"busy"}}', status=503)


@both_modes
@every_client
def test_asked_again_before_the_first_byte(
    client: str, mode: str, sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("again-chat")
    backend.enqueue(model, REFUSED, (ConnectionEnd.CLOSE,))
    backend.respond_with(model, lambda it: reply_script("chat", TURN, it.json()))
    assert make_client(client, sdk, model, mode).send_question().turn == TURN
    bodies = {request.body for request in backend.received(model)}
    assert (len(bodies), len(backend.received(model))) == (1, 3)


def test_asked_no_more_often_than_allowed(
    sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("again-chat")
    backend.respond_with(model, lambda _: REFUSED)
    assert request_error("responses", "raw", sdk, model).status_code == 503
    assert len(backend.received(model)) == 3


def test_never_asked_again_after_the_first_byte(
    sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("again-chat")
    backend.enqueue(
        model,
        (stream_head(), chunk(stream_events("chat", TURN)[1]), Pause(0.02), ConnectionEnd.RESET),
    )
    with pytest.raises(openai.APIError):
        make_client("responses", sdk, model, "raw").send_question()
    assert len(backend.received(model)) == 1


def test_retry_after_is_waited_for(
    sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("again-chat")
    backend.enqueue(model, json_reply(b"{}", status=429, headers={"Retry-After": "1"}))
    backend.respond_with(model, lambda it: reply_script("chat", TURN, it.json()))
    begin = time.monotonic()
    assert make_client("responses", sdk, model, "unary").send_question().turn == TURN
    # The clocks of two processes need not agree on the last millisecond.
    assert time.monotonic() - begin > 0.9


def test_long_retry_after_is_left_to_the_client(
    sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("again-chat")
    backend.enqueue(model, json_reply(b"{}", status=429, headers={"Retry-After": "60"}))
    error = request_error("responses", "unary", sdk, model)
    assert (error.status_code, error.response.headers["retry-after"]) == (429, "60")
    assert len(backend.received(model)) == 1
