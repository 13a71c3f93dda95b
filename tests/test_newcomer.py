"""The first commands and the first example of the README, in a clean copy of the repository."""

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.losses_page import ROOT
from tests.test_quality import TEST_COMMAND
from tests.test_readme import TEXT, blocks

_INSTALL_TIMEOUT_SECONDS = 600
_DEFAULT_PORT = "8080"
_SOME_TESTS = ("tests/adapters/test_sse.py", "tests/gateway/http/test_auth.py")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the files of the repository, without generated files."""
    folder = tmp_path_factory.mktemp("newcomer") / "dragoman"
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)  # noqa: S603 - constant
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def _environment(**more: str) -> dict[str, str]:
    """Return an environment without traces of this virtual environment and this test run."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("VIRTUAL_ENV", "PYTHONPATH") and not name.startswith("PYTEST_")
    }
    # Python compiles only the modules that are imported, which is faster than all packages.
    return environment | {"PIP_NO_COMPILE": "1"} | more


def _run(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S602 - the README's commands are for a shell
        command,
        shell=True,
        cwd=folder,
        env=_environment(**environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=_INSTALL_TIMEOUT_SECONDS,
    )


@contextmanager
def _serving(command: str, folder: Path) -> Generator[str]:
    """Run a command that starts the service, and yield its line with the address."""
    process = subprocess.Popen(  # noqa: S602 - the README's commands are for a shell
        command,
        shell=True,
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        with process.stdout as output:
            lines = iter(output.readline, "")
            yield next((line for line in lines if line.startswith("listening on ")), "")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_INSTALL_TIMEOUT_SECONDS)


def test_first_example_runs(copy: Path) -> None:
    command, example = blocks("sh")[0], blocks("python")[0]
    output = re.search(r"It prints\n\n```\n(.*?)```", TEXT, re.DOTALL)
    assert output is not None
    # Several checkouts may be tested on one machine at the same time.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    assert _DEFAULT_PORT in example
    (copy / "loop.py").write_text(example.replace(_DEFAULT_PORT, str(port)))
    with _serving(f"{command.rstrip()} --port {port}", copy) as listening:
        assert listening, "the service did not start"
        done = _run(".venv/bin/python loop.py", copy)
    assert done.stdout == output[1], done.stderr


def test_test_command_installs_what_tests_need(copy: Path) -> None:
    # The other tests run outside of this one.
    done = _run(TEST_COMMAND, copy, PYTEST_ADDOPTS=" ".join(_SOME_TESTS))
    assert done.returncode == 0, done.stdout + done.stderr
