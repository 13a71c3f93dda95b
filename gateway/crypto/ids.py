"""Where ids and the time come from in service."""

import secrets
import time
from typing import Final

from adapters import IdSource

_TIME_BYTES: Final = 6
# In nanoseconds.
_MILLISECOND: Final = 1_000_000


def _token(size: int) -> str:
    """Make a token that begins with the time, in milliseconds; the rest of it nobody can guess.

    What is made together then stands together in every index that it is kept in. With nothing but
    chance in them, the ids of ten items would have a database read, change and flush ten pages.
    """
    milliseconds = time.time_ns() // _MILLISECOND
    return milliseconds.to_bytes(_TIME_BYTES).hex() + secrets.token_hex(size - _TIME_BYTES)


RANDOM_IDS = IdSource(_token, time.time)
