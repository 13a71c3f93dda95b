"""A gateway in a process of its own."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gateway.config.display import write_value
from gateway.config.key_checks import key_path
from gateway.config.sources import VARIABLES
from gateway.pytest_plugin.scripted_backend import TIMEOUT_SECONDS

COMMAND = (sys.executable, "-m", "gateway")

LISTENING = re.compile(r"listening on (https?://127\.0\.0\.1:(\d+))")


class GatewayStartError(Exception):
    """A gateway that ended before it listened; the message has its output."""


class GatewayProcess:
    """A running gateway, with its address and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.address = ""
        self.port = 0
        self.lines: list[str] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(process.stdout,))
        self._reader.start()
        # Without an address, the process has ended or is stuck.
        if not self._listening.wait(TIMEOUT_SECONDS) or not self.port:
            raise GatewayStartError(f"the gateway did not start:\n{self.log}")

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self.lines.append(line)
                match = LISTENING.search(line)
                if match:
                    self.address, self.port = match[1], int(match[2])
                    self._listening.set()
        # The process has ended: `__init__` must not wait any longer.
        self._listening.set()

    @property
    def log(self) -> str:
        """What the gateway has printed and logged."""
        return "".join(self.lines)

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"{self.address}/v1"

    def terminate(self) -> None:
        """Request that the gateway shuts down."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until the process has ended and its output is read; return the exit code."""
        code = self.process.wait(TIMEOUT_SECONDS)
        self._reader.join(TIMEOUT_SECONDS)
        return code

    def stop(self) -> None:
        """Shut the gateway down, or kill it if that takes too long."""
        if self.process.poll() is None:
            self.terminate()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()


def serve_arguments(config: str, folder: Path) -> list[str]:
    """Write a configuration file, and return the arguments to serve with it."""
    file = folder / "dragoman.toml"
    file.write_text(config, "utf-8")
    return ["serve", "--config", str(file)]


def child_environment() -> dict[str, str]:
    """Return an environment in which everything can be imported that the tests can import.

    Variables that replace values of the configuration file are left out.
    """
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@contextmanager
def run_gateway(
    config: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    command: Sequence[str] = COMMAND,
) -> Generator[GatewayProcess]:
    """Run a gateway with this configuration on a free port."""
    with run_server([*command, *serve_arguments(config, folder)], folder, environment) as gateway:
        yield gateway


@contextmanager
def run_server(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Generator[GatewayProcess]:
    """Run a command that serves on a free port."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # The default database is in the working directory.
        cwd=folder,
        env={**child_environment(), **(environment or {})},
    )
    try:
        gateway = GatewayProcess(process)
    except GatewayStartError:
        process.kill()
        process.wait()
        raise
    try:
        yield gateway
    finally:
        gateway.stop()


def write_toml(table: Mapping[str, object]) -> str:
    """Return a configuration as TOML."""
    return "".join(f"{key_path('', name)} = {write_value(table[name])}\n" for name in table)
