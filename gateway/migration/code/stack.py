"""Calls that recurse as deeply as their input is nested."""

import gc
import sys
import threading
from collections.abc import Callable
from typing import Final

_STACK_BYTES: Final = 512 * 1024 * 1024
_RECURSION_LIMIT: Final = 200_000


def with_deep_stack(call: Callable[[], None]) -> None:
    """Call a function in a thread with a large stack, and raise what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again in the other thread
            raised.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
    sys.setrecursionlimit(_RECURSION_LIMIT)
    # The nodes of large sources would be searched for garbage again and again.
    gc.disable()
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        gc.enable()
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if raised:
        raise raised[0]
