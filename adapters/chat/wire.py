"""Chat Completions on the wire: its words, and the shape of its chunks."""

from collections.abc import Iterator, Sequence
from typing import cast

from msgspec import Raw, Struct

from adapters.errors import InvalidRequestError
from adapters.ir.types import CallKind, Error, Extras, FinishReason, ToolCall, Usage
from adapters.sse import FrameTemplate, encode
from adapters.wire.error_body import error_body
from adapters.wire.extra_fields import DropPolicy, ExtrasWriter, harmless_if, unread_fields
from adapters.wire.json_object import MISSING, JsonObject, parse

# How this dialect spells the fields of the hub, where the two differ.
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

# Parameters that only Chat and legacy know, and how grave it is to leave each out.
CHAT_ONLY_FIELDS = {
    "seed": DropPolicy("hint"),
    "prediction": DropPolicy("hint"),
    "logit_bias": DropPolicy("meaning"),
    "modalities": DropPolicy(harmless_if(["text"], "capability")),
    "audio": DropPolicy("capability"),
}

# What it cannot say, of what the hub knows.
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

# Where calls hold what they are called with, by the kinds that there are.
CALL_FIELDS: dict[CallKind, str] = {"function": "arguments", "custom": "input"}


def call_body(call: ToolCall) -> dict[str, str]:
    """Write whom a call calls, and with what."""
    return {"name": call.name, CALL_FIELDS[call.kind]: call.arguments}


READ_FINISH_REASON: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "filter",
}
# Words for an answer that broke off: no kind of finish.
FAILED_FINISH_REASONS = frozenset(("error", "insufficient_system_resource"))
WRITE_FINISH_REASON: dict[FinishReason, str] = {
    "stop": "stop",
    "calls": "tool_calls",
    "length": "length",
    "filter": "content_filter",
}

# Fields of a reply that say nothing to anyone but a Chat client.
CHAT_ONLY_REPLY_FIELDS = {
    "object": DropPolicy(None),
    "metadata": DropPolicy(None),
}

REFUSAL_LOGPROBS_REASON = "probabilities of a refusal have no place in another dialect"
MISSING_CALL_ID_REASON = "the backend gave the call no id; it gets one"


# Chunks, as servers send them: every field may be missing, null or empty. What is only looked at
# now and then stays `Raw`; what has a wrong type fails the chunk, and with it the stream.


class FunctionDelta(Struct, frozen=True, gc=False):
    """A piece of a function call."""

    name: str | None = None
    # A string; some servers send the object itself.
    arguments: Raw = MISSING


class CustomDelta(Struct, frozen=True, gc=False):
    """A piece of a custom call."""

    name: str | None = None
    input: str | None = None


class CallDelta(Struct, frozen=True, gc=False):
    """A piece of one of the calls."""

    index: int | None = None
    id: str | int | None = None
    type: str | None = None
    function: FunctionDelta | None = None
    custom: CustomDelta | None = None
    # What a server wants to see again with the call, such as Google's signature of a thought.
    extra_content: Raw = MISSING


class MessageDelta(Struct, frozen=True, gc=False):
    """A piece of the answer."""

    role: str | None = None
    content: str | list[Raw] | None = None
    refusal: str | None = None
    tool_calls: Sequence[CallDelta] | None = None
    function_call: FunctionDelta | None = None
    # The same thought under three names (P084); none is in the official schema.
    reasoning_content: Raw = MISSING
    reasoning: Raw = MISSING
    reasoning_details: Raw = MISSING
    annotations: list[Raw] | None = None


class ChunkChoice(Struct, frozen=True, gc=False):
    """One choice of a chunk."""

    index: int | None = None
    delta: MessageDelta | None = None
    message: MessageDelta | None = None
    finish_reason: str | None = None
    logprobs: Raw = MISSING
    # What known servers add to every chunk: looked for in the first and in the last.
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
    # An error: wrapped, as a rule, but some servers send it bare.
    error: Raw = MISSING
    message: Raw = MISSING
    type: Raw = MISSING
    code: Raw = MISSING
    param: Raw = MISSING
    provider: Raw = MISSING
    obfuscation: str | None = None


# The same, refusing fields that nobody knows: one look decides, and costs nothing where there are
# none.


class KnownFunctionDelta(FunctionDelta, frozen=True, gc=False, forbid_unknown_fields=True):
    """A piece of a function call and nothing else."""


class KnownCustomDelta(CustomDelta, frozen=True, gc=False, forbid_unknown_fields=True):
    """A piece of a custom call and nothing else."""


class KnownCallDelta(CallDelta, frozen=True, gc=False, forbid_unknown_fields=True):
    """A piece of a call and nothing else."""

    function: KnownFunctionDelta | None = None
    custom: KnownCustomDelta | None = None


class KnownMessageDelta(MessageDelta, frozen=True, gc=False, forbid_unknown_fields=True):
    """A piece of the answer and nothing else."""

    tool_calls: Sequence[KnownCallDelta] | None = None
    function_call: KnownFunctionDelta | None = None


class KnownChoice(ChunkChoice, frozen=True, gc=False, forbid_unknown_fields=True):
    """One choice of a chunk and nothing else."""

    delta: KnownMessageDelta | None = None
    message: KnownMessageDelta | None = None


class KnownChunk(Chunk, frozen=True, gc=False, forbid_unknown_fields=True):
    """One chunk and nothing else."""

    choices: Sequence[KnownChoice] | None = None


_ADDED = frozenset(
    ("stop_reason", "native_finish_reason", "content_filter_results", "token_ids", "provider")
)
_SHAPE: dict[str, type[Struct]] = {
    "choices": ChunkChoice,
    "delta": MessageDelta,
    "message": MessageDelta,
    "tool_calls": CallDelta,
    "function_call": FunctionDelta,
    "function": FunctionDelta,
    "custom": CustomDelta,
}


def unknown_fields(data: bytes) -> list[str]:
    """Give the paths of the fields of a chunk that nobody knows."""
    try:
        return list(_strangers(parse(data), Chunk, ""))
    except InvalidRequestError:
        # A number beyond all bounds, say: the chunk was read, but nobody can look into that.
        return []


def _strangers(value: object, shape: type[Struct], path: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, one in enumerate(cast("list[object]", value)):
            yield from _strangers(one, shape, f"{path[:-1]}[{number}].")
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            if name not in shape.__struct_fields__ or name in _ADDED:
                if inner is not None:
                    yield path + name
            elif name in _SHAPE and not (shape is Chunk and name == "message"):
                yield from _strangers(inner, _SHAPE[name], f"{path}{name}.")


# The frames of a Chat stream: `data:` lines with one chunk each.


Wire = dict[str, object]

DONE = b"data: [DONE]\n\n"


class Frames:
    """Makes chunks that agree in everything that must be the same in all of them."""

    def __init__(self, head: Wire, *, with_usage: bool) -> None:
        self._head = head
        # A client that asked for the usage gets `usage: null` on every chunk but the last.
        self._tail: Wire = {"usage": None} if with_usage else {}

    def chunk(
        self,
        choice: int,
        delta: Wire,
        finish_reason: str | None = None,
        logprobs: Wire | None = None,
    ) -> bytes:
        """Make a chunk of one choice."""
        written: Wire = {"index": choice, "delta": delta, "finish_reason": finish_reason}
        if logprobs is not None:
            written["logprobs"] = logprobs
        return frame(self._head | {"choices": [written]} | self._tail)

    def template(self, choice: int, delta: Wire) -> FrameTemplate:
        """Make a chunk with a hole in its delta."""
        return FrameTemplate(self.chunk(choice, delta))

    def usage(self, usage: Wire) -> bytes:
        """Make the chunk that says what it cost."""
        return frame(self._head | {"choices": (), "usage": usage})

    def add(self, name: str, value: object) -> None:
        """Say something more on all chunks that are still to come."""
        self._head[name] = value


def head(reply_id: str, created: int, model: str, service_tier: str | None, extras: Extras) -> Wire:
    """Give what all chunks of a reply have in common."""
    wire: Wire = {
        "id": reply_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
    }
    if service_tier is not None:
        wire["service_tier"] = service_tier
    for extra in extras:
        if extra.family == "completions":
            wire[extra.name] = extra.value
    return wire


def error_frame(error: Error) -> bytes:
    """Make the frame that ends a broken stream."""
    return frame({"error": error_body(error)})


def frame(wire: Wire) -> bytes:
    """Put one object on the wire."""
    return b"data: " + encode(wire) + b"\n\n"


# Usage as Chat and legacy count it.


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
