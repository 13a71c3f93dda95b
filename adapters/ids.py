"""Where new ids and the time come from.

The adapters have no clock and no randomness. A service hands in `Mint(secrets.token_hex,
time.time)` or the like; tests and the deterministic mode use `counting()`.
"""

import hashlib
import string
from collections import Counter
from collections.abc import Callable
from itertools import count

# 16 bytes of token are 32 hex digits: with the longest prefix (`chatcmpl-`) well under the 64
# characters that strict servers allow an id.
_TOKEN_BYTES = 16
_CALL_ID_LIMIT = 64
_NINE = 9
_LETTERS = string.ascii_letters + string.digits


class IdSource:
    """Makes ids and tells the time, from sources given by the caller."""

    def __init__(self, token: Callable[[int], str], clock: Callable[[], float]) -> None:
        self._token = token
        self._clock = clock

    def id(self, prefix: str) -> str:
        """Make a new id: the prefix (with its separator) and a token."""
        return prefix + self._token(_TOKEN_BYTES)

    def now(self) -> int:
        """Tell the time in whole seconds since the epoch."""
        return int(self._clock())


def deterministic_ids(now: int = 1_700_000_000) -> IdSource:
    """Return an id source whose ids count from 1 and whose clock stands still."""
    numbers = count(1)
    return IdSource(lambda _size: f"{next(numbers):04}", lambda: now)


def content_ids(content: bytes, now: int = 0) -> IdSource:
    """Return an id source whose ids depend only on some content, and whose clock stands still."""
    seed, numbers = hashlib.sha256(content).hexdigest(), count(1)
    return IdSource(lambda _size: stable_hash(seed, str(next(numbers))), lambda: now)


def short_call_id(call_id: str) -> str:
    """Shorten a call id that is too long, the same way for the call and for its output.

    The Responses API refuses more than 64 characters; cutting would collide on shared prefixes
    (P054), a hash of the whole does not.
    """
    return call_id if len(call_id) <= _CALL_ID_LIMIT else "call_" + stable_hash(call_id)


def mistral_call_id(call_id: str) -> str:
    """Name a call by nine letters or digits, if its id is not that already (P055)."""
    if len(call_id) == _NINE and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int(stable_hash(call_id), 16)
    base = len(_LETTERS)
    return "".join(_LETTERS[number // base**place % base] for place in range(_NINE))


def stable_hash(*parts: str) -> str:
    """Name some texts by 32 hex digits; the same texts always get the same name."""
    joined = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class StableIds:
    """Names calls that have no id, so that a history replayed gets the same names again.

    The name is made of what was called and how often the very same was called before; it does not
    change when the client drops old turns that were different.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def __call__(self, name: str, arguments: str) -> str:
        """Name one call."""
        self._counts[name, arguments] += 1
        return "call_" + stable_hash(name, arguments, str(self._counts[name, arguments]))
