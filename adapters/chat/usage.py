"""Usage as Chat and legacy count it."""

from adapters.ir.types import Extras, Usage
from adapters.wire.extra_fields import ExtrasWriter, harmless_if, unread_fields
from adapters.wire.json_object import JsonObject

# A count of nothing says nothing.
_COUNT = harmless_if(0, "hint")


def read_usage(fields: JsonObject | None) -> Usage | None:
    """Read what it cost; every number may be missing."""
    if fields is None:
        return None
    prompt = fields.nested("prompt_tokens_details") or JsonObject({})
    completion = fields.nested("completion_tokens_details") or JsonObject({})
    given = fields.integer("prompt_tokens") or 0
    made = fields.integer("completion_tokens") or 0
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=fields.integer("total_tokens") or given + made,
        cached_tokens=prompt.integer("cached_tokens") or 0,
        cache_write_tokens=prompt.integer("cache_write_tokens") or 0,
        reasoning_tokens=completion.integer("reasoning_tokens") or 0,
        extras=_read_extras(fields, prompt, completion),
    )


def _read_extras(fields: JsonObject, prompt: JsonObject, completion: JsonObject) -> Extras:
    return (
        unread_fields(fields, "completions", otherwise=_COUNT)
        + unread_fields(prompt, "completions", prefix="prompt_tokens_details.", otherwise=_COUNT)
        + unread_fields(
            completion, "completions", prefix="completion_tokens_details.", otherwise=_COUNT
        )
    )


def write_usage(usage: Usage, carrier: ExtrasWriter) -> dict[str, object]:
    """Write what it cost, always with the details that clients look for."""
    wire: dict[str, object] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
    carrier.carry(usage.extras, wire, "usage")
    return wire
