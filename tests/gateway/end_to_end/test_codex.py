"""Turns of Codex over backends that know only functions: a shell, a patch, a server of tools."""

from pathlib import Path

import pytest

from tests.gateway.asked import read_asked
from tests.gateway.codex import PATCH, SEARCH, WEATHER, Codex
from tests.gateway.conftest import Scene
from tests.gateway.speech import Call, Turn, script

FILE = 'héllo "patch" \\ 🦜\n\nlast line\n'
PATCHED = "*** Begin Patch\n*** Add File: patched_☃.txt\n" + "".join(
    f"+{line}\n" for line in FILE.splitlines()
)
BACKENDS = ("chat", "legacy")


def converse(scene: Scene, spoken: str, codex: Codex, model: str, *turns: Turn) -> str:
    left = iter(turns)
    scene.backend.play_always(model, lambda it: script(spoken, next(left), it.json()))
    said = codex.run()
    assert next(left, None) is None
    return said


@pytest.mark.parametrize("spoken", BACKENDS)
def test_codex_runs_a_command(spoken: str, scene: Scene, tmp_path: Path) -> None:
    model = scene.fresh(spoken)
    codex = Codex(scene.gateway.url, model, tmp_path)
    call = Call("exec_command", '{"cmd": "echo dragoman-$((6*7)) > it.txt; cat it.txt"}')
    said = converse(scene, spoken, codex, model, Turn("Let me look.", (call,)), Turn("It is 42."))
    assert said == "It is 42."
    assert (tmp_path / "it.txt").read_text() == "dragoman-42\n"
    asked = read_asked(spoken, scene.backend.wait(model, 2))
    assert asked.done == ((call, "dragoman-42\n"),)


@pytest.mark.parametrize("spoken", BACKENDS)
def test_codex_applies_a_patch(spoken: str, scene: Scene, tmp_path: Path) -> None:
    model = scene.fresh(spoken)
    codex = Codex(scene.gateway.url, model, tmp_path, PATCH)
    escaped = PATCHED.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    call = Call("apply_patch", f'{{ "input": "{escaped}*** End Patch\\n"}}')
    said = converse(scene, spoken, codex, model, Turn(None, (call,)), Turn("Done ✅."))
    assert said == "Done ✅."
    assert (tmp_path / "patched_☃.txt").read_text() == FILE
    asked = read_asked(spoken, scene.backend.wait(model, 2))
    assert asked.tools == ("exec_command", "apply_patch")
    ((again, output),) = asked.done
    # The history says it as we say it.
    assert again == Call("apply_patch", call.arguments.replace('{ "input": ', '{"input":'))
    assert output.startswith("Success.")


@pytest.mark.parametrize("spoken", BACKENDS)
def test_codex_calls_a_tool_of_a_server(spoken: str, scene: Scene, tmp_path: Path) -> None:
    model = scene.fresh(spoken)
    codex = Codex(scene.gateway.url, model, tmp_path, WEATHER)
    call = Call("mcp__weather__get_weather", '{"city":  "Z\\u00fcrich"}')
    said = converse(scene, spoken, codex, model, Turn(None, (call,)), Turn("Warm."))
    assert said == "Warm."
    asked = read_asked(spoken, scene.backend.wait(model, 2))
    assert asked.tools == ("exec_command", "mcp__weather__get_weather")
    assert asked.done == ((call, "Zürich: 21°c"),)


@pytest.mark.parametrize("spoken", BACKENDS)
def test_codex_searches_for_a_tool_and_calls_it(spoken: str, scene: Scene, tmp_path: Path) -> None:
    model = scene.fresh(spoken)
    codex = Codex(scene.gateway.url, model, tmp_path, SEARCH)
    search = Call("tool_search", '{"query":"weather"}')
    # The model does not say the name quite as it was told.
    call = Call("mcp__weather.get_weather", '{"city":"Oslo"}')
    turns = (Turn(None, (search,)), Turn(None, (call,)), Turn("Cold."))
    assert converse(scene, spoken, codex, model, *turns) == "Cold."
    first = read_asked(spoken, scene.backend.wait(model, 1))
    assert first.tools == ("exec_command", "tool_search")
    last = read_asked(spoken, scene.backend.wait(model, 3))
    assert last.tools == ("exec_command", "tool_search", "mcp__weather__get_weather")
    (searched, found), (called, told) = last.done
    assert searched == search
    assert "- mcp__weather__get_weather: Weather of a city ☃" in found
    assert (called.name, told) == ("mcp__weather__get_weather", "Oslo: 21°c")
