"""The definitions of the clients, their backend, and the page with their results.

The clients themselves are run by `python -m tests.clients`.
"""

import ast
import sys
from itertools import product
from pathlib import Path

import pytest

from gateway.pytest_plugin.scripted_backend import ScriptedBackend
from tests.clients.backend import HistoryError, model_name, next_turn, script_backend
from tests.clients.definitions import DRIVERS, load_clients
from tests.clients.driver_process import Run, run_driver
from tests.clients.page import CELLS, PAGE, read_results, render_page
from tests.clients.quirks import OF_BACKEND, apply_quirk, quirk_names
from tests.gateway.backend_replies import Call, Turn, stream_events
from tests.gateway.gateway_config import DIALECTS
from tests.judges.reading import JsonObject
from tests.judges.samples import encoded

CLIENTS = load_clients()


def test_definitions_are_consistent() -> None:
    assert len({one.name for one in CLIENTS}) == len(CLIENTS)
    packages = {one.environment: one.packages for one in CLIENTS}
    for client in CLIENTS:
        assert client.dialect in DIALECTS
        assert client.packages == packages[client.environment], client.name
        assert (DRIVERS / client.driver).exists(), client.driver


@pytest.mark.parametrize("driver", sorted(DRIVERS.glob("*.py")), ids=lambda path: path.name)
def test_driver_is_valid_python(driver: Path) -> None:
    ast.parse(driver.read_text())


def test_page_shows_the_results() -> None:
    results = read_results()
    assert PAGE.read_text() == render_page(CLIENTS, results)
    assert {cell for result in results.values() for cell in result.passed} <= set(CELLS)


@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_driver_has_the_conversation(dialect: str, tmp_path: Path) -> None:
    with ScriptedBackend() as backend:
        script_backend(backend)
        runs = [
            Run(f"{backend.address}/{dialect}/v1", model_name(dialect, quirk), stream)
            for quirk, stream in product(("none", "ids same"), (False, True))
        ]
        command = [sys.executable, str(DRIVERS / "openai_python.py"), dialect]
        *canonical, unary, streamed = run_driver(command, tmp_path, runs)
    assert canonical == [None, None]
    assert unary is not None
    assert streamed is not None


def test_driver_that_ends_is_started_again(tmp_path: Path) -> None:
    runs = [Run("http://127.0.0.1:9", "m", stream=False)] * 2
    command = [sys.executable, "-c", "input()"]
    assert [*run_driver(command, tmp_path, runs)] == ["the driver ended without a result"] * 2


TWO_CALLS = Turn(calls=(Call("get_weather", '{"city": "a"}'), Call("get_time", '{"city": "b"}')))


@pytest.mark.parametrize(
    ("dialect", "quirk"),
    [(dialect, quirk) for dialect in DIALECTS for quirk in quirk_names(dialect, streamed=True)],
)
def test_every_quirk_changes_the_stream(dialect: str, quirk: str) -> None:
    turn = TWO_CALLS.for_legacy() if dialect == "legacy" else TWO_CALLS
    events = [event for event in stream_events(dialect, turn) if b"[DONE]" not in event]
    bodies = [event.partition(b"data: ")[2] for event in events]
    changed = [encoded(payload) for payload in apply_quirk(quirk, bodies, dialect)]
    unchanged = [encoded(payload) for payload in apply_quirk("none", bodies, dialect)]
    assert (changed == unchanged) == (quirk in OF_BACKEND or quirk == "none")


TOOLS: JsonObject = {
    "tools": [
        {"type": "function", "function": {"name": f"tools-{name}"}}
        for name in ("get_weather", "get_time")
    ]
}


def _history(*results: tuple[str, str]) -> JsonObject:
    calls = [
        {"id": call_id, "function": {"name": f"tools-{name}", "arguments": arguments}}
        for call_id, name, arguments in (
            ("call_1", "get_weather", '{"city":"Zürich"}'),
            ("call_2", "get_time", '{"city":"東京"}'),
        )
    ]
    messages: list[JsonObject] = [
        {"role": "user", "content": [{"type": "text", "text": "Question"}]},
        {"role": "assistant", "content": None, "tool_calls": calls},
    ]
    for call_id, text in results:
        messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
    return {**TOOLS, "messages": messages}


def test_answer_links_results_to_their_calls() -> None:
    turn = next_turn(_history(("call_2", "noon"), ("call_1", '"sunny"')), "chat")
    assert turn == Turn("sunny / noon")


def test_one_of_two_results_is_refused() -> None:
    with pytest.raises(HistoryError, match="only"):
        next_turn(_history(("call_1", "sunny")) | {"model": "m"}, "chat")


def test_serial_client_gets_the_next_call_under_its_own_name() -> None:
    turn = next_turn(_history(("call_1", "sunny")) | {"model": "serial-m"}, "chat")
    assert [call.name for call in turn.calls] == ["tools-get_time"]


def test_unknown_call_is_refused() -> None:
    with pytest.raises(HistoryError, match="unknown call"):
        next_turn(_history(("call_3", "sunny")), "chat")
