"""Settings of a request that the dialects have in common."""

from collections.abc import Mapping

from msgspec import Raw

from adapters.ir.types import CacheOptions, Family, Request
from adapters.losses import Losses, Severity
from adapters.wire.extra_fields import unread_fields
from adapters.wire.json_object import JsonObject

_EMPTY_OBJECT = Raw(b"{}")


def read_cache_options(fields: JsonObject, family: Family) -> CacheOptions | None:
    """Read how the prompt is to be cached."""
    options = fields.nested("prompt_cache_options")
    if options is None:
        return None
    mode, ttl = options.string("mode"), options.string("ttl")
    return CacheOptions(mode, ttl, unread_fields(options, family))


# What a backend may refuse without a difference to the answer.
_HARMLESS = frozenset(
    (
        "metadata",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "seed",
        "service_tier",
        "store",
        "stream_options",
        "user",
    )
)


def drop_refused(
    wire: dict[str, object], refused: tuple[str, ...], names: Mapping[str, str], losses: Losses
) -> None:
    """Leave out what the backend refuses; `names` says how its dialect spells the hub's fields."""
    for name in refused:
        value = wire.pop(name, None)
        if value is None:
            continue
        # A field may hold several of the hub's, as `reasoning` and `text` do.
        inner = [field for field, spelled in names.items() if spelled.startswith(f"{name}.")]
        own = [field for field, spelled in names.items() if spelled == name]
        said = [field for field in inner if _holds(value, names[field].removeprefix(f"{name}."))]
        severity: Severity = "hint" if name in _HARMLESS else "capability"
        for field in said or own or [name]:
            losses.dropped(field, "the backend refuses it", severity)


def _holds(value: object, name: str) -> bool:
    return isinstance(value, dict) and name in value


def copy_present(request: Request, names: tuple[str, ...], wire: dict[str, object]) -> None:
    """Write the settings that the hub and a dialect spell alike, where anybody said them."""
    for name in names:
        value = getattr(request, name)
        # An empty object says nothing, and some servers refuse it (P089).
        if value is not None and value != _EMPTY_OBJECT:
            wire[name] = value
