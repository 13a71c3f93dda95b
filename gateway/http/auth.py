"""Authentication of clients by their API keys."""

import hmac

from msgspec import Struct

from gateway.config.schema import AccessConfig, KeyConfig
from gateway.crypto import api_key_digest
from gateway.errors import UnauthorizedError

_BEARER = "bearer "


class Principal(Struct, frozen=True, gc=False):
    """An authenticated client."""

    # The key that the client authenticated with; None if the gateway requires no keys.
    key: KeyConfig | None = None
    # The client's Authorization header for backends; None if the gateway requires keys.
    authorization: str | None = None

    @property
    def name(self) -> str | None:
        """Return the name of the key, for the log."""
        return None if self.key is None else self.key.name

    @property
    def owner(self) -> str:
        """Return the owner of objects that are stored for this client: the digest of its key."""
        return api_key_digest(self.authorization or "") if self.key is None else self.key.sha256


class Authenticator:
    """Recognizes the keys of clients by their digests."""

    def __init__(self, access: AccessConfig) -> None:
        self._keys = [(key.sha256.encode(), key) for key in access.keys]

    def authenticate(self, headers: dict[str, str]) -> Principal:
        """Return the sender of a request; raise `UnauthorizedError` without a known key."""
        authorization, azure_key = headers.get("authorization"), headers.get("api-key")
        if not self._keys:
            if authorization is None and azure_key is not None:
                authorization = f"Bearer {azure_key}"
            return Principal(authorization=authorization)
        if authorization is not None and authorization.lower().startswith(_BEARER):
            given = authorization[len(_BEARER) :].strip()
        else:
            given = (azure_key or "").strip()
        if not given:
            raise UnauthorizedError(
                None, "an API key is required, as a bearer token or in the header api-key"
            )
        key = self._find(given)
        if key is None:
            raise UnauthorizedError(None, "the API key is unknown")
        return Principal(key=key)

    def reauthenticate(self, owner: str, authorization: str | None) -> Principal:
        """Return the sender of an earlier request; raise `UnauthorizedError` if its key is gone."""
        if not self._keys:
            return Principal(authorization=authorization)
        key = next((key for _, key in self._keys if key.sha256 == owner), None)
        if key is None:
            raise UnauthorizedError(None, "the API key of this request is no longer known")
        return Principal(key=key)

    def _find(self, given: str) -> KeyConfig | None:
        """Compare with all keys, so that the time does not depend on which one matches."""
        digest = api_key_digest(given).encode()
        found: KeyConfig | None = None
        for known, key in self._keys:
            if hmac.compare_digest(known, digest):
                found = key
        return found
