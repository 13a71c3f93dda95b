"""Turns of Codex over backends that know only functions: a shell, a patch, a server of tools."""

from pathlib import Path

import pytest

from tests.gateway.backend_replies import Call, Turn, reply_script
from tests.gateway.backend_requests import parse_request
from tests.gateway.codex_client import (
    APPLY_PATCH_TOOL,
    TOOL_SEARCH,
    WEATHER_NAMESPACE,
    CodexClient,
)
from tests.gateway.conftest import Harness

FILE = 'héllo "patch" \\ 🦜\n\nlast line\n'
PATCHED = "*** Begin Patch\n*** Add File: patched_☃.txt\n" + "".join(
    f"+{line}\n" for line in FILE.splitlines()
)
BACKENDS = ("chat", "legacy")


def converse(harness: Harness, spoken: str, codex: CodexClient, model: str, *turns: Turn) -> str:
    left = iter(turns)
    harness.backend.respond_with(model, lambda it: reply_script(spoken, next(left), it.json()))
    said = codex.run()
    assert next(left, None) is None
    return said


@pytest.mark.parametrize("spoken", BACKENDS)
def test_codex_runs_a_command(spoken: str, harness: Harness, tmp_path: Path) -> None:
    model = harness.new_model(spoken)
    codex = CodexClient(harness.gateway.url, model, tmp_path)
    call = Call("exec_command", '{"cmd": "echo dragoman-$((6*7)) > it.txt; cat it.txt"}')
    said = converse(harness, spoken, codex, model, Turn("Let me look.", (call,)), Turn("It is 42."))
    assert said == "It is 42."
    assert (tmp_path / "it.txt").read_text() == "dragoman-42\n"
    asked = parse_request(spoken, harness.backend.wait_for_request(model, 2))
    assert asked.results == ((call, "dragoman-42\n"),)


@pytest.mark.parametrize("spoken", BACKENDS)
def test_codex_applies_a_patch(spoken: str, harness: Harness, tmp_path: Path) -> None:
    model = harness.new_model(spoken)
    codex = CodexClient(harness.gateway.url, model, tmp_path, APPLY_PATCH_TOOL)
    escaped = PATCHED.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    call = Call("apply_patch", f'{{ "input": "{escaped}*** End Patch\\n"}}')
    said = converse(harness, spoken, codex, model, Turn(None, (call,)), Turn("Done ✅."))
    assert said == "Done ✅."
    assert (tmp_path / "patched_☃.txt").read_text() == FILE
    asked = parse_request(spoken, harness.backend.wait_for_request(model, 2))
    assert asked.tools == ("exec_command", "apply_patch")
    ((again, output),) = asked.results
    # The history says it as we say it.
    assert again == Call("apply_patch", call.arguments.replace('{ "input": ', '{"input":'))
    assert output.startswith("Success.")


@pytest.mark.parametrize("spoken", BACKENDS)
def test_codex_calls_a_tool_of_a_server(spoken: str, harness: Harness, tmp_path: Path) -> None:
    model = harness.new_model(spoken)
    codex = CodexClient(harness.gateway.url, model, tmp_path, WEATHER_NAMESPACE)
    call = Call("mcp__weather__get_weather", '{"city":  "Z\\u00fcrich"}')
    said = converse(harness, spoken, codex, model, Turn(None, (call,)), Turn("Warm."))
    assert said == "Warm."
    asked = parse_request(spoken, harness.backend.wait_for_request(model, 2))
    assert asked.tools == ("exec_command", "mcp__weather__get_weather")
    assert asked.results == ((call, "Zürich: 21°c"),)


@pytest.mark.parametrize("spoken", BACKENDS)
def test_codex_searches_for_a_tool_and_calls_it(
    spoken: str, harness: Harness, tmp_path: Path
) -> None:
    model = harness.new_model(spoken)
    codex = CodexClient(harness.gateway.url, model, tmp_path, TOOL_SEARCH)
    search = Call("tool_search", '{"query":"weather"}')
    # The model does not say the name quite as it was told.
    call = Call("mcp__weather.get_weather", '{"city":"Oslo"}')
    turns = (Turn(None, (search,)), Turn(None, (call,)), Turn("Cold."))
    assert converse(harness, spoken, codex, model, *turns) == "Cold."
    first = parse_request(spoken, harness.backend.wait_for_request(model, 1))
    assert first.tools == ("exec_command", "tool_search")
    last = parse_request(spoken, harness.backend.wait_for_request(model, 3))
    assert last.tools == ("exec_command", "tool_search", "mcp__weather__get_weather")
    (searched, found), (called, told) = last.results
    assert searched == search
    assert "- mcp__weather__get_weather: Weather of a city ☃" in found
    assert (called.name, told) == ("mcp__weather__get_weather", "Oslo: 21°c")
