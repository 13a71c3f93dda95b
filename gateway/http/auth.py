"""Who may call, and which key goes to the backend."""

import hmac

from msgspec import Struct

from gateway.config.schema import AccessConfig, KeyConfig
from gateway.crypto import api_key_digest
from gateway.errors import UnauthorizedError

_BEARER = "bearer "


class Principal(Struct, frozen=True, gc=False):
    """Who calls: the key that was shown, by its name; and what may be passed on to a backend."""

    key: KeyConfig | None = None
    # The client's own Authorization, where no gateway keys are in use.
    authorization: str | None = None

    @property
    def name(self) -> str | None:
        """Give the name of the key, for the log."""
        return None if self.key is None else self.key.name

    @property
    def owner(self) -> str:
        """Say to whom belongs what is kept for this caller: a digest, from which no key is read."""
        return api_key_digest(self.authorization or "") if self.key is None else self.key.sha256


class Authenticator:
    """Knows the keys, or rather their digests."""

    def __init__(self, access: AccessConfig) -> None:
        self._keys = [(key.sha256.encode(), key) for key in access.keys]

    def authenticate(self, headers: dict[str, str]) -> Principal:
        """Tell who calls; raise `Unauthorized` if nobody may know."""
        if not self._keys:
            return Principal(authorization=_own_authorization(headers))
        shown = _shown_key(headers)
        if not shown:
            raise UnauthorizedError(None, "a key of this gateway is needed, as a bearer token")
        key = self._find(shown)
        if key is None:
            raise UnauthorizedError(None, "this key is not known here")
        return Principal(key=key)

    def reauthenticate(self, owner: str, authorization: str | None) -> Principal:
        """Tell who called earlier; raise `Unauthorized` if that key is no longer known."""
        if not self._keys:
            return Principal(authorization=authorization)
        key = next((key for _, key in self._keys if key.sha256 == owner), None)
        if key is None:
            raise UnauthorizedError(
                None, "the key that this was asked with is no longer known here"
            )
        return Principal(key=key)

    def _find(self, shown: str) -> KeyConfig | None:
        """Compare with all keys, whichever fits: the time taken tells nothing."""
        shown_digest = api_key_digest(shown).encode()
        found: KeyConfig | None = None
        for known, key in self._keys:
            if hmac.compare_digest(known, shown_digest):
                found = key
        return found


def _shown_key(headers: dict[str, str]) -> str:
    """Take the key from where clients put it; Azure's clients have a header of their own."""
    authorization = headers.get("authorization", "")
    if authorization.lower().startswith(_BEARER):
        return authorization[len(_BEARER) :].strip()
    return headers.get("api-key", "").strip()


def _own_authorization(headers: dict[str, str]) -> str | None:
    authorization = headers.get("authorization")
    if authorization is not None:
        return authorization
    key = headers.get("api-key")
    return None if key is None else f"Bearer {key}"
