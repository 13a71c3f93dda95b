"""Fields that only one family of dialects has, and fields that several dialects share."""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec import Raw

from adapters.ir.types import CacheOptions, ExtraField, Extras, Family, Request, Usage
from adapters.losses import Losses, Severity
from adapters.wire.json_object import NULL, JsonObject

# The severity of dropping a field, or a function that returns it for a value of the field.
SeverityRule = Severity | None | Callable[[Raw], Severity | None]

# Values that are dropped without a report.
_EMPTY = frozenset((b"[]", b"{}", b'""'))


class DropPolicy(msgspec.Struct, frozen=True):
    """The severity of dropping a field, and the reason to report, if not the default."""

    severity: SeverityRule
    reason: str | None = None


def unread_fields(
    fields: JsonObject,
    family: Family,
    known: Mapping[str, DropPolicy] | None = None,
    prefix: str = "",
    otherwise: SeverityRule = "hint",
) -> Extras:
    """Take the remaining fields of an object as extra fields.

    `otherwise` is the severity of dropping a field that is not in `known`.
    """
    unread = fields.take_all()
    if not unread:
        return ()
    default = DropPolicy(otherwise)
    extras: list[ExtraField] = []
    for name, raw in unread.items():
        if raw == NULL:
            continue
        policy = known.get(name, default) if known else default
        severity, reason = policy.severity, policy.reason
        if bytes(raw) in _EMPTY:
            severity = reason = None
        elif callable(severity):
            severity = severity(raw)
        extras.append(ExtraField(family, prefix + name, raw, severity, reason))
    return tuple(extras)


def harmless_if(harmless: object, severity: Severity) -> Callable[[Raw], Severity | None]:
    """Return a rule that reports no loss if the field has the value `harmless`."""
    encoded = msgspec.json.encode(harmless)
    return lambda raw: None if b"".join(bytes(raw).split()) == encoded else severity


class ExtrasWriter(msgspec.Struct, frozen=True, eq=False):
    """Writes the extra fields of one family, and reports those of other families as losses."""

    family: Family
    # The name of the dialect in messages to clients.
    label: str
    losses: Losses
    # Fields of other families that the backend also accepts.
    forward: tuple[str, ...] = ()

    def carry(self, extras: Extras, into: dict[str, object], path: str = "") -> None:
        """Write extra fields into an object, or report them."""
        for extra in extras:
            if extra.family == self.family or extra.name in self.forward:
                _put(into, extra.name, extra.value)
            else:
                self.report_dropped((extra,), path)

    def report_dropped(self, extras: Extras, path: str = "") -> None:
        """Report extra fields that cannot be written."""
        for extra in extras:
            if extra.severity is not None:
                full_path = f"{path}.{extra.name}" if path else extra.name
                reason = extra.drop_reason or f"{self.label} does not support this field"
                code = "unsupported_parameter"
                self.losses.dropped(full_path, reason, extra.severity, code=code, client_path=True)


def _put(into: dict[str, object], name: str, value: Raw) -> None:
    """Set a field, which may be in an inner object (`reasoning.summary`)."""
    outer, dot, inner = name.partition(".")
    if not dot:
        into[name] = value
        return
    nested = into.setdefault(outer, {})
    if isinstance(nested, dict):
        _put(nested, inner, value)  # pyright: ignore[reportUnknownArgumentType] - our own object


# Settings and token counts that several dialects share

_EMPTY_OBJECT = Raw(b"{}")


def read_cache_options(fields: JsonObject, family: Family) -> CacheOptions | None:
    """Read the options of prompt caching."""
    options = fields.nested("prompt_cache_options")
    if options is None:
        return None
    mode, ttl = options.string("mode"), options.string("ttl")
    return CacheOptions(mode, ttl, unread_fields(options, family))


def _if_zero(raw: Raw) -> Severity:
    """Return the severity of dropping a count: the client can infer that it is zero."""
    return "adapted" if bytes(raw) == b"0" else "hint"


def read_token_counts(
    family: Family, input_name: str, output_name: str, fields: JsonObject | None
) -> Usage | None:
    """Read the usage of a reply; a missing count becomes 0, and a missing total the sum."""
    if fields is None:
        return None
    inputs = fields.nested(f"{input_name}_details") or JsonObject({})
    outputs = fields.nested(f"{output_name}_details") or JsonObject({})
    counts = (fields.integer(input_name), fields.integer(output_name))
    total = fields.integer("total_tokens")
    cached, written = inputs.integer("cached_tokens"), inputs.integer("cache_write_tokens")
    reasoning = outputs.integer("reasoning_tokens")
    input_tokens, output_tokens = (count or 0 for count in counts)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=total or input_tokens + output_tokens,
        cached_tokens=cached or 0,
        cache_write_tokens=written or 0,
        reasoning_tokens=reasoning or 0,
        extras=unread_fields(fields, family, otherwise=_if_zero)
        + unread_fields(inputs, family, prefix=f"{input_name}_details.", otherwise=_if_zero)
        + unread_fields(outputs, family, prefix=f"{output_name}_details.", otherwise=_if_zero),
        missing=_missing((*counts, total), (cached, written, reasoning)),
    )


def _missing(
    counts: tuple[int | None, ...], details: tuple[int | None, ...]
) -> Literal["details", "counts"] | None:
    if None in counts:
        return "counts"
    return "details" if None in details else None


def report_missing_counts(usage: Usage, losses: Losses) -> None:
    """Report the counts that are sent although the backend did not report them."""
    if usage.missing == "counts":
        reason = "counts that the backend did not report are sent as 0 or as a sum"
        losses.invented("usage", reason)
    elif usage.missing == "details":
        losses.invented("usage", "details that the backend did not report are sent as 0", "adapted")


# Fields that no model receives.
_UNSEEN_FIELDS = frozenset(
    (
        "client_metadata",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "store",
        "user",
    )
)
# Fields with little influence on the reply, in the form of any dialect.
MINOR_FIELDS = frozenset(
    (
        "cache_prompt",
        "client_metadata",
        "metadata",
        "min_p",
        "moderation",
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "reasoning_effort",
        "repeat_penalty",
        "repetition_penalty",
        "safety_identifier",
        "seed",
        "service_tier",
        "store",
        "stream_options",
        "temperature",
        "top_k",
        "top_p",
        "truncation",
        "user",
        "verbosity",
    )
)


def drop_unsupported_fields(
    wire: dict[str, object],
    refused: tuple[str, ...],
    names: Mapping[str, str],
    losses: Losses,
    reason: str = "the backend does not support this field",
) -> None:
    """Drop the fields that the backend rejects; `names` are the dialect's names of IR fields."""
    for name in refused:
        value = wire.pop(name, None)
        if value is None:
            continue
        # A field such as `reasoning` or `text` may contain several fields of the IR.
        contained = [
            field
            for field, wire_name in names.items()
            if isinstance(value, dict)
            and wire_name.startswith(f"{name}.")
            and wire_name.removeprefix(f"{name}.") in value
        ]
        same = [field for field, wire_name in names.items() if wire_name == name]
        for field in contained or same or [name]:
            losses.dropped(field, reason, _severity(name))


def _severity(name: str) -> Severity:
    if name in _UNSEEN_FIELDS:
        return "adapted"
    return "hint" if name in MINOR_FIELDS else "capability"


def copy_present(request: Request, names: tuple[str, ...], wire: dict[str, object]) -> None:
    """Write settings that have the same name and form in the IR and in a dialect."""
    for name in names:
        value = getattr(request, name)
        # Omit an empty object, which some servers reject.
        if value is not None and value != _EMPTY_OBJECT:
            wire[name] = value
