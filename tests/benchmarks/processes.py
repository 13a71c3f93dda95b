"""The measured processes, whose cost is read from the system (Linux)."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

ROOT = Path(__file__).parents[2]

_CONFIGURATION = """
[server]
port = {port}

[state]
url = "{state}"

[[backends]]
name = "fake"
url = "http://127.0.0.1:{backend_port}/v1"
dialect = "{dialect}"
max_connections = 4000
"""

_RECORDING = """
[recording]
directory = "recordings"
max_recordings = 10_000_000
max_total_bytes = 16_000_000_000
"""


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    port: int
    process: Popen[str]

    def processor_time(self) -> int:
        """Return its CPU time in nanoseconds, user and system."""
        # The clock of clock_getcpuclockid(3): exact, where /proc counts in ticks of 10 ms.
        family = _family(self.process.pid)
        return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in family)

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        files = [Path(f"/proc/{pid}/statm") for pid in _family(self.process.pid)]
        pages = sum(int(file.read_text(encoding="ascii").split()[1]) for file in files)
        return pages * os.sysconf("SC_PAGE_SIZE")


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text(encoding="ascii").split():
            yield from _family(int(child))


def announce(port: int) -> None:
    """Print the port of a server on the first line, which `helper` reads."""
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


async def serve(protocol: Callable[[], asyncio.Protocol]) -> None:
    """Serve connections on a free port, and announce it."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", 0, backlog=2048)
    announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


@contextmanager
def helper(name: str, *arguments: str) -> Generator[Target, None, None]:
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", *arguments]
    with Popen(command, cwd=ROOT, stdout=PIPE, text=True) as process:  # noqa: S603 - our own modules
        try:
            line = process.stdout.readline() if process.stdout else ""
            yield Target(name, int(line), process)
        finally:
            process.terminate()


@contextmanager
def gateway(
    folder: Path,
    dialect: str,
    backend_port: int,
    state: str = "sqlite:dragoman.db",
    command: str | None = None,
    *,
    record: bool = False,
) -> Generator[Target, None, None]:
    """Run this gateway, which may record, or that of another `dragoman` command, without its log.

    It may not accept connections yet.
    """
    port = next(_PORTS)
    home = folder / str(port)
    home.mkdir()
    file = home / "benchmark.toml"
    text = _CONFIGURATION.format(port=port, backend_port=backend_port, dialect=dialect, state=state)
    file.write_text(text + _RECORDING * record, encoding="utf-8")
    name = "recording" if record else "gateway" if command is None else "other"
    own = [sys.executable, "-m", "gateway"]
    arguments = [*(own if command is None else [command]), "serve", "--config", str(file)]
    with Popen(arguments, cwd=home, stdout=DEVNULL, stderr=DEVNULL, text=True) as process:  # noqa: S603 - our own command
        try:
            yield Target(name, port, process)
        finally:
            process.kill()


def _free_ports() -> Iterator[int]:
    """Yield ports below the ephemeral ports, which no other process gets by chance."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                continue
        yield port


_PORTS = _free_ports()
