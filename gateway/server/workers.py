"""Several processes that share one socket, and the one that watches over them."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from socket import socket
from tempfile import TemporaryDirectory
from types import FrameType

import uvicorn
from prometheus_client import multiprocess
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from gateway.config.schema import Configuration
from gateway.server.banner import print_listening
from gateway.terminal import INTERRUPTED, print_error

_METRICS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def metrics_directory(configuration: Configuration) -> Generator[None]:
    """Give the workers a place where they count together. Who named one already keeps it."""
    if not configuration.metrics.enabled or _METRICS_DIRECTORY in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="dragoman-metrics-") as directory:
        os.environ[_METRICS_DIRECTORY] = directory
        try:
            yield
        finally:
            del os.environ[_METRICS_DIRECTORY]


class Workers(Multiprocess):
    """Starts the workers, starts again those that die, and ends with all of them."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket]) -> None:
        super().__init__(config, sockets)
        self.exit_code = 0

    def init_processes(self) -> None:
        """Start them, and say so when the first one accepts."""
        super().init_processes()
        if self.processes[0].wait_until_ready(self.config.timeout_worker_healthcheck):
            print_listening(self.sockets[0].getsockname())

    def keep_subprocess_alive(self) -> None:
        """Replace those that died; what they had in hand no longer counts."""
        before = list(self.processes)
        super().keep_subprocess_alive()
        for process in before:
            if process.pid is not None and process.exitcode is not None:
                self._handle_dead_worker(process.pid, process.exitcode)

    def _handle_dead_worker(self, pid: int, code: int) -> None:
        print_error(f"worker {pid} ended with code {code}")
        if code == STARTUP_FAILURE:
            self.exit_code = code
        if _METRICS_DIRECTORY in os.environ:
            multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]  # they have no types

    def terminate_all(self) -> None:
        """Ask all to end. Until they have, another interrupt kills them."""
        signal.signal(signal.SIGINT, self._kill_all)
        super().terminate_all()
        # Who calls now is refused at once, instead of waiting for somebody to answer.
        for listener in self.sockets:
            listener.close()

    def _kill_all(self, _signal: int, _frame: FrameType | None) -> None:
        self.exit_code = INTERRUPTED
        for process in self.processes:
            process.kill()
