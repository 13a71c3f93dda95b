"""Encryption keys, sealing, API keys and random ids.

A sealed text is encrypted data that a client carries but cannot read, change or create:

    prefix + base64url(version (1 byte) + nonce (12 bytes) + AES-256-GCM(zlib(payload)))

The authenticated data binds the text to its purpose: reasoning to one backend, a summary to the
client that it was created for, a job's request and credentials to that job. Any node with the key
can open the text; replaced keys can still open older texts.
"""

import hashlib
import secrets
import time
import zlib
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from adapters import IdSource, Sealer

REASONING_PREFIX: Final = "dragoman-sealed-"
SUMMARY_PREFIX: Final = "dragoman-summary-"
JOB_PREFIX: Final = "dragoman-job-"

_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12
_SEALING_KEY_BYTES: Final = 32

_ID_TIME_BYTES: Final = 6


class SealingKeys:
    """The current sealing key and the keys before it."""

    def __init__(self, key: bytes, older: Sequence[bytes] = ()) -> None:
        self._keys = tuple(AESGCM(one) for one in (key, *older))

    def reasoning_sealer(self, backend: str) -> Sealer:
        """Return the sealer for the reasoning of one backend."""
        return _PurposeSealer(self._keys, REASONING_PREFIX, b"reasoning", backend)

    def summary_sealer(self, owner: str) -> Sealer:
        """Return the sealer for the summaries of one client."""
        return _PurposeSealer(self._keys, SUMMARY_PREFIX, b"summary", owner)

    def job_sealer(self, owner: str, response_id: str) -> Sealer:
        """Return the sealer for the request and the credentials of one background job."""
        return _PurposeSealer(self._keys, JOB_PREFIX, b"job", f"{owner} {response_id}")


class _PurposeSealer:
    """Seals with the first key and opens with any, for one purpose."""

    def __init__(self, keys: tuple[AESGCM, ...], prefix: str, purpose: bytes, scope: str) -> None:
        self._keys = keys
        self.prefix = prefix
        self._associated_data = b"\0".join((_VERSION, purpose, scope.encode()))

    def seal(self, payload: bytes) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        encrypted = self._keys[0].encrypt(nonce, zlib.compress(payload), self._associated_data)
        return self._encode(_VERSION + nonce + encrypted)

    def open(self, text: str) -> bytes | None:
        encoded = text.removeprefix(self.prefix)
        try:
            blob = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        except ValueError:
            return None
        # The same bytes have several forms in base64. Any form but ours is a modified text.
        if not blob.startswith(_VERSION) or self._encode(blob) != text:
            return None
        nonce, encrypted = blob[1 : 1 + _NONCE_BYTES], blob[1 + _NONCE_BYTES :]
        if len(nonce) < _NONCE_BYTES:
            return None
        for key in self._keys:
            try:
                return zlib.decompress(key.decrypt(nonce, encrypted, self._associated_data))
            except InvalidTag:
                continue
        return None

    def _encode(self, blob: bytes) -> str:
        return self.prefix + urlsafe_b64encode(blob).decode().rstrip("=")


def new_sealing_key() -> bytes:
    """Return a new random key for `SealingKeys`."""
    return secrets.token_bytes(_SEALING_KEY_BYTES)


def parse_sealing_key(text: str) -> bytes | None:
    """Decode a key in hex or base64; return None if it is invalid."""
    text = text.strip()
    try:
        if len(text) == 2 * _SEALING_KEY_BYTES:
            key = bytes.fromhex(text)
        else:
            standard = text.translate(str.maketrans("-_", "+/")).rstrip("=")
            key = b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except ValueError:
        return None
    return key if len(key) == _SEALING_KEY_BYTES else None


def new_api_key() -> str:
    """Return a new random API key."""
    return "dk-" + secrets.token_urlsafe(32)


def api_key_digest(key: str) -> str:
    """Return the digest of an API key, which identifies it in the configuration and the store.

    A plain hash is enough, because 32 random bytes cannot be guessed.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _random_token(size: int) -> str:
    """Return a token that starts with the time in milliseconds, followed by random digits.

    Rows that are inserted together then have neighboring ids. With entirely random ids, the ten
    items of a turn would make a database read, change and flush ten pages of its index.
    """
    milliseconds = time.time_ns() // 1_000_000
    return milliseconds.to_bytes(_ID_TIME_BYTES).hex() + secrets.token_hex(size - _ID_TIME_BYTES)


RANDOM_IDS: Final = IdSource(_random_token, time.time)
