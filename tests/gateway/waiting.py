"""Waiting for conditions, with one timeout for all tests."""

import time
from collections.abc import Callable

# Long enough for a busy machine that stalls now and then; only a failing test waits so long.
TIMEOUT_SECONDS = 60.0


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that a process brings about by itself."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)
