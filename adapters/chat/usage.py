"""Usage as Chat and legacy count it."""

from msgspec import Struct

from adapters.conversation import Extras, Usage
from adapters.extras import left_over
from adapters.fields import Fields


def read_usage(fields: Fields | None) -> Usage | None:
    """Read what it cost; every number may be missing."""
    if fields is None:
        return None
    prompt = fields.fields("prompt_tokens_details") or Fields({})
    completion = fields.fields("completion_tokens_details") or Fields({})
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


def _read_extras(fields: Fields, prompt: Fields, completion: Fields) -> Extras:
    return (
        left_over(fields, "completions")
        + left_over(prompt, "completions", prefix="prompt_tokens_details.")
        + left_over(completion, "completions", prefix="completion_tokens_details.")
    )


class PromptDetails(Struct):
    """What the prompt cost."""

    cached_tokens: int
    cache_write_tokens: int


class CompletionDetails(Struct):
    """What the answer cost."""

    reasoning_tokens: int


class UsageWire(Struct):
    """What it cost, as it is written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


def write_usage(usage: Usage) -> UsageWire:
    """Write what it cost."""
    return UsageWire(
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        PromptDetails(usage.cached_tokens, usage.cache_write_tokens),
        CompletionDetails(usage.reasoning_tokens),
    )
