"""How long a backend is waited for, and when it is asked again."""

import time

import openai
import pytest

from tests.gateway.clients import failure, make_client
from tests.gateway.conftest import DIALECTS, Fresh
from tests.gateway.scripted import (
    JSON,
    PATIENCE,
    End,
    Gate,
    Pause,
    Script,
    ScriptedBackend,
    Step,
    answer,
    begun,
    chunk,
    head,
    stream,
)
from tests.gateway.speech import Turn, frames, script

TURN = Turn("One two three four five six.")

every_client = pytest.mark.parametrize("client", DIALECTS)
both_modes = pytest.mark.parametrize("mode", ["unary", "raw"])


# Slow

SLOW: dict[str, tuple[str, Script]] = {
    "no first byte": ("late-chat", (Gate(),)),
    "no body": ("silent-chat", (begun(), Gate())),
    "a silent whole": ("silent-chat", (head(200, {**JSON, "Content-Length": "9"}), b"{", Gate())),
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
    name: str, client: str, mode: str, sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    kind, slow = SLOW[name]
    model = fresh(kind)
    backend.play(model, slow)
    error = failure(client, mode, sdk, model)
    assert (error.status_code, error.code) == (504, "backend_timeout")
    # The backend's work is ended, too.
    assert backend.wait(model).closed.wait(PATIENCE)


def falls_silent(said: list[bytes]) -> Script:
    """Say this in one piece, in which nobody pauses for too long, and nothing more."""
    return (begun() + chunk(b"".join(said)), Gate())


@every_client
def test_stream_that_falls_silent_ends_with_an_error(
    client: str, sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("silent-chat")
    backend.play(model, falls_silent(frames("chat", TURN)[:4]))
    with pytest.raises(openai.APIError, match=r"0\.5 seconds"):
        make_client(client, sdk, model, "raw").ask()
    assert backend.wait(model).closed.wait(PATIENCE)


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
    fresh: Fresh,
) -> None:
    """A server that says no last word, and keeps the connection open (P156)."""
    model = fresh("silent-chat" if mode == "raw" else "hanging-chat")
    backend.play(model, falls_silent(frames("chat", TURN)[:said]))
    assert make_client(client, sdk, model, mode).ask().turn == TURN
    assert backend.wait(model).closed.wait(PATIENCE)


@both_modes
def test_answer_that_takes_too_long_as_a_whole(
    mode: str, sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("endless-chat")
    drops: list[Step] = [part for _ in range(200) for part in (b": drop\n\n", Pause(0.05))]
    backend.play(model, stream(*frames("chat", TURN)[:4], *drops))
    with pytest.raises(openai.APIError, match="in time"):
        make_client("responses", sdk, model, mode).ask()
    assert backend.wait(model).closed.wait(PATIENCE)


def test_slow_answer_within_the_limits_is_whole(
    sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("steady-chat")
    said = frames("chat", TURN)
    # All in all it takes longer than a pause may.
    backend.play(model, stream(*(part for frame in said for part in (frame, Pause(0.8)))))
    assert make_client("responses", sdk, model, "raw").ask().turn == TURN


# Asked again

REFUSED = answer(b'{"error":{"message":"busy"}}', status=503)


@both_modes
@every_client
def test_asked_again_before_the_first_byte(
    client: str, mode: str, sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("again-chat")
    backend.play(model, REFUSED, (End.CLOSE,))
    backend.play_always(model, lambda it: script("chat", TURN, it.json()))
    assert make_client(client, sdk, model, mode).ask().turn == TURN
    bodies = {request.body for request in backend.received(model)}
    assert (len(bodies), len(backend.received(model))) == (1, 3)


def test_asked_no_more_often_than_allowed(
    sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("again-chat")
    backend.play_always(model, lambda _: REFUSED)
    assert failure("responses", "raw", sdk, model).status_code == 503
    assert len(backend.received(model)) == 3


def test_never_asked_again_after_the_first_byte(
    sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("again-chat")
    backend.play(model, (begun(), chunk(frames("chat", TURN)[1]), Pause(0.02), End.RESET))
    with pytest.raises(openai.APIError):
        make_client("responses", sdk, model, "raw").ask()
    assert len(backend.received(model)) == 1


def test_retry_after_is_waited_for(
    sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("again-chat")
    backend.play(model, answer(b"{}", status=429, headers={"Retry-After": "1"}))
    backend.play_always(model, lambda it: script("chat", TURN, it.json()))
    begin = time.monotonic()
    assert make_client("responses", sdk, model, "unary").ask().turn == TURN
    # The clocks of two processes need not agree on the last millisecond.
    assert time.monotonic() - begin > 0.9


def test_long_retry_after_is_left_to_the_client(
    sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("again-chat")
    backend.play(model, answer(b"{}", status=429, headers={"Retry-After": "60"}))
    error = failure("responses", "unary", sdk, model)
    assert (error.status_code, error.response.headers["retry-after"]) == (429, "60")
    assert len(backend.received(model)) == 1
