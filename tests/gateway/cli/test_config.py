"""`dragoman config`: the check of a file, and the configuration in force."""

from pathlib import Path

import pytest

from gateway.config import load_config
from gateway.config.display import write_toml, write_value
from gateway.crypto import api_key_digest
from tests.gateway.cli.command_line import one_line, run

FULL = """
loss_policy = "refuse"
[server]
port = 9000
[[access.keys]]
name = "ci"
sha256 = "{digest}"
replies = {{ reasoning_text = true }}
[legacy]
sunset = 2027-06-30
[state]
retention_days = 1.5
[[backends]]
name = "local"
url = "http://h/v1"
dialect = "chat"
models = ["a*", {{ pattern = "a-1", capabilities = {{ reasoning_field = "null" }} }}]
model_aliases = {{ "b c" = "d\\u007f\\n" }}
extra_body = {{ a = {{ b = [1, 2.5, true] }} }}
timeouts = {{ connect = 1 }}
[[backends.transforms]]
use = "adapters.transforms:RenameTools"
options.names = {{ get_weather = "weather" }}
[[backends]]
name = "other"
url = "http://i/v1"
dialect = "responses"
[[backends.models]]
pattern = "x"
"""


def test_valid_file_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[server]\nport = 1\n")
    result = run(f"config check {file}")
    assert (result.stdout, result.exit_code) == (f"{file}: valid\n", 0)
    monkeypatch.chdir(tmp_path)
    assert run("config check").stdout == f"{file}: valid\n"
    other = tmp_path / "other.toml"
    other.touch()
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(other))
    assert run("config check").stdout == f"{other}: valid\n"


def test_all_errors_are_printed(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('[[backends]]\nname = "a"\nurl = "h"\ndialect = "klingon"\nprofile = "none"\n')
    result = run(f"config check {file}")
    assert result.exit_code == 78
    keys = [line.split(": ")[3] for line in result.stderr.splitlines()]
    assert keys == ["url", "dialect", "profile"]


def test_missing_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("config check")
    assert result.exit_code == 2
    assert "no dragoman.toml here" in result.stderr
    missing = run("config check none.toml")
    assert missing.exit_code == 78
    file = tmp_path / "none.toml"
    assert one_line(missing.stderr) == f"dragoman: {file}: No such file or directory"


def test_shown_configuration_is_that_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "dragoman.toml"
    file.write_text(FULL.format(digest=api_key_digest("one")))
    monkeypatch.setenv("DRAGOMAN_WORKERS", "2")
    shown = run("config show --host localhost").stdout
    assert shown.startswith(f'# configuration: {file}\nloss_policy = "refuse"\n')
    for line in (
        'host = "localhost"',
        "port = 9000",
        "workers = 2",
        "# reasoning_field is not set",
    ):
        assert f"\n{line}\n" in shown


def test_shown_configuration_can_be_loaded(tmp_path: Path) -> None:
    file, copy = tmp_path / "dragoman.toml", tmp_path / "copy.toml"
    digest = api_key_digest("one")
    file.write_text(FULL.format(digest=digest))
    config = load_config(file)
    copy.write_text(write_toml(config).replace("(not shown)", digest))
    assert load_config(copy) == config


def test_secrets_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_URL", "postgresql://me:hush@db/x?password=hush")
    file = tmp_path / "dragoman.toml"
    file.write_text(
        f"""
[state]
url_env = "DB_URL"
[[access.keys]]
name = "ci"
sha256 = "{api_key_digest("hush")}"
[tracing]
endpoint = "http://me:hush@h/v1/traces"
[[backends]]
name = "a"
url = "http://h/v1"
dialect = "chat"
proxy = "http://me:hush@proxy:1"
headers = {{ x-team = "hush" }}
extra_body = {{ key = "sk-0123456789abcdef" }}
"""
    )
    shown = run(f"config show --config {file}").stdout
    assert "hush" not in shown
    assert "sk-0123456789abcdef" not in shown
    assert api_key_digest("hush") not in shown
    assert 'url = "postgresql://me@db/x"\nurl_env = "DB_URL"\n' in shown
    assert 'proxy = "http://…@proxy:1"' in shown


def test_values_of_no_type_of_toml_are_written_as_text() -> None:
    assert write_value({"a b": "\x7f", "c": {}}) == '{ "a b" = "\\u007f", c = {} }'
