"""`dragoman key`: the key that is shown is the one that the printed lines let in."""

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


def test_new_key_is_shown_once_and_let_in(tmp_path: Path) -> None:
    result = run('key --name "my \\"laptop\\""')
    key, _, lines = result.stdout.partition("\n")
    assert key.startswith("dk-")
    assert len(key) == 46
    assert key not in lines
    assert read_keys(lines, tmp_path) == (KeyConfig('my "laptop"', api_key_digest(key)),)
    assert result.exit_code == 0


def test_no_key_comes_twice() -> None:
    assert run("key").stdout != run("key").stdout


def test_given_key_is_not_shown(tmp_path: Path) -> None:
    result = run("key --stdin", b"sk-mine\r\n")
    assert "sk-mine" not in result.output
    assert read_keys(result.stdout, tmp_path) == (KeyConfig("client", api_key_digest("sk-mine")),)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (b"\n", "the input is empty; expected a key"),
        (b"one two", "expected one key of printable ASCII characters"),
        (b"one\ntwo\n", "expected one key of printable ASCII characters"),
        ("schlüssel".encode(), "expected one key of printable ASCII characters"),
    ],
)
def test_what_is_no_key_is_refused(given: bytes, why: str) -> None:
    result = run("key --stdin", given)
    assert one_line(result.stderr) == f"dragoman: {why}"
    assert (result.stdout, result.exit_code) == ("", 1)


@pytest.mark.parametrize("name", ["''", "é", "' x'"])
def test_name_that_the_file_would_refuse_is_refused(name: str) -> None:
    result = run(f"key --name {name}")
    assert "--name: expected a name of printable ASCII characters" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 2)
