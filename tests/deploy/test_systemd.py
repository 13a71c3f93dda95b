"""The unit of systemd: valid, sandboxed, with commands that exist."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.config_options import EXIT_INVALID_CONFIG
from gateway.config import load_config
from tests.deploy.files import DEPLOY, ENVIRONMENT
from tests.gateway.gateway_process import COMMAND, run_server
from tests.gateway.waiting import wait_until

FILE = DEPLOY / "systemd" / "dragoman.service"
TEXT = FILE.read_text()
# The highest exposure that `systemd-analyze security` may report, times ten: 100 is no sandbox.
MAX_EXPOSURE = 20


def setting(name: str) -> str:
    [value] = re.findall(rf"^{name}=(.*)$", TEXT, re.MULTILINE)
    return str(value)


def analyze(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze on a copy of the unit whose command exists on this machine."""
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("requires systemd-analyze")
    unit = folder / FILE.name
    unit.write_text(TEXT.replace("/opt/dragoman/bin/dragoman", sys.executable))
    return subprocess.run(  # noqa: S603 - a constant command
        [command, "--no-pager", *arguments, str(unit)], capture_output=True, text=True, check=False
    )


def test_unit_is_valid(tmp_path: Path) -> None:
    done = analyze("verify", folder=tmp_path)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


def test_unit_is_sandboxed(tmp_path: Path) -> None:
    options = ("security", "--offline=true", f"--threshold={MAX_EXPOSURE}")
    done = analyze(*options, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_command_runs_and_reloads(tmp_path: Path) -> None:
    _program, *options = shlex.split(setting("ExecStart"))
    assert options == ["serve", "--config", "/etc/dragoman/dragoman.toml"]
    file = tmp_path / "dragoman.toml"
    file.write_text((DEPLOY / "dragoman.toml").read_text())
    command = [*COMMAND, *options[:-1], str(file)]
    assert setting("ExecReload") == "/bin/kill -HUP $MAINPID"
    with run_server(command, tmp_path, ENVIRONMENT) as gateway:
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: gateway.log.count('"configuration reloaded"') == 2)
        gateway.terminate()
        assert gateway.wait() == 0


def test_invalid_configuration_is_not_retried() -> None:
    assert setting("RestartPreventExitStatus").split() == ["2", str(EXIT_INVALID_CONFIG)]


def test_stop_waits_for_running_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    timeout = load_config(DEPLOY / "dragoman.toml").server.shutdown_timeout
    assert float(setting("TimeoutStopSec")) > timeout
