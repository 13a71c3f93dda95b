"""Seals what clients carry for us: nobody but us can read it or make it.

    a prefix  and base64url of: version (1 byte), nonce (12), AES-256-GCM of the payload

What it is for is authenticated with it. Reasoning is for one backend, so that what one said is
never shown to another; a summary is for the caller that it was made for, whichever backend goes on.
What authorises work in the background is for that work alone.
Any node with the key opens it, after any restart. A key that was replaced still opens.
"""

import hashlib
import secrets
import time
import zlib
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from secrets import token_bytes
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from adapters import IdSource, Sealer

REASONING_PREFIX = "dragoman-sealed-"
SUMMARY_PREFIX = "dragoman-summary-"
JOB_PREFIX = "dragoman-job-"

_VERSION = b"\x01"
_NONCE_BYTES = 12
# What is sealed is known by its purpose, too: other things may be sealed with the same key.
_REASONING = b"reasoning"
_SUMMARY = b"summary"
_JOB = b"job"


class KeyRing:
    """Makes all seals."""

    def __init__(self, key: bytes, older: Sequence[bytes] = ()) -> None:
        self._keys = tuple(AESGCM(one) for one in (key, *older))

    def reasoning_sealer(self, name: str) -> Sealer:
        """Give the seal of one backend."""
        return _BoundSeal(self._keys, REASONING_PREFIX, _REASONING, name)

    def summary_sealer(self, owner: str) -> Sealer:
        """Give the seal of the summaries of one caller."""
        return _BoundSeal(self._keys, SUMMARY_PREFIX, _SUMMARY, owner)

    def job_sealer(self, owner: str, response_id: str) -> Sealer:
        """Give the seal of what authorises the work at one response of one caller."""
        return _BoundSeal(self._keys, JOB_PREFIX, _JOB, f"{owner} {response_id}")


class _BoundSeal:
    def __init__(self, keys: tuple[AESGCM, ...], prefix: str, purpose: bytes, name: str) -> None:
        # The first seals, all open.
        self._keys = keys
        self.prefix = prefix
        self._bound = b"\0".join((_VERSION, purpose, name.encode()))

    def seal(self, payload: bytes) -> str:
        nonce = token_bytes(_NONCE_BYTES)
        sealed = self._keys[0].encrypt(nonce, zlib.compress(payload), self._bound)
        return self.prefix + _to_text(_VERSION + nonce + sealed)

    def open(self, text: str) -> bytes | None:
        blob = _from_text(text.removeprefix(self.prefix))
        # What spells the same bytes otherwise was changed, too.
        if not blob.startswith(_VERSION) or self.prefix + _to_text(blob) != text:
            return None
        nonce, sealed = blob[1 : 1 + _NONCE_BYTES], blob[1 + _NONCE_BYTES :]
        if len(nonce) < _NONCE_BYTES:
            return None
        for key in self._keys:
            try:
                return zlib.decompress(key.decrypt(nonce, sealed, self._bound))
            except InvalidTag:
                continue
        return None


def _to_text(blob: bytes) -> str:
    return urlsafe_b64encode(blob).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (NotBase64, ValueError):
        return b""


# Keys: what clients show, with the digest by which we know it, and what we seal with.


_PREFIX = "dk-"
_LENGTH = 32
_SEALING_BYTES = 32


def new_api_key() -> str:
    """Make a key that nobody can guess."""
    return _PREFIX + secrets.token_urlsafe(_LENGTH)


def api_key_digest(key: str) -> str:
    """Give what is stored of a key.

    A plain hash will do: there is nothing to try out in 32 random bytes.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def new_sealing_key() -> bytes:
    """Make a key to seal with."""
    return secrets.token_bytes(_SEALING_BYTES)


def parse_sealing_key(text: str) -> bytes | None:
    """Read a key to seal with, in hex or in base64; None if it is not one."""
    text = text.strip()
    try:
        key = bytes.fromhex(text) if len(text) == 2 * _SEALING_BYTES else _from_base64(text)
    except ValueError:
        return None
    return key if len(key) == _SEALING_BYTES else None


def _from_base64(text: str) -> bytes:
    plain = text.translate(str.maketrans("-_", "+/")).rstrip("=")
    return b64decode(plain + "=" * (-len(plain) % 4), validate=True)


# Where ids and the time come from in service.


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
