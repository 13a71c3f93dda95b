"""Turns of Codex with backends that support only functions: a shell, a patch, an MCP server.

The client is a small imitation of Codex with recorded requests. Codex takes items from
`response.output_item.done`, requires `response.completed` at the end, and identifies a tool by
type, name and namespace; it does not run any other call.
"""

import json
import subprocess
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.backend_replies import Call, Turn
from tests.gateway.backend_requests import ParsedRequest, parse_request
from tests.gateway.conftest import Harness
from tests.gateway.waiting import TIMEOUT_SECONDS
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


class CodexClient:
    """One conversation."""

    def __init__(self, url: str, model: str, folder: Path, *tools: JsonObject) -> None:
        self._url = url
        self._folder = folder
        self._history: list[JsonObject] = [
            _message("developer", "You are Codex."),
            _message("user", "Go"),
        ]
        self._body: JsonObject = {
            "model": model,
            "stream": True,
            "tools": [EXEC_COMMAND_TOOL, *tools, WEB_SEARCH],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "019a8f00-0000-7000-8000-000000000006",
            "client_metadata": {"turn_id": "019a8f00"},
        }

    def run(self) -> str:
        """Run the loop until there are no calls, and return the last text."""
        for _ in range(8):
            items = self._send_turn()
            self._history += items
            outputs = [output for item in items for output in self._run_tool(item)]
            if not outputs:
                return _text(items[-1])
            self._history += outputs
        raise AssertionError("the loop does not end")

    def _send_turn(self) -> list[JsonObject]:
        body = {**self._body, "input": self._history}
        response = httpx.post(f"{self._url}/responses", json=body, timeout=TIMEOUT_SECONDS)
        lines = response.content.decode().split("\n")
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
        events = [cast("JsonObject", json.loads(one)) for one in data]
        assert events[-1]["type"] == "response.completed", events[-1]
        done = [event for event in events if event["type"] == "response.output_item.done"]
        return [object_in(event, "item") for event in done]

    def _run_tool(self, item: JsonObject) -> list[JsonObject]:
        """Run a call and return its output."""
        match item:
            case {"type": "message" | "reasoning"}:
                return []
            case {"type": "function_call", "name": "exec_command"} if "namespace" not in item:
                return [_output(item, self._execute(item))]
            case {"type": "function_call", "name": "get_weather", "namespace": "mcp__weather"}:
                city = text_in(json.loads(text_in(item, "arguments")), "city")
                return [_output(item, [{"type": "input_text", "text": f"{city}: 21°c"}])]
            case {"type": "custom_tool_call", "name": "apply_patch"}:
                output = self._apply_patch(text_in(item, "input"))
                return [_output(item, output, "custom_tool_call")]
            case {"type": "tool_search_call", "execution": "client"}:
                # Unlike those of a function, the arguments are an object.
                assert text_in(object_in(item, "arguments"), "query")
                found: JsonObject = {"type": "tool_search_output", "status": "completed"}
                found |= {"call_id": item["call_id"], "execution": "client"}
                return [{**found, "tools": [WEATHER_NAMESPACE]}]
            case _:
                raise AssertionError(f"unsupported call: {item}")

    def _execute(self, item: JsonObject) -> str:
        command = text_in(json.loads(text_in(item, "arguments")), "cmd")
        shell = ("bash", "-c", command)
        ran = subprocess.run(shell, cwd=self._folder, capture_output=True, check=True)  # noqa: S603 - our own script
        return ran.stdout.decode()

    def _apply_patch(self, patch: str) -> str:
        """Apply a patch that adds one file."""
        begin, add, *lines, end = patch.splitlines()
        assert (begin, end) == ("*** Begin Patch", "*** End Patch")
        name = add.removeprefix("*** Add File: ")
        assert all(line.startswith("+") for line in lines)
        (self._folder / name).write_text("".join(f"{line[1:]}\n" for line in lines))
        return f"Success. Updated the following files:\nA {name}\n"


def _message(role: str, text: str) -> JsonObject:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def _output(item: JsonObject, output: object, kind: str = "function_call") -> JsonObject:
    return {"type": f"{kind}_output", "call_id": item["call_id"], "output": output}


def _text(item: JsonObject) -> str:
    return "".join(text_in(part, "text") for part in objects_in(item, "content"))


# Tests

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
