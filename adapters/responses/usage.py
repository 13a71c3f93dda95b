"""Usage as the Responses API counts it."""

from msgspec import Struct

from adapters.ir.replies import USAGE_ZEROS
from adapters.ir.types import Usage
from adapters.losses import Losses
from adapters.wire.extra_fields import ExtrasWriter, harmless_if, unread_fields
from adapters.wire.json_object import JsonObject

# A count of nothing says nothing.
_COUNT = harmless_if(0, "hint")


def read_usage(fields: JsonObject | None) -> Usage | None:
    """Read what it cost; every number may be missing."""
    if fields is None:
        return None
    given = fields.nested("input_tokens_details") or JsonObject({})
    made = fields.nested("output_tokens_details") or JsonObject({})
    input_tokens = fields.integer("input_tokens") or 0
    output_tokens = fields.integer("output_tokens") or 0
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=fields.integer("total_tokens") or input_tokens + output_tokens,
        cached_tokens=given.integer("cached_tokens") or 0,
        cache_write_tokens=given.integer("cache_write_tokens") or 0,
        reasoning_tokens=made.integer("reasoning_tokens") or 0,
        extras=unread_fields(fields, "responses", otherwise=_COUNT)
        + unread_fields(given, "responses", prefix="input_tokens_details.", otherwise=_COUNT)
        + unread_fields(made, "responses", prefix="output_tokens_details.", otherwise=_COUNT),
    )


class InputDetails(Struct):
    """What the input cost."""

    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(Struct):
    """What the output cost."""

    reasoning_tokens: int


class UsageWire(Struct):
    """What it cost, as it is written."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


def write_usage(usage: Usage) -> UsageWire:
    """Write what it cost."""
    return UsageWire(
        usage.input_tokens,
        InputDetails(usage.cached_tokens, usage.cache_write_tokens),
        usage.output_tokens,
        OutputDetails(usage.reasoning_tokens),
        usage.total_tokens,
    )


def usage_or_zeros(usage: Usage | None, losses: Losses) -> UsageWire:
    """Write what it cost; where nobody said, zeros, for Codex cannot read less than the whole."""
    if usage is None:
        losses.invented("usage", USAGE_ZEROS)
        return write_usage(Usage())
    ExtrasWriter("responses", "the Responses API", losses).report_dropped(usage.extras, "usage")
    return write_usage(usage)
