"""What a backend can take: its profile, and the single capabilities that differ from it."""

from types import NoneType
from typing import get_args

import msgspec
from msgspec import structs

from adapters import Capabilities
from adapters.capabilities import GENERIC
from adapters.profiles import PROFILES
from gateway.config.schema import Backend

# TOML has no null. This word says it, where a capability has it.
NOTHING = "null"

_MAY_BE_NOTHING = {
    field.name for field in structs.fields(Capabilities) if NoneType in get_args(field.type)
}
# The dialects are this vendor's, so what its profile would ask for is what its clients send.
_AT_HOME = "openai"


def capabilities_of(backend: Backend) -> tuple[Capabilities, bool]:
    """Give what a backend takes, and whether requests in its own dialect must be rewritten for it.

    Without a profile nobody knows better than the client what the backend takes.
    """
    bundle = GENERIC if backend.profile is None else PROFILES[backend.profile]
    given = overrides(backend.capabilities)
    whole = msgspec.convert(msgspec.to_builtins(bundle) | given, Capabilities)
    return whole, bool(given) or backend.profile not in (None, _AT_HOME)


def overrides(given: dict[str, object]) -> dict[str, object]:
    """Read the word for nothing as nothing."""
    return {
        name: None if value == NOTHING and name in _MAY_BE_NOTHING else value
        for name, value in given.items()
    }
