"""The command line: what it writes, where, and how it ends."""

import json
import re
import shlex
import signal
import subprocess
import sysconfig
from pathlib import Path

import pytest
from rich_click import Command

from gateway.cli.main import main
from tests.gateway.cli.command_line import (
    BEGUN,
    EXAMPLE,
    REPLY,
    REQUEST,
    SENT,
    STREAM,
    one_line,
    run,
    translate,
)

# One body


def test_request_goes_out_and_losses_are_told() -> None:
    result = translate("--from chat --to responses", REQUEST)
    assert result.stdout_bytes == SENT
    assert one_line(result.stderr) == "dropped seed: the Responses API has no place for it"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("given", "kind"), [(REQUEST, "request"), (REPLY, "reply"), (STREAM, "stream")]
)
def test_same_dialect_is_verbatim(given: bytes, kind: str) -> None:
    result = translate(f"--from chat --to chat --kind {kind}", given)
    assert result.stdout_bytes.rstrip() == given.rstrip()
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (REQUEST, "a request"),
        (b"\xef\xbb\xbf \n" + REQUEST, "a request"),
        (REPLY, "a reply"),
        (b'{"error":{"message":"x"}}', "an error"),
        (STREAM, "a stream"),
        (b"\xef\xbb\xbf\n: hello\n\n" + STREAM, "a stream"),
    ],
)
def test_kind_is_guessed(given: bytes, kind: str) -> None:
    result = translate("--from chat --to responses --verbose", given)
    assert result.stderr.splitlines()[0] == f"taken for {kind}"
    assert result.exit_code == 0
    assert translate("--from chat --to legacy", given).stderr == ""


def test_reply_of_responses_is_guessed() -> None:
    reply = translate("--from chat --to responses", REPLY).stdout_bytes
    result = translate("--from responses --to chat", reply)
    assert json.loads(result.stdout)["choices"][0]["message"]["content"] == "hi"


def test_indent_is_for_people() -> None:
    result = translate("--from chat --to responses --indent", REQUEST)
    assert result.stdout.startswith('{\n  "model": "m",\n')
    assert json.loads(result.stdout) == json.loads(SENT)


def test_random_ids_unless_deterministic() -> None:
    command = "translate --from chat --to responses"
    first, second = (run(command, REPLY).stdout_bytes for _ in range(2))
    assert first != second
    command += " --deterministic"
    first, second = (run(command, REPLY).stdout_bytes for _ in range(2))
    assert first == second


def test_policy_refuses() -> None:
    body = b'{"model":"m","input":"hi","tools":[{"type":"file_search","vector_store_ids":[]}]}'
    assert translate("--from responses --to chat", body).exit_code == 0
    refused = translate("--from responses --to chat --loss refuse", body)
    assert refused.exit_code == 1
    assert refused.stdout_bytes == b""
    assert one_line(refused.stderr).startswith("dragoman: tools[0]: ")


def test_error_has_its_status() -> None:
    result = translate("--from chat --to responses --kind error --status 429", b"slow down")
    assert json.loads(result.stdout)["error"] == {
        "message": "slow down",
        "type": "rate_limit_error",
        "param": None,
        "code": None,
    }


def test_request_is_context(tmp_path: Path) -> None:
    sent = tmp_path / "sent.json"
    sent.write_bytes(b'{"model":"m","messages":[],"temperature":0.25}')
    result = translate(f"--from chat --to responses --request {sent}", REPLY)
    assert json.loads(result.stdout)["temperature"] == 0.25


def test_usage_comes_from_a_backend_that_always_tells_it(tmp_path: Path) -> None:
    sent = tmp_path / "sent.json"
    sent.write_bytes(b'{"model":"m","input":"hi"}')
    stream = translate("--from chat --to responses", STREAM).stdout_bytes
    result = translate(f"--from responses --to chat --request {sent}", stream)
    assert '"usage":{"prompt_tokens"' in result.stdout


# Capabilities


def test_capability_is_heeded() -> None:
    body = b'{"model":"m","input":[{"role":"developer","content":"x"}]}'
    for value, role in (("true", "developer"), ("false", "system")):
        options = f"--from responses --to chat --capability developer_role={value}"
        assert json.loads(translate(options, body).stdout)["messages"][0]["role"] == role


def test_profile_is_heeded_within_a_dialect_too() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x","name":"ada"}],"store":true}'
    assert translate("--from chat --to chat", body).stdout_bytes == body + b"\n"
    result = translate("--from chat --to chat --profile mistral", body)
    assert json.loads(result.stdout) == {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
    }
    assert "dropped store: the backend refuses it" in result.stderr


def test_capability_changes_the_profile() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x","name":"ada"}]}'
    options = "--from chat --to chat --capability message_names=true --profile mistral"
    assert json.loads(translate(options, body).stdout) == json.loads(body)


@pytest.mark.parametrize("value", ["low,high", '["low","high"]'])
def test_capability_may_be_a_list(value: str) -> None:
    body = b'{"model":"m","input":"x","reasoning":{"effort":"max"}}'
    options = "--from responses --to chat --capability"
    result = translate(options, body, f"reasoning_efforts={value}")
    assert json.loads(result.stdout)["reasoning_effort"] == "high"


@pytest.mark.parametrize("value", ["reasoning_content", "null"])
def test_capability_may_be_text(value: str) -> None:
    options = f"--from chat --to responses --capability reasoning_field={value}"
    assert translate(options, REQUEST).stdout_bytes == SENT


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("strange=true", "developer_role=true|false"),
        ("strict_tools", "strict_tools=true|false"),
        ("strict_tools=maybe", "strict_tools=true|false"),
        ("call_id_format=ten", "call_id_format=any|alphanumeric_9"),
        ("tool_choices=auto,never", "tool_choices=WORD,WORD"),
    ],
)
def test_mistaken_capability_names_what_is_legal(given: str, named: str) -> None:
    result = translate("--from chat --to responses", REQUEST, "--capability", given)
    assert result.exit_code == 2
    assert named in result.stderr


# Checking


def test_check_says_that_a_stream_is_legal() -> None:
    result = run("check --dialect chat", STREAM)
    assert one_line(result.stdout) == "This is a legal chat stream."
    assert result.exit_code == 0


def test_check_names_each_breach_and_its_line() -> None:
    result = run("check --dialect chat", STREAM.replace(b'"id":"chatcmpl-1",', b""))
    assert result.stdout.splitlines() == [f"line {n}: id is missing" for n in (1, 3, 5)]
    assert result.stderr == ""
    assert result.exit_code == 1


# Help


COMMANDS: dict[str, Command] = {"dragoman": main, **main.commands}


def end_at_once(_: object) -> int:
    """Stand in for serving, which would not end."""
    return 0


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_the_help_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "request.json").write_bytes(REQUEST)
    (tmp_path / "stream.sse").write_bytes(STREAM)
    (tmp_path / "examples.jsonl").write_bytes(EXAMPLE)
    (tmp_path / "dragoman.toml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gateway.server.run.run", end_at_once)
    examples = re.findall(r"^ +dragoman (.*)$", COMMANDS[name].help or "", re.MULTILINE)
    assert examples
    for example in examples:
        assert run(example).exit_code == 0, example


@pytest.mark.parametrize(
    "arguments", ["-h", "serve -h", "key -h", "translate -h", "check --help", "--version"]
)
def test_help_needs_nothing(arguments: str) -> None:
    result = run(arguments)
    assert result.stdout
    assert result.exit_code == 0


# The real command


def start(*arguments: str) -> subprocess.Popen[bytes]:
    dragoman = Path(sysconfig.get_path("scripts")) / "dragoman"
    pipe = subprocess.PIPE
    return subprocess.Popen(  # noqa: S603 - the command that this project installs
        [dragoman, *arguments], stdin=pipe, stdout=pipe, stderr=pipe
    )


def start_translating(*arguments: str) -> subprocess.Popen[bytes]:
    return start("translate", "--from", "chat", "--to", "responses", *arguments)


def test_command_is_installed() -> None:
    with start_translating() as process:
        assert process.communicate(REQUEST) == (
            SENT,
            b"dropped seed: the Responses API has no place for it\n",
        )
    assert process.returncode == 0


def test_stream_is_written_while_it_comes() -> None:
    with start_translating() as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(BEGUN)
        process.stdin.flush()
        # This would wait for ever if the end of the stream were waited for.
        assert process.stdout.readline() == b"event: response.created\n"
        process.stdin.write(STREAM.removeprefix(BEGUN))
        assert b"response.completed" in process.communicate()[0]
    assert process.returncode == 0


def test_nobody_reading_on_is_no_drama() -> None:
    with start_translating("--lines") as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(REPLY + b"\n")
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_interrupt_is_no_drama() -> None:
    with start_translating() as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        # Once it has answered something, it is certainly waiting for more.
        process.stdin.write(BEGUN)
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 130


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_stream_is_named(closed: str) -> None:
    command = shlex.join([f"{sysconfig.get_path('scripts')}/dragoman", "translate"])
    ran = subprocess.run(  # noqa: S602 - only a shell closes streams; nothing in it is from outside
        f"echo '{REQUEST.decode()}' | {command} --from chat --to chat {closed}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    name = {"<&-": "standard input", ">&-": "standard output"}[closed]
    assert one_line(ran.stderr) == f"dragoman: {name}: Bad file descriptor"
    assert ran.returncode == 1
