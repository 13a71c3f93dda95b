"""A process that starts gateways quickly: it imports the gateway once and forks for each.

It reads an order in JSON from each line of its standard input, and writes the process id of the
gateway. When the input ends, because the tests have ended, it kills the gateways that are left.
Linux only, because a fork without a new program is not safe elsewhere.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Self, TypedDict, cast

from gateway.pytest_plugin.gateway_process import LISTENING, GatewayStartError, child_environment
from gateway.pytest_plugin.scripted_backend import TIMEOUT_SECONDS

_POLL_SECONDS = 0.01
# What the gateway imports when it starts.
_PRELOADED = (
    "gateway.app",
    "gateway.cli.commands",
    "gateway.observability.metrics",
    "gateway.server.run",
    "gateway.store.sqlite",
)


class _Order(TypedDict):
    arguments: list[str]
    environment: dict[str, str]
    import_path: list[str]
    folder: str
    output: str


class ForkedGateway:
    """A running gateway, which writes its output to a file."""

    def __init__(self, pid: int, output: Path) -> None:
        self._pid = pid
        self._output = output
        self.url = f"{self._wait_for_address()}/v1"

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            running = self._is_running()
            if match := LISTENING.search(self.log):
                return match[1]
            if not running:
                break
            time.sleep(_POLL_SECONDS)
        self.stop()
        raise GatewayStartError(f"the gateway did not start:\n{self.log}")

    @property
    def log(self) -> str:
        """What the gateway has printed and logged."""
        return self._output.read_text() if self._output.exists() else ""

    def _is_running(self) -> bool:
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> None:
        """Shut the gateway down, or kill it if that takes too long."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
            while self._is_running() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            os.kill(self._pid, signal.SIGKILL)


class Launcher:
    """The process, as a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gateway.pytest_plugin.launcher"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def start(self, arguments: Sequence[str], folder: Path) -> ForkedGateway:
        """Start a gateway with these arguments of the command line."""
        output = folder / "gateway.log"
        order: _Order = {
            "arguments": [*arguments],
            "environment": {**os.environ},
            "import_path": sys.path,
            "folder": str(folder),
            "output": str(output),
        }
        orders, replies = self._process.stdin, self._process.stdout
        if orders is None or replies is None:
            raise ValueError("the launcher has ended")
        orders.write(json.dumps(order) + "\n")
        orders.flush()
        return ForkedGateway(int(replies.readline()), output)


# In the process


def main() -> None:
    """Fork for each order."""
    for name in _PRELOADED:
        importlib.import_module(name)
    # Processes that have ended are removed by the system.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pids: list[int] = []
    for line in sys.stdin:
        order = cast("_Order", json.loads(line))
        pid = os.fork()
        if not pid:
            _serve(order)
        pids.append(pid)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _serve(order: _Order) -> NoReturn:
    """Become the gateway."""
    from gateway.cli import run  # noqa: PLC0415 - only in the process itself

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.path[:] = order["import_path"]
    sys.argv[1:] = order["arguments"]
    code: object = 1
    try:
        run()
    except SystemExit as end:
        code = end.code
    except Exception:  # noqa: BLE001 - the process must not continue as another launcher
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
