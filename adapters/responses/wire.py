"""The Responses API on the wire: its words."""

from msgspec import Struct

from adapters.ir.events import Channel
from adapters.ir.normalize import MISSING_USAGE_REASON
from adapters.ir.types import CallKind, Error, FinishReason, Usage
from adapters.losses import Losses
from adapters.sse import PLACEHOLDER, encode, encode_line
from adapters.wire.error_body import error_body
from adapters.wire.extra_fields import DropPolicy, ExtrasWriter, harmless_if, unread_fields
from adapters.wire.json_object import JsonObject

# How this dialect spells the fields of the hub, where the two differ.
NAMES = {
    "items": "input",
    "format": "text.format",
    "format.schema": "text.format.schema",
    "verbosity": "text.verbosity",
    "effort": "reasoning.effort",
    "include_obfuscation": "stream_options.include_obfuscation",
}

# Parameters that only Responses knows, and how grave it is to leave each out.
ONLY_HERE = {
    "previous_response_id": DropPolicy("meaning", "no earlier response is kept here to go on from"),
    "conversation": DropPolicy("meaning", "no conversation is kept here"),
    "prompt": DropPolicy("meaning", "prompt templates are kept by OpenAI, not here"),
    "background": DropPolicy(
        harmless_if(harmless=False, severity="meaning"), "nothing runs on in the background here"
    ),
    "store": DropPolicy(
        harmless_if(harmless=False, severity="hint"), "the backend keeps no responses"
    ),
    "context_management": DropPolicy("capability"),
    "access_programs": DropPolicy("capability"),
    "truncation": DropPolicy(harmless_if("disabled", "hint")),
    # Counts the calls of built-in tools, of which no other dialect has any.
    "max_tool_calls": DropPolicy(None),
}

# What it cannot say, of what the hub knows.
LACKS = frozenset(
    (
        "choices",
        "stop",
        "include_usage",
        "seed",
        "logit_bias",
        "prediction",
        "modalities",
        "audio",
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
        "stream_options",
    )
)

INCLUDE_LOGPROBS = "message.output_text.logprobs"

# Why an answer is incomplete. `steered` means that the client spoke on before the end.
READ_INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "filter",
    "steered": "stop",
}
WRITE_INCOMPLETE: dict[FinishReason, str] = {
    "length": "max_output_tokens",
    "filter": "content_filter",
}


class CallNames(Struct, frozen=True):
    """What the calls of one kind of tool are called."""

    item: str
    output: str
    field: str
    prefix: str
    delta: str
    done: str


CALLS: dict[CallKind, CallNames] = {
    "function": CallNames(
        item="function_call",
        output="function_call_output",
        field="arguments",
        prefix="fc_",
        delta="response.function_call_arguments.delta",
        done="response.function_call_arguments.done",
    ),
    "custom": CallNames(
        item="custom_tool_call",
        output="custom_tool_call_output",
        field="input",
        prefix="ctc_",
        delta="response.custom_tool_call_input.delta",
        done="response.custom_tool_call_input.done",
    ),
}


class WholeCallWords(Struct, frozen=True):
    """What the calls of one kind of tool without a name are called; their items come whole."""

    item: str
    output: str
    prefix: str


WHOLE_CALLS: dict[CallKind, WholeCallWords] = {
    "shell": WholeCallWords("shell_call", "shell_call_output", "sh_"),
    "local_shell": WholeCallWords("local_shell_call", "local_shell_call_output", "lsh_"),
    "apply_patch": WholeCallWords("apply_patch_call", "apply_patch_call_output", "apc_"),
    "computer": WholeCallWords("computer_call", "computer_call_output", "cu_"),
    "tool_search": WholeCallWords("tool_search_call", "tool_search_output", "tsc_"),
}
ALL_CALL_NAMES: dict[CallKind, CallNames | WholeCallWords] = {**CALLS, **WHOLE_CALLS}
CALL_KINDS: dict[str, CallKind] = {words.item: kind for kind, words in ALL_CALL_NAMES.items()}
OUTPUT_KINDS: dict[str, CallKind] = {words.output: kind for kind, words in ALL_CALL_NAMES.items()}


class PartWords(Struct, frozen=True):
    """What the parts of one channel are called, from their first event to their last."""

    part: str
    field: str
    index: str
    added: str
    delta: str
    done: str
    ended: str


PARTS: dict[Channel, PartWords] = {
    "text": PartWords(
        part="output_text",
        field="text",
        index="content_index",
        added="response.content_part.added",
        delta="response.output_text.delta",
        done="response.output_text.done",
        ended="response.content_part.done",
    ),
    "refusal": PartWords(
        part="refusal",
        field="refusal",
        index="content_index",
        added="response.content_part.added",
        delta="response.refusal.delta",
        done="response.refusal.done",
        ended="response.content_part.done",
    ),
    "summary": PartWords(
        part="summary_text",
        field="text",
        index="summary_index",
        added="response.reasoning_summary_part.added",
        delta="response.reasoning_summary_text.delta",
        done="response.reasoning_summary_text.done",
        ended="response.reasoning_summary_part.done",
    ),
    "reasoning": PartWords(
        part="reasoning_text",
        field="text",
        index="content_index",
        added="response.content_part.added",
        delta="response.reasoning_text.delta",
        done="response.reasoning_text.done",
        ended="response.content_part.done",
    ),
}


# The frames of a Responses stream: an `event:` line, a `data:` line, and their count.


Wire = dict[str, object]

DONE = b"data: [DONE]\n\n"

_ENCODED_HOLE = encode(PLACEHOLDER)


class DeltaTemplate:
    """A delta event with two holes: its text, and its number in the stream."""

    __slots__ = ("_after", "_before")

    def __init__(self, made: bytes) -> None:
        # The number is the last field; it is 0 here.
        whole = made.removesuffix(b"0}\n\n")
        # The last one: a name that stands before it may be anything, even that.
        self._before, _, self._after = whole.rpartition(_ENCODED_HOLE)

    def fill(self, text: str, number: int) -> bytes:
        """Give the frame with a text and a number."""
        return b"%b%b%b%d}\n\n" % (self._before, encode(text), self._after, number)


class Frames:
    """Makes frames and counts them."""

    def __init__(self) -> None:
        self._count = 0

    def skip_to(self, number: int) -> None:
        """Count on from where another server's numbers ended."""
        self._count = number or self._count

    def step_back(self) -> None:
        """Use the last number again."""
        self._count -= 1

    def event(self, kind: str, fields: Wire) -> bytes:
        """Make a frame."""
        return frame(kind, fields, self._next())

    def delta(self, template: DeltaTemplate, text: str) -> bytes:
        """Make a frame from a template."""
        number = self._count
        self._count = number + 1
        return template.fill(text, number)

    def _next(self) -> int:
        self._count += 1
        return self._count - 1


def delta_template(kind: str, fields: Wire) -> DeltaTemplate:
    """Make the template of a delta event, the hole among its fields."""
    return DeltaTemplate(frame(kind, fields, 0))


def frame(kind: str, fields: Wire, number: int) -> bytes:
    """Put one event on the wire."""
    wire = {"type": kind} | fields | {"sequence_number": number}
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode_line(wire))


def error_fields(error: Error) -> Wire:
    """Tell an error flat and nested at once: each client reads one of the two."""
    said: Wire = {"code": error.code, "message": error.message, "param": error.param}
    return said | {"error": error_body(error)}


# Usage as the Responses API counts it.


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
        losses.invented("usage", MISSING_USAGE_REASON)
        return write_usage(Usage())
    ExtrasWriter("responses", "the Responses API", losses).report_dropped(usage.extras, "usage")
    return write_usage(usage)
