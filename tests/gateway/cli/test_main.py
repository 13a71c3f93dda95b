"""The command `dragoman`: its help, `check`, and the installed command as a process."""

import os
import re
import shlex
import signal
import subprocess
import sysconfig
from pathlib import Path

import pytest
from rich_click import Command

import adapters
from gateway.cli.commands import main
from tests.gateway.cli.command_line import (
    EXAMPLE,
    FIRST_CHUNK,
    REPLY,
    REQUEST,
    STREAM,
    TRANSLATED_REQUEST,
    one_line,
    run,
)
from tests.gateway.gateway_process import COMMAND, ROOT

# dragoman check


def test_check_accepts_a_valid_stream() -> None:
    result = run("check --dialect chat", STREAM)
    assert one_line(result.stdout) == "This is a valid chat stream."
    assert result.exit_code == 0


def test_check_prints_each_violation_with_its_line() -> None:
    result = run("check --dialect chat", STREAM.replace(b'"id":"chatcmpl-1",', b""))
    assert result.stdout.splitlines() == [f"line {n}: id is missing" for n in (1, 3, 5)]
    assert result.stderr == ""
    assert result.exit_code == 1


# Help


COMMANDS: dict[str, Command] = {"dragoman": main, **main.commands}


def exit_code_zero(_: object) -> int:
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
    monkeypatch.setattr("gateway.server.run.run_server", exit_code_zero)
    examples = re.findall(r"^ +dragoman (.*)$", COMMANDS[name].help or "", re.MULTILINE)
    assert examples
    for example in examples:
        assert run(example).exit_code == 0, example


@pytest.mark.parametrize("arguments", ["-h", "serve -h", "key -h", "translate -h", "check --help"])
def test_help_is_printed(arguments: str) -> None:
    result = run(arguments)
    assert "Examples:" in result.stdout or "Example:" in result.stdout
    assert result.exit_code == 0


def test_version_is_that_of_the_package() -> None:
    assert one_line(run("--version").stdout).endswith(f"version {adapters.__version__}")


# As a process


def start(*arguments: str) -> subprocess.Popen[bytes]:
    dragoman = Path(sysconfig.get_path("scripts")) / "dragoman"
    pipe = subprocess.PIPE
    return subprocess.Popen(  # noqa: S603 - our own command
        [dragoman, *arguments], stdin=pipe, stdout=pipe, stderr=pipe
    )


def start_translating(*arguments: str) -> subprocess.Popen[bytes]:
    return start("translate", "--from", "chat", "--to", "responses", *arguments)


def test_installed_command_translates() -> None:
    with start_translating() as process:
        assert process.communicate(REQUEST) == (
            TRANSLATED_REQUEST,
            b"dropped seed: the Responses API does not support this field\n",
        )
    assert process.returncode == 0


def test_stream_is_written_as_it_arrives() -> None:
    with start_translating() as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(FIRST_CHUNK)
        process.stdin.flush()
        # Blocks if the command waits for the end of the stream.
        assert process.stdout.readline() == b"event: response.created\n"
        process.stdin.write(STREAM.removeprefix(FIRST_CHUNK))
        assert b"response.completed" in process.communicate()[0]
    assert process.returncode == 0


def test_closed_pipe_causes_no_message() -> None:
    with start_translating("--lines") as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(REPLY + b"\n")
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_interrupt_causes_no_message() -> None:
    with start_translating() as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        # After its first output the command waits for more input.
        process.stdin.write(FIRST_CHUNK)
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 130


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_standard_stream_is_named(closed: str) -> None:
    command = shlex.join([f"{sysconfig.get_path('scripts')}/dragoman", "translate"])
    ran = subprocess.run(  # noqa: S602 - only a shell closes streams; the command is constant
        f"echo '{REQUEST.decode()}' | {command} --from chat --to chat {closed}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    name = {"<&-": "standard input", ">&-": "standard output"}[closed]
    assert one_line(ran.stderr) == f"dragoman: {name}: Bad file descriptor"
    assert ran.returncode == 1


@pytest.mark.parametrize("source", ["__version__ = '1.0'", "raise ImportError('torch')"])
def test_adapters_package_of_another_distribution_is_reported(source: str, tmp_path: Path) -> None:
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "__init__.py").write_text(source)
    result = subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, "--version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert one_line(result.stderr) == (
        f"dragoman: the package `adapters` at {tmp_path / 'adapters' / '__init__.py'} belongs to "
        "another distribution; install Dragoman in an environment of its own, for example with "
        "`pipx install`"
    )
    assert (result.stdout, result.returncode) == ("", 1)
