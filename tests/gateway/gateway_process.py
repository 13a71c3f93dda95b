"""The gateway as a process."""

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

from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until

_LISTENING = re.compile(r"listening on (http://127\.0\.0\.1:(\d+))")
COMMAND = (sys.executable, "-m", "gateway")
ROOT = Path(__file__).parent.parent.parent


class Gateway:
    """A running gateway, with its address and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.address = ""
        self.port = 0
        self.lines: list[str] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(process.stdout,))
        self._reader.start()
        assert self._listening.wait(TIMEOUT_SECONDS), f"no address was printed:\n{self.log}"
        assert self.port, f"the gateway did not start:\n{self.log}"

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self.lines.append(line)
                match = _LISTENING.search(line)
                if match:
                    self.address, self.port = match[1], int(match[2])
                    self._listening.set()
        # The process has ended: `__init__` must not wait any longer.
        self._listening.set()

    @property
    def log(self) -> str:
        return "".join(self.lines)

    @property
    def url(self) -> str:
        return f"{self.address}/v1"

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until the process has ended and its output is read; return the exit code."""
        code = self.process.wait(TIMEOUT_SECONDS)
        self._reader.join(TIMEOUT_SECONDS)
        return code

    def stop(self) -> None:
        if self.process.poll() is None:
            self.terminate()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()

    def is_stopped(self) -> bool:
        """Whether the process is stopped by a signal."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0] == "T"

    def memory(self) -> int:
        """Return the resident memory of the process in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024


def log_line_naming(gateway: Gateway, model: str) -> str:
    """Return the first log line that names a model; it may be written after the reply."""
    wait_until(lambda: any(f'"{model}"' in line for line in gateway.lines))
    return next(line for line in gateway.lines if f'"{model}"' in line)


def assert_no_errors_logged(gateway: Gateway) -> None:
    """Raise if the gateway itself failed, whatever its clients and backends did."""
    assert "Traceback" not in gateway.log, gateway.log
    assert "never retrieved" not in gateway.log, gateway.log


@contextmanager
def run_gateway(
    config: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = COMMAND,
) -> Generator[Gateway]:
    """Run a gateway with this configuration on a free port."""
    file = folder / "dragoman.toml"
    file.write_text(config)
    with run_server([*command, "serve", "--config", str(file)], folder, environment) as gateway:
        yield gateway


@contextmanager
def run_server(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Generator[Gateway]:
    """Run a command that serves on a free port."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # The default database is in the working directory.
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
    )
    try:
        gateway = Gateway(process)
    except AssertionError:
        process.kill()
        process.wait()
        raise
    try:
        yield gateway
    finally:
        gateway.stop()
