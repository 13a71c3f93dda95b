"""The wire format of the Responses API: field names, events, frames and usage."""

from functools import partial

from msgspec import Struct

from adapters.ir.events import Channel
from adapters.ir.normalize import MISSING_USAGE_REASON
from adapters.ir.types import CallKind, Error, FinishReason, Usage
from adapters.losses import Losses
from adapters.sse import FrameTemplate, encode, encode_line
from adapters.wire.error_body import error_object
from adapters.wire.extra_fields import (
    DropPolicy,
    ExtrasWriter,
    harmless_if,
    read_token_counts,
    report_missing_counts,
)

Wire = dict[str, object]

# The family of the fields that only this API has, and its name in messages to clients.
FAMILY = "responses"
LABEL = "the Responses API"

# The names of IR fields in a request, where they differ.
NAMES = {
    "items": "input",
    "format": "text.format",
    "format.schema": "text.format.schema",
    "format.name": "text.format.name",
    "format.strict": "text.format.strict",
    "format.description": "text.format.description",
    "verbosity": "text.verbosity",
    "effort": "reasoning.effort",
    "include_obfuscation": "stream_options.include_obfuscation",
}

# The paths of fields of a reply in losses.
REPLY_NAMES = {"content": "output", "choices": "output", "finish_reason": "status"}

# Request fields that only Responses has, and how to report each one when it is dropped.
RESPONSES_ONLY_FIELDS = {
    "previous_response_id": DropPolicy("meaning", "stored responses are not available"),
    "conversation": DropPolicy("meaning", "stored conversations are not available"),
    "prompt": DropPolicy("meaning", "prompt templates are not available"),
    "background": DropPolicy(
        harmless_if(harmless=False, severity="meaning"), "background responses are not supported"
    ),
    "store": DropPolicy(
        harmless_if(harmless=False, severity="hint"), "the backend does not store responses"
    ),
    "context_management": DropPolicy("capability"),
    "access_programs": DropPolicy("capability"),
    "truncation": DropPolicy(harmless_if("disabled", "hint")),
    # Telemetry of the client, which no model receives.
    "client_metadata": DropPolicy("adapted"),
    "max_tool_calls": DropPolicy("hint", f"only {LABEL} limits calls of built-in tools"),
}

# IR fields that the dialect does not have.
UNSUPPORTED_FIELDS = frozenset(
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

# The reasons in `incomplete_details`. `steered`: the client sent more input before the end.
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


def finish_reason_change(word: str, reason: FinishReason) -> str:
    """Return the reason for the loss of a word for which other dialects have no equal."""
    return f"{word or 'a missing reason'} is reported as {reason}"


class CallNames(Struct, frozen=True):
    """The item types of one kind of call and of its output, and the prefix of their ids."""

    item: str
    output: str
    prefix: str


class StreamedCallNames(CallNames, frozen=True):
    """The same for calls of tools with names, whose arguments are streamed."""

    # The field of the arguments, and the type of their events (`response.*.delta`, `.done`).
    field: str
    event: str


CALLS: dict[CallKind, StreamedCallNames] = {
    "function": StreamedCallNames(
        "function_call", "function_call_output", "fc_", "arguments", "function_call_arguments"
    ),
    "custom": StreamedCallNames(
        "custom_tool_call", "custom_tool_call_output", "ctc_", "input", "custom_tool_call_input"
    ),
}
ALL_CALL_NAMES: dict[CallKind, CallNames] = {
    **CALLS,
    "shell": CallNames("shell_call", "shell_call_output", "sh_"),
    "local_shell": CallNames("local_shell_call", "local_shell_call_output", "lsh_"),
    "apply_patch": CallNames("apply_patch_call", "apply_patch_call_output", "apc_"),
    "computer": CallNames("computer_call", "computer_call_output", "cu_"),
    "tool_search": CallNames("tool_search_call", "tool_search_output", "tsc_"),
}
# The type of generated images, and the prefix of their ids.
IMAGE_CALL, IMAGE_PREFIX = "image_generation_call", "ig_"
CALL_KINDS: dict[str, CallKind] = {names.item: kind for kind, names in ALL_CALL_NAMES.items()}
OUTPUT_KINDS: dict[str, CallKind] = {names.output: kind for kind, names in ALL_CALL_NAMES.items()}


class PartNames(Struct, frozen=True):
    """The type, the fields and the events of the parts of one channel."""

    part: str
    # The field of the text.
    field: str
    # The field of events with the number of the part.
    index: str
    # The events of the part (`response.*.added`, `.done`) and of its text (`.delta`, `.done`).
    part_event: str
    text_event: str


PARTS: dict[Channel, PartNames] = {
    "text": PartNames("output_text", "text", "content_index", "content_part", "output_text"),
    "refusal": PartNames("refusal", "refusal", "content_index", "content_part", "refusal"),
    "summary": PartNames(
        "summary_text", "text", "summary_index", "reasoning_summary_part", "reasoning_summary_text"
    ),
    "reasoning": PartNames(
        "reasoning_text", "text", "content_index", "content_part", "reasoning_text"
    ),
}

# Frames: each has an `event:` line, and a `data:` line with a `sequence_number`

DONE = b"data: [DONE]\n\n"


def delta_template(kind: str, fields: Wire) -> FrameTemplate:
    """Return the template of delta events up to their number; `fields` has the placeholder."""
    # The number is the last field.
    return FrameTemplate(frame(kind, fields, 0).removesuffix(b"0}\n\n"))


class Frames(Struct, eq=False):
    """Writes the frames of one stream."""

    next_number: int = 0

    def event(self, kind: str, fields: Wire) -> bytes:
        """Write an event."""
        number = self.next_number
        self.next_number = number + 1
        return frame(kind, fields, number)

    def delta(self, template: FrameTemplate, text: str) -> bytes:
        """Write a delta event."""
        number = self.next_number
        self.next_number = number + 1
        return b"%b%b%b%d}\n\n" % (template.before, encode(text), template.after, number)


def frame(kind: str, fields: Wire, number: int) -> bytes:
    """Write one frame."""
    wire = {"type": kind} | fields | {"sequence_number": number}
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode_line(wire))


def error_fields(error: Error) -> Wire:
    """Return the fields of an `error` event: flat as for OpenAI, nested as for Open Responses."""
    flat: Wire = {"code": error.code, "message": error.message, "param": error.param}
    return flat | {"error": error_object(error)}


# Usage

read_usage = partial(read_token_counts, FAMILY, "input_tokens", "output_tokens")


def write_usage(usage: Usage) -> Wire:
    """Write the usage, with all counts."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def usage_or_zeros(usage: Usage | None, losses: Losses) -> Wire:
    """Write the usage of a complete reply, or zeros: Codex cannot read a response without usage."""
    if usage is None:
        losses.invented("usage", MISSING_USAGE_REASON)
        return write_usage(Usage())
    report_missing_counts(usage, losses)
    written = write_usage(usage)
    ExtrasWriter(FAMILY, LABEL, losses).carry(usage.extras, written, "usage")
    return written
