"""`docs/operations.md`: its tables are right, its commands run, its files are valid."""

import re
from pathlib import Path

import pytest
from msgspec.structs import fields

from gateway.cli.config_options import EXIT_INVALID_CONFIG
from gateway.config import load_config
from gateway.config.reload import RELOADED_TABLES
from gateway.config.schema import Config
from gateway.config.sources import OPTIONS, variable_of
from tests.gateway.certificates import CertificateAuthority
from tests.gateway.cli.command_line import run
from tests.losses_page import ROOT
from tests.test_readme import blocks, table

PAGE = (ROOT / "docs/operations.md").read_text()


def rows(head: str) -> list[tuple[str, ...]]:
    """Return the cells of the table whose head begins so, without quotes of code."""
    lines = table(head, PAGE).splitlines()[2:]
    return [tuple(cell.strip(" `") for cell in line.strip("|").split("|")) for line in lines]


def test_options_have_their_variables() -> None:
    assert [row[:2] for row in rows("| option |")] == [
        (option, variable_of(option)) for option in OPTIONS
    ]


def test_exit_codes_include_that_of_an_invalid_configuration() -> None:
    assert (str(EXIT_INVALID_CONFIG), "the configuration is invalid") in rows("| exit code |")


@pytest.mark.parametrize(
    "line",
    [
        line
        for block in blocks("sh", PAGE)
        for line in block.splitlines()
        if "dragoman config" in line
    ],
)
def test_config_commands_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dragoman.toml").touch()
    assert run(line.removeprefix("dragoman ")).exit_code == 0


def test_files_in_the_page_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    (tmp_path / "database-password").write_text("secret")
    certificate, key = CertificateAuthority(tmp_path).issue("tls")
    certificate.rename(tmp_path / "tls.crt")
    key.rename(tmp_path / "tls.key")
    file = tmp_path / "dragoman.toml"
    for block in blocks("toml", PAGE):
        file.write_text(re.sub(r"/run/secrets|/etc/dragoman", str(tmp_path), block))
        load_config(file)


def test_files_for_deployments_are_listed() -> None:
    named = {name for row in rows("| file |") for name in re.findall(r"[\w./-]+", row[0])}
    assert all((ROOT / name).exists() for name in named)
    files = (path for path in (ROOT / "deploy").rglob("*") if path.is_file())
    for path in files:
        name = path.relative_to(ROOT)
        assert {str(name), f"{name.parent}/"} & named, name


def test_reloaded_tables_are_listed() -> None:
    [(reloaded, restart)] = rows("| applied by")
    tables = {field.name for field in fields(Config)}
    assert {*re.findall(r"\w+", reloaded)} == {*RELOADED_TABLES}
    assert {*re.findall(r"\w+", restart)} == tables - {*RELOADED_TABLES}
