"""Turns of Codex with backends that support only functions: a shell, a patch, an MCP server.

The client is a small imitation of Codex with recorded requests. Codex takes items from
`response.output_item.done`, requires `response.completed` at the end, and identifies a tool by
type, name and namespace; it does not run any other call.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.gateway.backend_replies import Call, Turn
from tests.gateway.backend_requests import ParsedRequest, parse_request
from tests.gateway.background.requests import events_of
from tests.gateway.conftest import Harness
from tests.judges.reading import JsonObject, object_in, objects_in, text_in

# The captured tools, shortened.


def function_tool(name: str, description: str, parameter: str, schema: JsonObject) -> JsonObject:
    """Return a function with one parameter."""
    parameters = {"type": "object", "properties": {parameter: schema}, "required": [parameter]}
    tool: JsonObject = {"type": "function", "name": name, "description": description}
    return {**tool, "strict": False, "parameters": {**parameters, "additionalProperties": False}}


COMMAND: JsonObject = {"type": "string", "description": "Shell command to execute."}
EXEC_COMMAND_TOOL = function_tool("exec_command", "Runs a command in a PTY.", "cmd", COMMAND)
APPLY_PATCH_TOOL: JsonObject = {
    "type": "custom",
    "name": "apply_patch",
    "description": "The `apply_patch` tool can be used to edit files. This is a FREEFORM tool, so "
    "do not wrap the patch in JSON.",
    "format": {
        "type": "grammar",
        "syntax": "lark",
        "definition": 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF\n'
        'end_patch: "*** End Patch" LF?\nhunk: "*** Add File: " /(.+)/ LF add_line+\n'
        'add_line: "+" /(.*)/ LF -> line\n%import common.LF\n',
    },
}
WEATHER_NAMESPACE: JsonObject = {
    "type": "namespace",
    "name": "mcp__weather",
    "description": "Tools in the mcp__weather namespace.",
    "tools": [function_tool("get_weather", "Weather of a city ☃", "city", {"type": "string"})],
}
TOOL_SEARCH: JsonObject = {
    "type": "tool_search",
    "execution": "client",
    "description": "# Tool discovery",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "number"}},
        "required": ["query"],
        "additionalProperties": False,
    },
}
WEB_SEARCH: JsonObject = {"type": "web_search", "external_web_access": True}


SETTINGS: JsonObject = {
    "stream": True,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "019a8f00-0000-7000-8000-000000000006",
    "client_metadata": {"turn_id": "019a8f00"},
}


def run_codex(
    harness: Harness, dialect: str, folder: Path, turns: list[Turn], *tools: JsonObject
) -> list[ParsedRequest]:
    """Run a conversation to its last turn, and return the requests to the backend."""
    model = harness.script(dialect, *turns)
    body = {**SETTINGS, "model": model, "tools": [EXEC_COMMAND_TOOL, *tools, WEB_SEARCH]}
    history = [_message("developer", "You are Codex."), _message("user", "Go")]
    for _ in turns:
        items = _send_turn(harness, {**body, "input": history})
        history += items
        history += [output for item in items for output in _run_tool(item, folder)]
    text = "".join(text_in(part, "text") for part in objects_in(history[-1], "content"))
    assert text == turns[-1].text
    requests = harness.backend.received(model)
    assert len(requests) == len(turns)
    return [parse_request(dialect, request) for request in requests]


def _send_turn(harness: Harness, body: JsonObject) -> list[JsonObject]:
    # Codex writes compact JSON.
    compact = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    events = events_of(harness.post(compact).body)
    assert events[-1]["type"] == "response.completed", events[-1]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    return [object_in(event, "item") for event in done]


def _run_tool(item: JsonObject, folder: Path) -> list[JsonObject]:
    """Run a call and return its output."""
    match item:
        case {"type": "message" | "reasoning"}:
            return []
        case {"type": "function_call", "name": "exec_command"} if "namespace" not in item:
            return [_output(item, _execute(_argument(item, "cmd"), folder))]
        case {"type": "function_call", "name": "get_weather", "namespace": "mcp__weather"}:
            weather = f"{_argument(item, 'city')}: 21°c"
            return [_output(item, [{"type": "input_text", "text": weather}])]
        case {"type": "custom_tool_call", "name": "apply_patch"}:
            output = _apply_patch(text_in(item, "input"), folder)
            return [_output(item, output, "custom_tool_call")]
        case {"type": "tool_search_call", "execution": "client"}:
            # Unlike those of a function, the arguments are an object.
            assert text_in(object_in(item, "arguments"), "query")
            found: JsonObject = {"type": "tool_search_output", "status": "completed"}
            found |= {"call_id": item["call_id"], "execution": "client"}
            return [{**found, "tools": [WEATHER_NAMESPACE]}]
        case _:
            raise AssertionError(f"unsupported call: {item}")


def _argument(item: JsonObject, name: str) -> str:
    return text_in(json.loads(text_in(item, "arguments")), name)


def _execute(command: str, folder: Path) -> str:
    shell = ("bash", "-c", command)
    return subprocess.check_output(shell, cwd=folder).decode()  # noqa: S603 - our own script


def _apply_patch(patch: str, folder: Path) -> str:
    """Apply a patch that adds one file."""
    begin, add, *lines, end = patch.splitlines()
    assert (begin, end) == ("*** Begin Patch", "*** End Patch")
    name = add.removeprefix("*** Add File: ")
    assert all(line.startswith("+") for line in lines)
    (folder / name).write_text("".join(f"{line[1:]}\n" for line in lines))
    return f"Success. Updated the following files:\nA {name}\n"


def _message(role: str, text: str) -> JsonObject:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def _output(item: JsonObject, output: object, kind: str = "function_call") -> JsonObject:
    return {"type": f"{kind}_output", "call_id": item["call_id"], "output": output}


# Tests

FILE = 'héllo "patch" \\ 🦜\n\nlast line\n'
PATCHED = "*** Begin Patch\n*** Add File: patched_☃.txt\n" + "".join(
    f"+{line}\n" for line in FILE.splitlines()
)
every_backend = pytest.mark.parametrize("dialect", ["chat", "legacy"])


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
