"""The file with the process id of a running gateway.

The gateway holds a lock on it while it runs, so a file that was left behind is recognized.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def pid_file(name: str | None) -> Generator[None]:
    """Hold the file while the block runs, and remove it afterwards.

    Raises an `OSError` if another process holds it or it cannot be written.
    """
    if name is None:
        yield
        return
    path = Path(name)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _lock(descriptor):
            raise OSError(None, "another gateway is running with this process id file", name)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def running_process(path: Path) -> int | None:
    """Return the id of the process that holds the file, or None if there is none.

    Raises an `OSError` if the file cannot be read.
    """
    with path.open("rb") as file:
        text = file.read().strip()
        if _lock(file.fileno()) or not text.isdigit():
            return None
    return int(text)


def _lock(descriptor: int) -> bool:
    """Lock a file until it is closed; return False if another process has locked it."""
    if sys.platform == "win32":
        return True
    import fcntl  # noqa: PLC0415 - not available on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
