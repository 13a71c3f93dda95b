"""The gateway as a process of its own, as people run it."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.gateway.scripted import PATIENCE

_LISTENING = re.compile(r"listening on (http://127\.0\.0\.1:(\d+))")
COMMAND = (sys.executable, "-m", "gateway")
ROOT = Path(__file__).parent.parent.parent


class Gateway:
    """A running gateway: where it listens, and what it has written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.address = ""
        self.port = 0
        self.lines: list[str] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(process.stdout,))
        self._reader.start()
        assert self._listening.wait(PATIENCE), f"it does not listen:\n{self.log}"
        assert self.port, f"it did not start:\n{self.log}"

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self.lines.append(line)
                found = _LISTENING.search(line)
                if found:
                    self.address, self.port = found[1], int(found[2])
                    self._listening.set()
        # Whoever waits for an address learns that there will be none.
        self._listening.set()

    @property
    def log(self) -> str:
        return "".join(self.lines)

    @property
    def url(self) -> str:
        """Give what clients have as their base URL."""
        return f"{self.address}/v1"

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until it has ended and all it wrote is read; give its exit code."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
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
        """Tell whether the process stands still, as a signal has told it to."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0] == "T"

    def memory(self) -> int:
        """Give the bytes of memory that the process holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024


@contextmanager
def running(
    config: str, folder: Path, environment: Mapping[str, str] | None = None
) -> Generator[Gateway]:
    """Run a gateway with this configuration file, on a free port, and stop it in the end."""
    file = folder / "dragoman.toml"
    file.write_text(config)
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*COMMAND, "serve", "--config", str(file), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # What it keeps by default, it keeps where it is started.
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
