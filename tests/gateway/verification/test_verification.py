"""Both versions of a program are run, and their requests are compared."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from adapters.conformance import Object
from gateway.recording.diff_output import make_console
from gateway.verification.conversation import (
    RequestPair,
    ToolRun,
    pair_requests,
    read_conversation,
)
from gateway.verification.program import copy_folder, run_program
from gateway.verification.server import run_recording_gateway
from gateway.verification.verify import Commands, Verification, Version, print_report, verify
from tests.gateway.cli import command_line as cli

COMMAND = f"{sys.executable} app.py"
LEGACY = """
import json
from openai import OpenAI

client = OpenAI()
functions = [{
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}]
messages = [{"role": "user", "content": "How warm is it in Paris and in Oslo?"}]
while True:
    reply = client.chat.completions.create(model="m", messages=messages, functions=functions)
    message = reply.choices[0].message
    if not message.function_call:
        break
    call = message.function_call
    result = str(len(json.loads(call.arguments)["city"]))
    messages.append({"role": "assistant", "content": None, "function_call": call})
    messages.append({"role": "function", "name": call.name, "content": result})
print(message.content)
"""
# Written by hand, with `previous_response_id`, which the comparison resolves.
RESPONSES = """
import json
from openai import OpenAI

client = OpenAI()
tools = [{
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}]
items, previous = [{"role": "user", "content": "How warm is it in Paris and in Oslo?"}], None
while True:
    reply = client.responses.create(
        model="m", input=items, tools=tools, previous_response_id=previous
    )
    calls = [item for item in reply.output if item.type == "function_call"]
    if not calls:
        break
    previous, items = reply.id, []
    for call in calls:
        result = str(len(json.loads(call.arguments)["city"]))
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
print(reply.output_text)
"""
RUNS = [
    ToolRun("get_weather", '{"city":"Oslo"}', "4"),
    ToolRun("get_weather", '{"city":"Paris"}', "5"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "app.py").write_text(LEGACY)
    return folder


def test_rewritten_program_is_verified_before_it_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = cli.run("migrate code --write --verify", b"", COMMAND, "app.py")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[1] == "  exit code 0, requests: 3 legacy"
    assert lines[3:9] == [
        "  exit code 0, requests: 3 chat",
        "requests: 3 equal, 0 different",
        "tools:",
        *(f"  {run}" for run in RUNS),
        "verified",
    ]
    assert "function_call" not in (folder / "app.py").read_text()
    # Nothing is left to compare.
    result = cli.run("migrate code --verify", b"", COMMAND, "app.py")
    assert (result.exit_code, result.stderr) == (0, "no legacy code was found\n")


def test_recorded_replies_and_previous_responses(folder: Path, tmp_path: Path) -> None:
    recordings = tmp_path / "recordings"
    with run_recording_gateway(recordings, None) as address:
        assert run_program(COMMAND, folder, address).exit_code == 0
    found = verify(
        folder, {Path("app.py"): RESPONSES.encode()}, Commands(COMMAND, COMMAND), recordings
    )
    assert found.faults() == []
    assert found.rewritten.conversation.dialects == {"responses": 3}
    assert found.rewritten.conversation.tool_runs() == RUNS
    assert (folder / "app.py").read_text() == LEGACY


def test_differences_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The result is another one, and the program still sends functions.
    wrong = LEGACY.replace("str(len(", "str(1 + len(").replace("print(", "raise SystemExit(3); (")
    found = verify(folder, {Path("app.py"): wrong.encode()}, Commands(COMMAND, COMMAND))
    assert found.faults() == [
        "the rewritten program sent legacy requests",
        "the requests differ",
        "the tools or their arguments differ",
        "the exit codes differ",
    ]
    print_report(make_console(), found)
    printed = capsys.readouterr().out
    assert "requests: 1 equal, 2 different" in printed
    assert '- get_weather({"city":"Paris"}) -> 5' in printed
    assert '+ get_weather({"city":"Paris"}) -> 6' in printed
    assert "output: differs" in printed


def test_program_without_requests_is_not_verified(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_TYPE", raising=False)
    command = 'echo "$OPENAI_API_BASE $OPENAI_API_TYPE" >&2; exit 4'
    run = run_program(command, folder, "http://127.0.0.1:1")
    version = Version(command, run, read_conversation(folder))
    found = Verification(version, version, [])
    assert found.faults() == [
        "the original program failed",
        "the original program sent no request to the given base URL",
        "the original program sent no legacy request",
    ]
    print_report(make_console(), found)
    printed = capsys.readouterr().out
    assert "exit code 4, requests: none\n  http://127.0.0.1:1/v1 openai\n" in printed
    assert "tools: none were called" in printed


def _request(text: str) -> Object:
    return {"messages": [{"role": "user", "content": text}]}


def test_requests_are_paired_by_meaning() -> None:
    first, second, third = (_request(text) for text in "abc")
    original = [first, second]
    assert pair_requests(original, [second, first]) == [
        RequestPair(1, 2, []),
        RequestPair(2, 1, []),
    ]
    changed, extra = pair_requests([first], [third, second])
    assert (changed.original, changed.rewritten, len(changed.differences)) == (1, 1, 1)
    assert extra == RequestPair(None, 2, [])
    assert pair_requests([first], []) == [RequestPair(1, None, [])]


def test_environments_are_linked_in_a_copy(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for name in ("node_modules", ".git", "env", "src"):
        (folder / name).mkdir(parents=True)
    (folder / "env" / "pyvenv.cfg").touch()
    (folder / "src" / "app.py").write_text("1")
    copy_folder(folder, tmp_path / "copy")
    found = {path.name: path.is_symlink() for path in (tmp_path / "copy").iterdir()}
    assert found == {"node_modules": True, "env": True, "src": False}
    (tmp_path / "copy" / "src" / "app.py").write_text("2")
    assert (folder / "src" / "app.py").read_text() == "1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--verify-original", "a"], "--verify-original and --verify-replies need --verify."),
        (["--verify", "a"], "is not below the working directory"),
    ],
)
def test_usage_errors(options: list[str], message: str, folder: Path) -> None:
    result = cli.run("migrate code", b"", *options, str(folder / "app.py"))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def _no_gateway(_recordings: Path, _replies: Path | None) -> nullcontext[str]:
    return nullcontext("http://127.0.0.1:1")


def test_program_that_is_not_verified_is_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("gateway.verification.verify.run_recording_gateway", _no_gateway)
    result = cli.run("migrate code --write --verify", b"", "exit 3", "app.py")
    assert result.exit_code == 1
    assert "not verified: the original program failed" in result.stdout
    assert (folder / "app.py").read_text() == LEGACY
