"""How the service is."""

from msgspec import Struct


class Health(Struct, frozen=True):
    """How the service is: `ok`, or `ready`."""

    status: str
