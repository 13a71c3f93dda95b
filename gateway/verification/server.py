"""A gateway in a process of its own, which records what a program sends to it.

Its backend is the demo or recorded replies. A legacy reply has at most one call, so the backend
makes one call at a time in both conversations.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from adapters import DragomanError
from gateway.config.schema import (
    MEMORY_URL,
    BackendConfig,
    Config,
    RecordingConfig,
    ServerConfig,
    StateConfig,
)
from gateway.recording.recording_diff import read_recordings
from gateway.recording.replay_index import RecordedReply, ReplyReader

_LISTENING: Final = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")
_START_SECONDS: Final = 60
_STOP_SECONDS: Final = 60
# Short, because the requests of a program that ended are of no interest.
_SHUTDOWN_SECONDS: Final = 5
# The lines of the output that are shown if the gateway does not start.
_SHOWN_LINES: Final = 5


@contextmanager
def run_recording_gateway(recordings: Path, replies: Path | None) -> Generator[str]:
    """Run a gateway that writes to a folder of recordings; yield its address."""
    command = [sys.executable, "-m", __name__, str(recordings)]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*command, *([] if replies is None else [str(replies)])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    output = _Output(process.stdout)
    try:
        yield output.wait_for_address()
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        output.close()


class _Output:
    """The output of the gateway, read by a thread so that the process never waits for it."""

    def __init__(self, output: IO[str] | None) -> None:
        self._lines: list[str] = []
        self._address: str | None = None
        self._is_known = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(output,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self._lines = [*self._lines, line][-_SHOWN_LINES:]
                if self._address is None and (match := _LISTENING.search(line)):
                    self._address = match[1]
                    self._is_known.set()
        self._is_known.set()

    def close(self) -> None:
        """Read the rest of the output of a process that has ended."""
        self._reader.join(_STOP_SECONDS)

    def wait_for_address(self) -> str:
        """Return the address when the gateway listens; raise an error if it does not start."""
        self._is_known.wait(_START_SECONDS)
        if self._address is None:
            text = "".join(self._lines).strip()
            raise DragomanError(None, f"the gateway for the verification did not start: {text}")
        return self._address


def read_replies(folder: Path) -> list[RecordedReply]:
    """Return the recorded replies of backends in a folder; raise an error if there are none."""
    reader = ReplyReader()
    replies = [reply for one in read_recordings(folder) for reply in reader.read(one)]
    if not replies:
        raise DragomanError(None, f"{folder} contains no replies of backends")
    return replies


def _serve(recordings: str, replies: Path | None) -> int:
    """Run the gateway in this process."""
    # Imported here because the parent process does not need them, and they take long to import.
    from gateway.demo.transport import DemoTransport  # noqa: PLC0415
    from gateway.recording.replay_transport import (  # noqa: PLC0415
        ReplayTransport,
        replay_backends,
    )
    from gateway.server.run import run_server  # noqa: PLC0415

    backends = [
        BackendConfig(
            "demo",
            "http://demo.invalid/v1",
            "chat",
            default=True,
            extra_body={"parallel_tool_calls": False},
        )
    ]
    transport: DemoTransport | ReplayTransport = DemoTransport(delta_delay=0)
    if replies is not None:
        recorded = replay_backends(read_replies(replies), raw=False)
        backends = [backend.config for backend in recorded]
        transport = ReplayTransport(recorded)
    config = Config(
        server=ServerConfig(port=0, shutdown_timeout=_SHUTDOWN_SECONDS),
        state=StateConfig(url=MEMORY_URL),
        recording=RecordingConfig(directory=recordings),
        backends=tuple(backends),
    )
    return run_server(config, transport=transport)


if __name__ == "__main__":
    sys.exit(_serve(sys.argv[1], Path(sys.argv[2]) if sys.argv[2:] else None))
