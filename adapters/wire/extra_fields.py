"""Fields that only one family of dialects knows: kept as spelled, carried on or reported."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Raw

from adapters.ir.types import CacheOptions, ExtraField, Extras, Family, Request
from adapters.losses import Losses, Severity
from adapters.wire.json_object import JsonObject

# How grave it is to leave a field out: always the same, or by its value.
SeverityRule = Severity | None | Callable[[Raw], Severity | None]

# What says nothing may go without a word.
_EMPTY = frozenset((b"[]", b"{}", b'""'))


class DropPolicy(msgspec.Struct, frozen=True):
    """How grave it is to leave a known field out, and what to say then."""

    gravity: SeverityRule
    reason: str | None = None


def unread_fields(
    fields: JsonObject,
    family: Family,
    known: Mapping[str, DropPolicy] | None = None,
    prefix: str = "",
    otherwise: SeverityRule = "hint",
) -> Extras:
    """Take what the reader of an object did not: known to its family, or to nobody."""
    if not fields.count():
        return ()
    fate, fates = DropPolicy(otherwise), known or {}
    return tuple(
        _extra(family, prefix + name, raw, fates.get(name, fate))
        for name, raw in fields.take_remaining()
    )


def _extra(family: Family, name: str, raw: Raw, fate: DropPolicy) -> ExtraField:
    if bytes(raw) in _EMPTY:
        return ExtraField(family, name, raw, None)
    severity = fate.gravity(raw) if callable(fate.gravity) else fate.gravity
    return ExtraField(family, name, raw, severity, fate.reason)


def harmless_if(harmless: object, severity: Severity) -> Callable[[Raw], Severity | None]:
    """Make a gravity that one value does not have."""
    spelled = msgspec.json.encode(harmless)
    return lambda raw: None if b"".join(bytes(raw).split()) == spelled else severity


class ExtrasWriter:
    """Carries extras into what one family writes, and reports those of any other family."""

    def __init__(
        self, family: Family, label: str, losses: Losses, forward: tuple[str, ...] = ()
    ) -> None:
        self._family = family
        # Names of fields that are carried whoever spoke them: the backend knows them.
        self._forward = forward
        # How the family is called in a sentence for the caller.
        self._label = label
        self._losses = losses

    def carry(self, extras: Extras, into: dict[str, object], path: str = "") -> None:
        """Write the extras into an object, or say that they are lost."""
        for extra in extras:
            if extra.family == self._family or extra.name in self._forward:
                _put(into, extra.name, extra.value)
            else:
                self._lose(extra, path)

    def report_dropped(self, extras: Extras, path: str = "") -> None:
        """Say that the extras are lost, because there is nothing here to put them on."""
        for extra in extras:
            self._lose(extra, path)

    def _lose(self, extra: ExtraField, path: str) -> None:
        if extra.severity is not None:
            where = f"{path}.{extra.name}" if path else extra.name
            reason = extra.drop_reason or f"{self._label} has no place for it"
            code = "unsupported_parameter"
            self._losses.dropped(where, reason, extra.severity, code=code, exact=True)


def _put(into: dict[str, object], name: str, value: Raw) -> None:
    """Put a value under a name that may lead into an inner object (`reasoning.summary`)."""
    outer, dot, inner = name.partition(".")
    if not dot:
        into[name] = value
        return
    nested = into.setdefault(outer, {})
    if isinstance(nested, dict):
        _put(nested, inner, value)  # pyright: ignore[reportUnknownArgumentType] - an object of ours


# Settings of a request that the dialects have in common.


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
