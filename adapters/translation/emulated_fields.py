"""Remove request fields whose effect is produced here, because the backend does not accept them."""

from msgspec.structs import replace

from adapters.ir.types import Request
from adapters.losses import Losses
from adapters.stages.stop_sequences import MAX_SEQUENCE_LENGTH, MAX_SEQUENCES

_STOP_EMULATED = "the backend does not support stop sequences; its reply is cut at the first one"
_STOP_TOO_LONG = (
    "the backend does not support stop sequences; its reply can be cut at no more than"
    f" {MAX_SEQUENCES} of at most {MAX_SEQUENCE_LENGTH} characters each"
)
_CHOICES_EMULATED = "the backend gives one choice; the request is sent once for each"
_SEED_CHANGED = "increased by one for each choice, because equal seeds give equal choices"


def without_choices(request: Request, limit: int, losses: Losses, *, seeds: bool) -> Request:
    """Return the request for one choice, which will be sent once for each.

    `seeds`: whether the backend accepts a seed.
    """
    if (request.choices or 1) > limit:
        reason = f"the backend gives one choice; the request can be sent for at most {limit}"
        losses.dropped("choices", reason, "meaning")
    losses.changed("choices", _CHOICES_EMULATED)
    if seeds and any(extra.name == "seed" for extra in request.extras):
        losses.changed("seed", _SEED_CHANGED)
    return replace(request, choices=None)


def without_stop(request: Request, losses: Losses) -> Request:
    """Return the request without stop sequences, at which the reply will be cut."""
    if len(request.stop) > MAX_SEQUENCES or max(map(len, request.stop)) > MAX_SEQUENCE_LENGTH:
        losses.dropped("stop", _STOP_TOO_LONG, "meaning")
    losses.changed("stop", _STOP_EMULATED)
    return replace(request, stop=())
