"""Sources of new ids and of the time, and ids that are derived from other values.

The adapters read no clock and generate no random numbers: the gateway passes an `IdSource` with
both. Tests and offline translation use `deterministic_ids` or `content_ids`.
"""

import hashlib
import string
from collections import Counter
from collections.abc import Callable
from itertools import count

# As hex digits, and with the longest prefix (`chatcmpl-`), such a token is well below the 64
# characters that strict servers allow for an id.
_TOKEN_BYTES = 16
_MAX_CALL_ID_LENGTH = 64
_MISTRAL_ID_LENGTH = 9
_MIN_NEW_ID_LENGTH = 9
_ALPHANUMERIC = string.ascii_letters + string.digits


class IdSource:
    """A source of new ids and of the time."""

    def __init__(self, token: Callable[[int], str], clock: Callable[[], float]) -> None:
        self._token = token
        self._clock = clock

    def id(self, prefix: str) -> str:
        """Return a new id: the prefix, which includes its separator, and a token."""
        return prefix + self._token(_TOKEN_BYTES)

    def now(self) -> int:
        """Return the time in whole seconds since the epoch."""
        return int(self._clock())


def deterministic_ids(now: int = 1_700_000_000) -> IdSource:
    """Return a source whose ids count from 1 and whose clock stands still."""
    numbers = count(1)
    return IdSource(lambda _size: f"{next(numbers):04}", lambda: now)


def content_ids(content: bytes, now: int = 0) -> IdSource:
    """Return a source whose ids depend only on some content, and whose clock stands still."""
    seed, numbers = hashlib.sha256(content).hexdigest(), count(1)
    return IdSource(lambda _size: stable_hash(seed, str(next(numbers))), lambda: now)


def short_call_id(call_id: str) -> str:
    """Hash a call id if it has more than 64 characters, which the Responses API rejects.

    Truncated ids could collide (https://github.com/decolua/9router/issues/393).
    """
    return call_id if len(call_id) <= _MAX_CALL_ID_LENGTH else "call_" + stable_hash(call_id)


def numbered_call_id(call_id: str, number: int) -> str:
    """Return an id for a call whose own id is in use, with a number or as a hash.

    Some servers reject short ids (https://github.com/farion1231/cc-switch/issues/7156).
    """
    numbered = f"{call_id}_{number}"
    is_short = len(numbered) < _MIN_NEW_ID_LENGTH
    return "call_" + stable_hash(numbered) if is_short else short_call_id(numbered)


def mistral_call_id(call_id: str) -> str:
    """Return a call id as nine letters or digits, which Mistral's templates require.

    See https://github.com/langchain-ai/langchain/issues/24668.
    """
    if len(call_id) == _MISTRAL_ID_LENGTH and call_id.isascii() and call_id.isalnum():
        return call_id
    number, base = int(stable_hash(call_id), 16), len(_ALPHANUMERIC)
    digits = (number // base**place % base for place in range(_MISTRAL_ID_LENGTH))
    return "".join(_ALPHANUMERIC[digit] for digit in digits)


def stable_hash(*parts: str) -> str:
    """Return a hash of some texts as 32 hex digits."""
    joined = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class StableIds:
    """Generates ids for calls without one, which do not change when a history is sent again.

    An id depends on the call and on the number of equal calls before it, so it stays the same when
    a client removes different calls.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def __call__(self, name: str, arguments: str) -> str:
        """Return the id of the next call with this name and these arguments."""
        self._counts[name, arguments] += 1
        return "call_" + stable_hash(name, arguments, str(self._counts[name, arguments]))
