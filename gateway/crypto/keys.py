"""Keys: what clients show, with the digest by which we know it, and what we seal with."""

import hashlib
import secrets
from base64 import b64decode

_PREFIX = "dk-"
_LENGTH = 32
_SEALING_BYTES = 32


def new_key() -> str:
    """Make a key that nobody can guess."""
    return _PREFIX + secrets.token_urlsafe(_LENGTH)


def digest(key: str) -> str:
    """Give what is stored of a key.

    A plain hash will do: there is nothing to try out in 32 random bytes.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def new_sealing_key() -> bytes:
    """Make a key to seal with."""
    return secrets.token_bytes(_SEALING_BYTES)


def read_sealing_key(text: str) -> bytes | None:
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
