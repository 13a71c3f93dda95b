"""What a translation gives."""

from msgspec import Struct

from adapters.ir.types import Usage
from adapters.losses import Loss


class Translation(Struct, frozen=True):
    """What goes out, what was lost on the way, the HTTP status that fits, and what it cost."""

    body: bytes
    losses: tuple[Loss, ...] = ()
    status: int = 200
    # Of a reply whose backend said so.
    usage: Usage | None = None
