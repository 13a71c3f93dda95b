"""The process that judges texts by grammars, as those see it who ask.

It ends itself if a judgement takes too long; then there is none, and the next one starts it again.
"""

import atexit
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock

_COMMAND = (sys.executable, "-m", "gateway.grammar.worker")
# Where the worker finds the package that it is part of.
_HOME = Path(__file__).parent.parent.parent


def ask(syntax: str, definition: str, text: str) -> str | None:
    """Ask what is wrong with a text; None if nothing is, or if it could not be judged in time."""
    return _WORKER.ask(json.dumps([syntax, definition, text]).encode())


class _Worker:
    """The process that judges: started when it is needed, and again after it had to end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def ask(self, line: bytes) -> str | None:
        """Ask for one judgement; None if there was none in time."""
        with self._lock:
            process = self._started()
            answer = b""
            # A process that ended cannot be written to.
            with suppress(OSError):
                answer = _exchange(process, line)
            if not answer:
                self._end()
                return None
        problem: str | None = json.loads(answer)
        return problem

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            # In a session of its own: an interrupt is not meant for it.
            self._process = subprocess.Popen(  # noqa: S603 - a command of our own
                _COMMAND,
                cwd=_HOME,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        # What it did not read is lost.
        with suppress(OSError):
            process.communicate()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()


def _exchange(process: "subprocess.Popen[bytes]", line: bytes) -> bytes:
    if process.stdin is None or process.stdout is None:
        return b""
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    return process.stdout.readline()


_WORKER = _Worker()
atexit.register(_WORKER.close)
