"""Turns of Codex with backends that support only functions: a shell, a patch, an MCP server."""

from pathlib import Path

import pytest

from tests.gateway.backend_replies import Call, Turn
from tests.gateway.backend_requests import ParsedRequest, parse_request
from tests.gateway.codex_client import APPLY_PATCH_TOOL, TOOL_SEARCH, WEATHER_NAMESPACE, CodexClient
from tests.gateway.conftest import Harness
from tests.judges.reading import JsonObject

FILE = 'héllo "patch" \\ 🦜\n\nlast line\n'
PATCHED = "*** Begin Patch\n*** Add File: patched_☃.txt\n" + "".join(
    f"+{line}\n" for line in FILE.splitlines()
)
every_backend = pytest.mark.parametrize("dialect", ["chat", "legacy"])


def run_codex(
    harness: Harness, dialect: str, folder: Path, turns: list[Turn], *tools: JsonObject
) -> list[ParsedRequest]:
    """Run a conversation to its last turn, and return the requests to the backend."""
    model = harness.script(dialect, *turns)
    assert CodexClient(harness.gateway.url, model, folder, *tools).run() == turns[-1].text
    requests = harness.backend.received(model)
    assert len(requests) == len(turns)
    return [parse_request(dialect, request) for request in requests]


@every_backend
def test_codex_runs_a_command(dialect: str, harness: Harness, tmp_path: Path) -> None:
    call = Call("exec_command", '{"cmd": "echo dragoman-$((6*7)) > it.txt; cat it.txt"}')
    turns = [Turn("Let me look.", (call,)), Turn("It is 42.")]
    *_, request = run_codex(harness, dialect, tmp_path, turns)
    assert (tmp_path / "it.txt").read_text() == "dragoman-42\n"
    assert request.results == ((call, "dragoman-42\n"),)


@every_backend
def test_codex_applies_a_patch(dialect: str, harness: Harness, tmp_path: Path) -> None:
    escaped = PATCHED.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    call = Call("apply_patch", f'{{ "input": "{escaped}*** End Patch\\n"}}')
    turns = [Turn(None, (call,)), Turn("Done ✅.")]
    *_, request = run_codex(harness, dialect, tmp_path, turns, APPLY_PATCH_TOOL)
    assert (tmp_path / "patched_☃.txt").read_text() == FILE
    assert request.tools == ("exec_command", "apply_patch")
    ((again, output),) = request.results
    # The gateway writes the arguments in its own format.
    assert again == Call("apply_patch", call.arguments.replace('{ "input": ', '{"input":'))
    assert output.startswith("Success.")


@every_backend
def test_codex_calls_a_tool_of_a_namespace(dialect: str, harness: Harness, tmp_path: Path) -> None:
    call = Call("mcp__weather__get_weather", '{"city":  "Z\\u00fcrich"}')
    turns = [Turn(None, (call,)), Turn("Warm.")]
    *_, request = run_codex(harness, dialect, tmp_path, turns, WEATHER_NAMESPACE)
    assert request.tools == ("exec_command", "mcp__weather__get_weather")
    assert request.results == ((call, "Zürich: 21°c"),)


@every_backend
def test_codex_finds_a_tool_and_calls_it(dialect: str, harness: Harness, tmp_path: Path) -> None:
    search = Call("tool_search", '{"query":"weather"}')
    # The model changes the separator of the name.
    call = Call("mcp__weather.get_weather", '{"city":"Oslo"}')
    turns = [Turn(None, (search,)), Turn(None, (call,)), Turn("Cold.")]
    first, _, last = run_codex(harness, dialect, tmp_path, turns, TOOL_SEARCH)
    assert first.tools == ("exec_command", "tool_search")
    assert last.tools == ("exec_command", "tool_search", "mcp__weather__get_weather")
    (searched, found), (called, output) = last.results
    assert searched == search
    assert "- mcp__weather__get_weather: Weather of a city ☃" in found
    assert (called.name, output) == ("mcp__weather__get_weather", "Oslo: 21°c")
