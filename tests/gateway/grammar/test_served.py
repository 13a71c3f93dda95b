"""The gateway judges inputs by the grammars of their tools, and is held up by none."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.adapters.test_loops import streamed
from tests.gateway.calling import Answered, call, post
from tests.gateway.conftest import assert_no_fault, backend_table, capability
from tests.gateway.keeping import until
from tests.gateway.process import Gateway, running
from tests.gateway.scripted import Received, Script, ScriptedBackend, answer, stream
from tests.judges.reading import JsonObject
from tests.judges.samples import encoded

NAME = "judged"
SLOW_TEXT = "a" * 60


@pytest.fixture(scope="module")
def judging(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    table = backend_table(backend.address, NAME, "chat", capability("check_grammars = true"))
    with running(table, tmp_path_factory.mktemp("judged")) as gateway:
        yield gateway
    assert_no_fault(gateway)


def called(asked: Received, text: str) -> Script:
    function = {"name": "say", "arguments": encoded({"input": text}).decode()}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    reply = encoded(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1794787200,
            "model": NAME,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        }
    )
    return stream(streamed("chat", reply)) if asked.json().get("stream") else answer(reply)


def ask(gateway: Gateway, model: str, expression: str, *, streams: bool = False) -> Answered:
    form = {"type": "grammar", "syntax": "regex", "definition": expression}
    tool: JsonObject = {"type": "custom", "name": "say", "format": form}
    body: JsonObject = {"model": model, "input": "Go.", "tools": [tool], "stream": streams}
    return post(gateway, "/v1/responses", encoded(body))


def test_an_input_against_its_grammar_is_reported(
    judging: Gateway, backend: ScriptedBackend
) -> None:
    model = f"{NAME}-against"
    backend.play_always(model, lambda asked: called(asked, "b"))
    # The process that judges may take longer to start than an answer waits for it.
    until(lambda: "does not keep" in ask(judging, model, "a").headers.get("dragoman-loss", ""))
    whole = ask(judging, model, "a")
    assert whole.status == 200
    assert "does not keep to the grammar" in whole.headers["dragoman-loss"]
    kept = ask(judging, model, "b")
    assert "does not keep to the grammar" not in kept.headers["dragoman-loss"]
    told = ask(judging, model, "a", streams=True)
    assert b"response.completed" in told.body


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_others_are_served_while_a_grammar_takes_forever(
    streams: bool,  # noqa: FBT001 - pytest gives it by its name
    judging: Gateway,
    backend: ScriptedBackend,
) -> None:
    model = f"{NAME}-slow-{streams}"
    backend.play_always(model, lambda asked: called(asked, SLOW_TEXT))
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ask, judging, model, "(a+)+b", streams=streams)
        backend.wait(model, 1)
        served = 0
        while not slow.done():
            assert call(judging, "GET", "/health").status == 200
            served += 1
        assert slow.result().status == 200
    assert SLOW_TEXT.encode() in slow.result().body
    # One that is held up serves nobody until the judgement is there; a few come before it begins.
    assert served > 3
