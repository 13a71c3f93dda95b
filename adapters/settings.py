"""Settings of a request that the dialects have in common."""

from msgspec import Raw

from adapters.conversation import CacheOptions, Family, Request
from adapters.extras import left_over
from adapters.fields import Fields

_EMPTY_OBJECT = Raw(b"{}")


def read_cache_options(fields: Fields, family: Family) -> CacheOptions | None:
    """Read how the prompt is to be cached."""
    options = fields.fields("prompt_cache_options")
    if options is None:
        return None
    mode, ttl = options.text("mode"), options.text("ttl")
    return CacheOptions(mode, ttl, left_over(options, family))


def copy_said(request: Request, names: tuple[str, ...], wire: dict[str, object]) -> None:
    """Write the settings that the hub and a dialect spell alike, where anybody said them."""
    for name in names:
        value = getattr(request, name)
        # An empty object says nothing, and some servers refuse it (P089).
        if value is not None and value != _EMPTY_OBJECT:
            wire[name] = value
