"""The Responses API on the wire: its words."""

from msgspec import Struct

from adapters.ir.events import Channel
from adapters.ir.types import CallKind, FinishReason
from adapters.wire.extra_fields import DropPolicy, harmless_if

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
    "thought": PartWords(
        part="reasoning_text",
        field="text",
        index="content_index",
        added="response.content_part.added",
        delta="response.reasoning_text.delta",
        done="response.reasoning_text.done",
        ended="response.content_part.done",
    ),
}
