"""The command `dragoman`: its help, `check`, `key`, and the installed command as a process."""

import gzip
import os
import re
import shlex
import signal
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest
from rich_click import Command, Group

import adapters
from gateway.cli.commands import main
from gateway.config import load_config
from gateway.config.schema import KeyConfig
from gateway.crypto import api_key_digest
from tests.gateway.cli import command_line as cli
from tests.gateway.gateway_process import COMMAND, ROOT
from tests.gateway.recording.replays import record


def test_check_accepts_a_valid_stream() -> None:
    result = cli.run("check --dialect chat", cli.STREAM)
    assert cli.one_line(result.stdout) == "This is a valid chat stream."
    assert result.exit_code == 0


def test_check_prints_each_violation_with_its_line() -> None:
    result = cli.run("check --dialect chat", cli.STREAM.replace(b'"id": "chatcmpl-1",', b""))
    assert result.stdout.splitlines() == [f"line {n}: id is missing" for n in (1, 3, 5)]
    assert result.stderr == ""
    assert result.exit_code == 1


_SUBCOMMANDS = {
    f"{group.name} {name}": command
    for group in main.commands.values()
    if isinstance(group, Group)
    for name, command in group.commands.items()
}
COMMANDS: dict[str, Command] = {"dragoman": main, **main.commands, **_SUBCOMMANDS}


def exit_code_zero(*_: object, **_named: object) -> int:
    return 0


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_the_help_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "request.json").write_bytes(cli.REQUEST)
    (tmp_path / "stream.sse").write_bytes(cli.STREAM)
    (tmp_path / "examples.jsonl").write_bytes(cli.EXAMPLE)
    (tmp_path / "old.json").write_bytes(cli.REQUEST)
    (tmp_path / "data.json").write_bytes(cli.EXAMPLE)
    (tmp_path / "old.jsonl").write_bytes(cli.EXAMPLE)
    (tmp_path / "batch.jsonl.gz").write_bytes(gzip.compress(cli.EXAMPLE))
    (tmp_path / "new.json").write_bytes(cli.REQUEST)
    (tmp_path / "src").mkdir()
    (tmp_path / "cassette.yaml").write_text("interactions: []")
    (tmp_path / "cassette.json").write_text('{"interactions": []}')
    (tmp_path / "session.har").write_text('{"log": {"entries": []}}')
    for folder in ("before", "after", "recordings"):
        record(tmp_path / folder / "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gateway.server.run.run_server", exit_code_zero)
    monkeypatch.setattr("gateway.server.pid_file.running_process", exit_code_zero)
    monkeypatch.setattr("os.kill", exit_code_zero)
    (tmp_path / "dragoman.toml").write_text('[server]\npid_file = "dragoman.pid"\n')
    examples = re.findall(r"^ +dragoman (.*)$", COMMANDS[name].help or "", re.MULTILINE)
    assert examples
    for example in examples:
        assert cli.run(example).exit_code == 0, example


@pytest.mark.parametrize("arguments", ["-h", "serve -h", "key -h", "translate -h", "check --help"])
def test_help_is_printed(arguments: str) -> None:
    result = cli.run(arguments)
    assert "Examples:" in result.stdout or "Example:" in result.stdout
    assert result.exit_code == 0


def test_version_is_that_of_the_package() -> None:
    assert cli.one_line(cli.run("--version").stdout).endswith(f"version {adapters.__version__}")


def read_keys(lines: str, folder: Path) -> tuple[KeyConfig, ...]:
    file = folder / "dragoman.toml"
    file.write_text(lines)
    return load_config(file).access.keys


def test_configuration_accepts_the_new_key(tmp_path: Path) -> None:
    result = cli.run('key --name "my \\"laptop\\""')
    key, _, lines = result.stdout.partition("\n")
    assert key.startswith("dk-")
    assert len(key) == 46
    assert key not in lines
    assert read_keys(lines, tmp_path) == (KeyConfig('my "laptop"', api_key_digest(key)),)
    assert result.exit_code == 0


def test_keys_differ() -> None:
    assert cli.run("key").stdout != cli.run("key").stdout


def test_key_from_stdin_is_not_printed(tmp_path: Path) -> None:
    result = cli.run("key --stdin", b"sk-mine\r\n")
    assert "sk-mine" not in result.output
    assert read_keys(result.stdout, tmp_path) == (KeyConfig("client", api_key_digest("sk-mine")),)


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (b"\n", "the input is empty; expected a key"),
        (b"one two", "expected one key of printable ASCII characters"),
        (b"one\ntwo\n", "expected one key of printable ASCII characters"),
        ("schlüssel".encode(), "expected one key of printable ASCII characters"),
    ],
)
def test_invalid_key_is_rejected(stdin: bytes, message: str) -> None:
    assert cli.error_of(cli.run("key --stdin", stdin)) == f"dragoman: {message}"


@pytest.mark.parametrize("name", ["''", "é", "' x'"])
def test_invalid_name_is_rejected(name: str) -> None:
    result = cli.run(f"key --name {name}")
    assert "--name: expected a name of printable ASCII characters" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 2)


DRAGOMAN = str(Path(sysconfig.get_path("scripts")) / "dragoman")


def start_translating(*arguments: str) -> subprocess.Popen[bytes]:
    command = [DRAGOMAN, "translate", "--from", "chat", "--to", "responses", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603 - our own command


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert process.stdin
    assert process.stdout
    assert process.stderr
    return process.stdin, process.stdout, process.stderr


def test_installed_command_translates() -> None:
    with start_translating() as process:
        losses = "".join(f"{loss}\n" for loss in cli.LOSSES).encode()
        assert process.communicate(cli.REQUEST) == (cli.TRANSLATED_REQUEST, losses)
    assert process.returncode == 0


def test_stream_is_written_as_it_arrives() -> None:
    with start_translating() as process:
        stdin, stdout, _ = pipes(process)
        stdin.write(cli.FIRST_CHUNK)
        stdin.flush()
        # Blocks if the command waits for the end of the stream.
        assert stdout.readline() == b"event: response.created\n"
        stdin.write(cli.STREAM.removeprefix(cli.FIRST_CHUNK))
        assert b"response.completed" in process.communicate()[0]
    assert process.returncode == 0


def test_closed_pipe_causes_no_message() -> None:
    with start_translating("--lines") as process:
        stdin, stdout, stderr = pipes(process)
        stdout.close()
        stdin.write(cli.REPLY + b"\n")
        stdin.close()
        assert stderr.read() == b""
    assert process.returncode == 1


def test_interrupt_causes_no_message() -> None:
    with start_translating() as process:
        stdin, stdout, stderr = pipes(process)
        # After its first output the command waits for more input.
        stdin.write(cli.FIRST_CHUNK)
        stdin.flush()
        stdout.readline()
        process.send_signal(signal.SIGINT)
        assert stderr.read() == b""
    assert process.returncode == 130


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_standard_stream_is_named(closed: str) -> None:
    translate = f"{shlex.quote(DRAGOMAN)} translate --from chat --to chat {closed}"
    command = f"echo '{cli.REQUEST.decode()}' | {translate}"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - only a shell closes streams
    name = {"<&-": "standard input", ">&-": "standard output"}[closed]
    assert cli.one_line(ran.stderr) == f"dragoman: {name}: Bad file descriptor"
    assert ran.returncode == 1


REMEDY = "install Dragoman in an environment of its own, for example with `pipx install`"


def error_at_start(command: Sequence[str], folder: Path, *others: Path) -> str:
    """Return the one line printed by a command that finds its modules in these folders."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, *others)))}
    result = subprocess.run(  # noqa: S603 - our own command
        [*command, "--version"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stdout, result.returncode) == ("", 1)
    return cli.one_line(result.stderr)


@pytest.mark.parametrize("source", ["__version__ = '1.0'", "raise ImportError('torch')"])
def test_adapters_package_of_another_distribution_is_reported(source: str, tmp_path: Path) -> None:
    package = tmp_path / "adapters"
    package.mkdir()
    (package / "__init__.py").write_text(source)
    assert error_at_start(COMMAND, tmp_path, ROOT) == (
        f"dragoman: the package `adapters` at {package / '__init__.py'} belongs to "
        f"another distribution; {REMEDY}"
    )


@pytest.mark.parametrize("left", [(), ("errors.py",)], ids=["missing", "incomplete"])
def test_incomplete_adapters_package_is_reported(left: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "gateway").symlink_to(ROOT / "gateway")
    for name in left:
        (tmp_path / "adapters").mkdir()
        (tmp_path / "adapters" / name).touch()
    # With `-S`, the installed package is not found.
    python, *arguments = COMMAND
    assert error_at_start([python, "-S", *arguments], tmp_path) == (
        "dragoman: the package `adapters` is missing or incomplete, perhaps because another "
        f"distribution was uninstalled; {REMEDY}"
    )
