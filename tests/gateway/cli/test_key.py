"""`dragoman key`: the printed configuration accepts the printed key."""

from pathlib import Path

import pytest

from gateway.config import load_config
from gateway.config.schema import KeyConfig
from gateway.crypto import api_key_digest
from tests.gateway.cli.command_line import one_line, run


def read_keys(lines: str, folder: Path) -> tuple[KeyConfig, ...]:
    file = folder / "dragoman.toml"
    file.write_text(lines)
    return load_config(file).access.keys


def test_configuration_accepts_the_new_key(tmp_path: Path) -> None:
    result = run('key --name "my \\"laptop\\""')
    key, _, lines = result.stdout.partition("\n")
    assert key.startswith("dk-")
    assert len(key) == 46
    assert key not in lines
    assert read_keys(lines, tmp_path) == (KeyConfig('my "laptop"', api_key_digest(key)),)
    assert result.exit_code == 0


def test_keys_differ() -> None:
    assert run("key").stdout != run("key").stdout


def test_key_from_stdin_is_not_printed(tmp_path: Path) -> None:
    result = run("key --stdin", b"sk-mine\r\n")
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
    result = run("key --stdin", stdin)
    assert one_line(result.stderr) == f"dragoman: {message}"
    assert (result.stdout, result.exit_code) == ("", 1)


@pytest.mark.parametrize("name", ["''", "é", "' x'"])
def test_invalid_name_is_rejected(name: str) -> None:
    result = run(f"key --name {name}")
    assert "--name: expected a name of printable ASCII characters" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 2)
