"""Turns of Codex with backends that support only functions: a shell, a patch, an MCP server."""

from pathlib import Path

import pytest

from tests.gateway.backend_replies import Call, Turn, script_turns
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


def converse(harness: Harness, dialect: str, codex: CodexClient, model: str, *turns: Turn) -> str:
    script_turns(harness.backend, dialect, model, *turns)
    text = codex.run()
    assert len(harness.backend.received(model)) == len(turns)
    return text


@pytest.mark.parametrize("dialect", BACKENDS)
def test_codex_runs_a_command(dialect: str, harness: Harness, tmp_path: Path) -> None:
    model = harness.new_model(dialect)
    codex = CodexClient(harness.gateway.url, model, tmp_path)
    call = Call("exec_command", '{"cmd": "echo dragoman-$((6*7)) > it.txt; cat it.txt"}')
    text = converse(
        harness, dialect, codex, model, Turn("Let me look.", (call,)), Turn("It is 42.")
    )
    assert text == "It is 42."
    assert (tmp_path / "it.txt").read_text() == "dragoman-42\n"
    request = parse_request(dialect, harness.backend.wait_for_request(model, 2))
    assert request.results == ((call, "dragoman-42\n"),)


@pytest.mark.parametrize("dialect", BACKENDS)
def test_codex_applies_a_patch(dialect: str, harness: Harness, tmp_path: Path) -> None:
    model = harness.new_model(dialect)
    codex = CodexClient(harness.gateway.url, model, tmp_path, APPLY_PATCH_TOOL)
    escaped = PATCHED.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    call = Call("apply_patch", f'{{ "input": "{escaped}*** End Patch\\n"}}')
    text = converse(harness, dialect, codex, model, Turn(None, (call,)), Turn("Done ✅."))
    assert text == "Done ✅."
    assert (tmp_path / "patched_☃.txt").read_text() == FILE
    request = parse_request(dialect, harness.backend.wait_for_request(model, 2))
    assert request.tools == ("exec_command", "apply_patch")
    ((again, output),) = request.results
    # The gateway writes the arguments in its own format.
    assert again == Call("apply_patch", call.arguments.replace('{ "input": ', '{"input":'))
    assert output.startswith("Success.")


@pytest.mark.parametrize("dialect", BACKENDS)
def test_codex_calls_a_tool_of_a_namespace(dialect: str, harness: Harness, tmp_path: Path) -> None:
    model = harness.new_model(dialect)
    codex = CodexClient(harness.gateway.url, model, tmp_path, WEATHER_NAMESPACE)
    call = Call("mcp__weather__get_weather", '{"city":  "Z\\u00fcrich"}')
    text = converse(harness, dialect, codex, model, Turn(None, (call,)), Turn("Warm."))
    assert text == "Warm."
    request = parse_request(dialect, harness.backend.wait_for_request(model, 2))
    assert request.tools == ("exec_command", "mcp__weather__get_weather")
    assert request.results == ((call, "Zürich: 21°c"),)


@pytest.mark.parametrize("dialect", BACKENDS)
def test_codex_searches_for_a_tool_and_calls_it(
    dialect: str, harness: Harness, tmp_path: Path
) -> None:
    model = harness.new_model(dialect)
    codex = CodexClient(harness.gateway.url, model, tmp_path, TOOL_SEARCH)
    search = Call("tool_search", '{"query":"weather"}')
    # The model changes the separator of the name.
    call = Call("mcp__weather.get_weather", '{"city":"Oslo"}')
    turns = (Turn(None, (search,)), Turn(None, (call,)), Turn("Cold."))
    assert converse(harness, dialect, codex, model, *turns) == "Cold."
    first = parse_request(dialect, harness.backend.wait_for_request(model, 1))
    assert first.tools == ("exec_command", "tool_search")
    last = parse_request(dialect, harness.backend.wait_for_request(model, 3))
    assert last.tools == ("exec_command", "tool_search", "mcp__weather__get_weather")
    (searched, found), (called, output) = last.results
    assert searched == search
    assert "- mcp__weather__get_weather: Weather of a city ☃" in found
    assert (called.name, output) == ("mcp__weather__get_weather", "Oslo: 21°c")
