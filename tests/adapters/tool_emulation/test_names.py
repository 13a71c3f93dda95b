"""Valid names, qualified names and the resolution of hallucinated names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.tool_emulation.registry import (
    ToolName,
    qualified_name,
    resolve_undeclared_name,
    sanitize_name,
)

VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=90)

EXEC = ToolName("exec", "exec", "functions")
WEATHER = ToolName("mcp__weather__get_weather", "get_weather", "mcp__weather")
READ = ToolName("files_read", "files.read")
SHELL = ToolName("shell", "shell")


CALLED_AS: dict[ToolName | None, tuple[str, ...]] = {
    EXEC: ("functions.exec", "functions/exec", "functions__exec", "exec", "Exec"),
    WEATHER: (
        *("mcp__weather.get_weather", "mcp-weather-get-weather", "get_weather"),
        *("functions.get_weather", "GetWeather"),
    ),
    READ: ("files.read", "functions.files_read"),
    SHELL: ("Shell", "functions.shell", "container.shell"),
    None: ("container.exec", "rm", ""),
}

PARTS = st.sampled_from(("a", "b", "A", "tools", "_", ".", "__", "/", "-"))
CALLED = st.lists(PARTS, min_size=1, max_size=5).map("".join)


@given(NAMES)
def test_sanitized_names_are_valid(name: str) -> None:
    valid = sanitize_name(name)
    assert VALID.fullmatch(valid)
    assert sanitize_name(valid) == valid
    assert valid == name or not VALID.fullmatch(name)


@given(st.lists(NAMES, unique=True))
def test_long_and_non_ascii_names_stay_unique(names: list[str]) -> None:
    hashed = [name for name in names if len(name) > 64 or not name.isascii()]
    assert len({*map(sanitize_name, hashed)}) == len(hashed)


def test_long_name_keeps_its_start() -> None:
    valid = sanitize_name("mcp_" + "x" * 80)
    assert len(valid) == 64
    assert valid.startswith("mcp_" + "x" * 51 + "_")
    assert qualified_name("mcp__weather", "get") == "mcp__weather__get"
    assert qualified_name("functions", "exec") == "exec"
    assert len(qualified_name("n" * 60, "get", 128)) == 65


@pytest.mark.parametrize(
    ("called", "expected"), [(name, tool) for tool, names in CALLED_AS.items() for name in names]
)
def test_hallucinated_name_is_resolved(called: str, expected: ToolName | None) -> None:
    assert resolve_undeclared_name(called, (EXEC, WEATHER, READ, SHELL)) == expected


def test_ambiguous_name_is_not_resolved() -> None:
    one, other = ToolName("a__exec", "exec", "a"), ToolName("b__exec", "exec", "b")
    assert resolve_undeclared_name("exec", (one, other)) is None
    assert resolve_undeclared_name("b.exec", (one, other)) == other
    runs = (ToolName("run", "run"), ToolName("RUN", "RUN"))
    assert resolve_undeclared_name("Run", runs) is None


def test_possible_namespace_is_not_ignored() -> None:
    delete, commit = ToolName("delete", "delete"), ToolName("commit", "commit")
    namespaced = ToolName("mcp__git__commit", "commit", "mcp__git")
    assert resolve_undeclared_name("container.delete", (delete, namespaced)) == delete
    assert resolve_undeclared_name("mcp__files__delete", (delete,)) is None
    assert resolve_undeclared_name("mcp_git.delete", (delete, namespaced)) is None
    assert resolve_undeclared_name("git.commit", (commit, namespaced)) is None


def tool_name(name: str, namespace: str | None) -> ToolName:
    return ToolName(qualified_name(namespace, name), name, namespace)


DECLARED = st.builds(tool_name, CALLED, st.none() | CALLED)


@given(CALLED, st.lists(DECLARED, max_size=5, unique_by=lambda tool: tool.qualified))
def test_resolution_is_unambiguous(called: str, tools: list[ToolName]) -> None:
    resolved = resolve_undeclared_name(called, tools)
    assert resolve_undeclared_name(called, tools[::-1]) == resolved
    if resolved is None:
        return
    assert letters(called).endswith(letters(resolved.name))
    similar = [tool for tool in tools if letters(called) in letters_of(tool)]
    assert similar in ([], [resolved])


def letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def letters_of(tool: ToolName) -> tuple[str, str]:
    return letters(tool.qualified), letters((tool.namespace or "") + tool.name)
