"""The wire format of Chat Completions: field names, chunks, frames and usage."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

from msgspec import Raw, Struct
from msgspec.json import Decoder

from adapters.errors import InvalidRequestError
from adapters.ir.types import CallKind, Error, Extras, Finish, FinishReason, ToolCall, Usage
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.sse import FrameTemplate, encode_line
from adapters.wire.extra_fields import (
    DropPolicy,
    ExtrasWriter,
    harmless_if,
    read_token_counts,
    report_missing_counts,
)
from adapters.wire.json_object import MISSING, is_present, parse, read_fields
from adapters.wire.malformed_values import read_or_drop

Wire = dict[str, object]

# The family of Chat and legacy, and the name of Chat in messages to clients.
FAMILY = "completions"
LABEL = "Chat Completions"

# The names of IR fields, if they differ.
NAMES = {
    "items": "messages",
    "choices": "n",
    "format": "response_format",
    "format.schema": "response_format.json_schema.schema",
    "format.name": "response_format.json_schema.name",
    "format.strict": "response_format.json_schema.strict",
    "format.description": "response_format.json_schema.description",
    "tool_choice.name": "tool_choice.function.name",
    "effort": "reasoning_effort",
    "max_output_tokens": "max_completion_tokens",
    "include_usage": "stream_options.include_usage",
    "include_obfuscation": "stream_options.include_obfuscation",
}

# The same with the fields of messages and tools.
LOSS_NAMES = NAMES | {
    "messages[*].output": "messages[*].content",
    "messages[*].tool_calls[*].arguments": "messages[*].tool_calls[*].function.arguments",
    "messages[*].tool_calls[*].name": "messages[*].tool_calls[*].function.name",
    "tools[*].name": "tools[*].function.name",
    "tools[*].parameters": "tools[*].function.parameters",
    "tools[*].strict": "tools[*].function.strict",
}

# The paths of fields of a reply in losses.
REPLY_NAMES = {
    "content": "choices[0].message.content",
    "finish_reason": "choices[0].finish_reason",
}

# Request fields that only Chat and legacy have, with the severity of dropping them.
CHAT_ONLY_FIELDS = {
    "seed": DropPolicy("hint"),
    "prediction": DropPolicy("hint"),
    "logit_bias": DropPolicy("meaning"),
    "modalities": DropPolicy(harmless_if(["text"], "capability")),
    "audio": DropPolicy("capability"),
}

# Reply fields that matter only to a Chat client.
CHAT_ONLY_REPLY_FIELDS = {"object": DropPolicy(None), "metadata": DropPolicy(None)}

# IR fields that the dialect does not support.
UNSUPPORTED_FIELDS = frozenset(
    (
        "instructions",
        "include",
        "reasoning",
        "text",
        "previous_response_id",
        "conversation",
        "background",
        "truncation",
        "max_tool_calls",
        "context_management",
    )
)

READ_FINISH_REASON: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "filter",
}
# The finish reasons of other APIs that some servers pass on, in lower case.
_OTHER_FINISH_REASONS: dict[str, FinishReason] = {
    "tool_call": "calls",
    "tool_use": "calls",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "max_length": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    # The server stopped a reply that repeated itself.
    "repetition": "length",
    "blocklist": "filter",
    "guardrail_intervened": "filter",
    "image_safety": "filter",
    "prohibited_content": "filter",
    "recitation": "filter",
    "safety": "filter",
    "sensitive": "filter",
    "spii": "filter",
}
# Finish reasons by which servers report an error, in lower case.
_FAILED_FINISH_REASONS = frozenset(
    (
        "abort",
        "aborted",
        "canceled",
        "cancelled",
        "engine_error",
        "error",
        "failed",
        "insufficient_system_resource",
        "internal_error",
        "malformed_function_call",
        "model_error",
        "network_error",
        "overloaded",
        "server_error",
        "timeout",
        "unexpected_tool_call",
    )
)
WRITE_FINISH_REASON: dict[FinishReason, str] = {
    "stop": "stop",
    "calls": "tool_calls",
    "length": "length",
    "filter": "content_filter",
}

# Reasons for losses
REFUSAL_LOGPROBS_REASON = "log probabilities of refusals are not supported by other dialects"
NO_REASONING_FIELD_REASON = "Chat Completions does not support reasoning"
IMAGES_REASON = f"{LABEL} has no images in replies; only the image itself is sent, in images"
NO_TEXT_REASON = "the message has no text"
UNREADABLE_IMAGE_REASON = "the image has no URL"


def read_finish(reason: str | None, losses: Losses) -> Finish:
    """Read a finish reason; an unknown one counts as `stop`."""
    if not reason:
        losses.invented("finish_reason", "the backend sent no finish reason; reported as stop")
        return Finish("stop", "")
    known = READ_FINISH_REASON.get(reason)
    if known is None and not is_failure(reason):
        known = _OTHER_FINISH_REASONS.get(_finish_word(reason))
        kind = "finish reason" if known else "unknown finish reason"
        written = WRITE_FINISH_REASON[known or "stop"]
        losses.changed("finish_reason", f"{kind} {reason!r}; reported as {written}")
    return Finish(known or "stop", reason)


def report_finish(finish: Finish, written: FinishReason, choice: int, losses: Losses) -> None:
    """Report a finish reason of a completion that is replaced because the reply contradicts it."""
    if written != finish.reason and finish.raw in READ_FINISH_REASON:
        reason = f"{finish.raw!r} contradicts the reply"
        losses.changed(f"choices[{choice}].finish_reason", reason)


def is_failure(finish_reason: str | None) -> bool:
    """Whether a server reports an error by a finish reason."""
    if not finish_reason or finish_reason in READ_FINISH_REASON:
        return False
    return _finish_word(finish_reason) in _FAILED_FINISH_REASONS


def _finish_word(reason: str) -> str:
    """Return the last word of a finish reason; Google's servers send several words."""
    return reason.lower().rpartition(":")[2].strip()


def finish_error(reason: str) -> Error:
    """Return the error for one of the finish reasons by which servers report errors."""
    return Error(f"the backend aborted the reply: {reason}", code=_finish_word(reason), status=502)


# The field for the arguments of each kind of call.
CALL_FIELDS: dict[CallKind, str] = {"function": "arguments", "custom": "input"}


def write_call(call: ToolCall) -> Wire:
    """Write a call without its extra fields."""
    body = {"name": call.name, CALL_FIELDS[call.kind]: call.arguments}
    return {"id": call.call_id, "type": call.kind, call.kind: body}


def extras_writer(
    losses: Losses, label: str = LABEL, forward: tuple[str, ...] = ()
) -> ExtrasWriter:
    """Return a writer of the extra fields of Chat and legacy."""
    return ExtrasWriter(FAMILY, label, losses, forward)


# Chunks as servers send them: every field may be missing, null or empty. Rarely used fields stay
# `Raw`. A field of a wrong type ends the stream with an error.


class FunctionDelta(Struct, frozen=True, gc=False):
    """A piece of a function call."""

    name: str | None = None
    # A string; some servers send an object.
    arguments: Raw = MISSING


class CustomDelta(Struct, frozen=True, gc=False):
    """A piece of a custom call."""

    name: str | None = None
    input: str | None = None


class CallDelta(Struct, frozen=True, gc=False):
    """A piece of a call."""

    index: int | None = None
    id: str | int | None = None
    type: str | None = None
    function: FunctionDelta | None = None
    custom: CustomDelta | None = None
    # Data that later requests must contain with the call, such as Google's thought signature.
    extra_content: Raw = MISSING


class MessageDelta(Struct, frozen=True, gc=False):
    """A piece of a message."""

    role: str | None = None
    content: str | list[Raw] | None = None
    refusal: str | None = None
    tool_calls: Sequence[CallDelta] | None = None
    function_call: FunctionDelta | None = None
    # Servers send reasoning in any of these three fields, which OpenAI's schema does not have
    # (https://github.com/BerriAI/litellm/issues/20246).
    reasoning_content: Raw = MISSING
    reasoning: Raw = MISSING
    reasoning_details: Raw = MISSING
    annotations: list[Raw] | None = None
    # Generated images, which OpenAI's schema does not have either.
    images: list[Raw] | None = None


class ChunkChoice(Struct, frozen=True, gc=False):
    """One choice of a chunk."""

    index: int | None = None
    delta: MessageDelta | None = None
    message: MessageDelta | None = None
    finish_reason: str | None = None
    logprobs: Raw = MISSING
    # Fields that some servers add to every chunk; only those of the first and last are reported.
    stop_reason: Raw = MISSING
    native_finish_reason: Raw = MISSING
    content_filter_results: Raw = MISSING
    token_ids: Raw = MISSING


class Chunk(Struct, frozen=True, gc=False):
    """One chunk."""

    id: str | None = None
    object: str | None = None
    created: float | None = None
    model: str | None = None
    choices: Sequence[ChunkChoice] | None = None
    usage: Raw = MISSING
    system_fingerprint: str | None = None
    service_tier: str | None = None
    # An error, whose fields some servers put into the chunk itself.
    error: Raw = MISSING
    message: Raw = MISSING
    type: Raw = MISSING
    code: Raw = MISSING
    param: Raw = MISSING
    provider: Raw = MISSING
    obfuscation: str | None = None


# The same types without unknown fields: the decoder finds unknown fields at no extra cost.


class _KnownFunctionDelta(FunctionDelta, frozen=True, gc=False, forbid_unknown_fields=True):
    pass


class _KnownCustomDelta(CustomDelta, frozen=True, gc=False, forbid_unknown_fields=True):
    pass


class _KnownCallDelta(CallDelta, frozen=True, gc=False, forbid_unknown_fields=True):
    function: _KnownFunctionDelta | None = None
    custom: _KnownCustomDelta | None = None


class _KnownMessageDelta(MessageDelta, frozen=True, gc=False, forbid_unknown_fields=True):
    tool_calls: Sequence[_KnownCallDelta] | None = None
    function_call: _KnownFunctionDelta | None = None


class _KnownChoice(ChunkChoice, frozen=True, gc=False, forbid_unknown_fields=True):
    delta: _KnownMessageDelta | None = None
    message: _KnownMessageDelta | None = None


class KnownChunk(Chunk, frozen=True, gc=False, forbid_unknown_fields=True):
    """A chunk without unknown fields."""

    choices: Sequence[_KnownChoice] | None = None


_UNREAD_FIELDS = frozenset(
    ("stop_reason", "native_finish_reason", "content_filter_results", "token_ids", "provider")
)
_NESTED_SHAPES: dict[str, type[Struct]] = {
    "choices": ChunkChoice,
    "delta": MessageDelta,
    "message": MessageDelta,
    "tool_calls": CallDelta,
    "function_call": FunctionDelta,
    "function": FunctionDelta,
    "custom": CustomDelta,
}


def unknown_fields(data: bytes) -> list[str]:
    """Return the paths of the fields in a chunk that are not read."""
    try:
        return list(_unknown_paths(parse(data), Chunk, ""))
    except InvalidRequestError:
        # The decoder of chunks skips values that `parse` rejects, for example too large numbers.
        return []


def _unknown_paths(value: object, shape: type[Struct], path: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, element in enumerate(cast("list[object]", value)):
            yield from _unknown_paths(element, shape, f"{path[:-1]}[{number}].")
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            if name not in shape.__struct_fields__ or name in _UNREAD_FIELDS:
                if inner is not None:
                    yield path + name
            elif name in _NESTED_SHAPES and not (shape is Chunk and name == "message"):
                yield from _unknown_paths(inner, _NESTED_SHAPES[name], f"{path}{name}.")


# Frames: one `data:` line with a chunk

DONE = b"data: [DONE]\n\n"


class Frames:
    """Writes the chunks of one reply, which have some fields in common."""

    def __init__(self, head: Wire, *, with_usage: bool) -> None:
        self._head = head
        # With `include_usage`, every chunk but the last has `usage: null`.
        self._tail: Wire = {"usage": None} if with_usage else {}

    def chunk(
        self,
        choice: int,
        delta: Wire,
        finish_reason: str | None = None,
        logprobs: Wire | None = None,
    ) -> bytes:
        """Write a chunk with one choice."""
        written: Wire = {"index": choice, "delta": delta, "finish_reason": finish_reason}
        if logprobs is not None:
            written["logprobs"] = logprobs
        return frame(self._head | {"choices": [written]} | self._tail)

    def template(self, choice: int, delta: Wire) -> FrameTemplate:
        """Return a template for chunks with a placeholder in their delta."""
        return FrameTemplate(self.chunk(choice, delta))

    def usage(self, usage: Wire | Raw) -> bytes:
        """Write the chunk with the usage."""
        return frame(self._head | {"choices": (), "usage": usage})

    def add(self, name: str, value: object) -> None:
        """Add a field to all later chunks."""
        self._head[name] = value


def head(reply_id: str, created: int, model: str, service_tier: str | None, extras: Extras) -> Wire:
    """Return the fields that all chunks of a reply have in common."""
    wire: Wire = {
        "id": reply_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
    }
    if service_tier is not None:
        wire["service_tier"] = service_tier
    for extra in extras:
        if extra.family == FAMILY:
            wire[extra.name] = extra.value
    return wire


def frame(wire: Wire) -> bytes:
    """Write one frame."""
    return b"data: " + encode_line(wire) + b"\n\n"


# Usage

# Reads the usage of a reply, any of whose numbers may be missing.
read_usage = partial(read_token_counts, FAMILY, "prompt_tokens", "completion_tokens")

_NO_COUNTS = Usage(missing="counts")


def read_valid_usage(raw: Raw | None, losses: Losses) -> Usage | None:
    """Read the usage of a reply; report an invalid one instead of failing."""
    if raw is None or not is_present(raw):
        return None
    before = len(losses)
    usage = read_or_drop(
        lambda value: read_usage(read_fields(value, "usage")), raw, "usage", losses
    )
    # The usage is not known if no count can be read.
    return None if usage == _NO_COUNTS and len(losses) > before else usage


class Counts(Struct, gc=False):
    """The token counts that clients expect in every usage."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


_COUNTS = Decoder(Counts)
_OBJECT = Decoder(dict[str, Raw])


def has_counts(usage: Raw) -> bool:
    """Whether a usage has all token counts that clients expect."""
    try:
        _COUNTS.decode(usage)
    except DECODE_ERRORS:
        return False
    return True


def complete_usage(raw: Raw) -> Raw | Wire | None:
    """Return a usage with all token counts that clients expect; None if it has none of them."""
    if has_counts(raw):
        return raw
    usage = read_valid_usage(raw, Losses(None))
    if usage is None:
        return None
    counts = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    return {**_OBJECT.decode(raw), **counts}


def write_usage(usage: Usage, extras: ExtrasWriter) -> Wire:
    """Write the usage, including the details that clients expect."""
    wire: Wire = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
    report_missing_counts(usage, extras.losses)
    extras.carry(usage.extras, wire, "usage")
    return wire
