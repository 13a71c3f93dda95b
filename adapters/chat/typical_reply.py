"""A short way for plain replies: read in one step, by the shape that nearly all of them have.

One choice that says something or calls something, and came to its end. What has any other shape, or
any field more that says anything, is read the long way, which is lenient and misses nothing; both
give the same replies.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from adapters.chat.message_reader import NonEmptyStr
from adapters.chat.wire import READ_FINISH_REASON, read_usage
from adapters.errors import InvalidRequestError
from adapters.ir.normalize import normalize_calls
from adapters.ir.types import Choice, Extras, Finish, Item, Message, Reply, Text, ToolCall
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.wire.extra_fields import unread_fields
from adapters.wire.json_object import MISSING, JsonObject, is_present, read_fields

# Many servers write out all that they do not say.
Nothing = Annotated[list[Raw], Meta(max_length=0)] | None


class PlainFunction(Struct, gc=False, forbid_unknown_fields=True):
    """Whom a call calls."""

    name: NonEmptyStr
    arguments: str


class PlainCall(Struct, gc=False, forbid_unknown_fields=True):
    """A call with all that it should have."""

    id: NonEmptyStr
    type: Literal["function"]
    function: PlainFunction
    index: int | None = None


class PlainMessage(Struct, gc=False, forbid_unknown_fields=True):
    """What is said, and whom it calls."""

    role: Literal["assistant"]
    content: str | None = None
    tool_calls: tuple[PlainCall, ...] | None = None
    refusal: None = None
    annotations: Nothing = None
    audio: None = None
    function_call: None = None
    reasoning: None = None
    reasoning_content: None = None


class PlainChoice(Struct, gc=False, forbid_unknown_fields=True):
    """The one choice."""

    message: PlainMessage
    finish_reason: Literal["stop", "tool_calls"]
    index: int = 0
    logprobs: None = None
    stop_reason: None = None
    token_ids: None = None


class PlainReply(Struct, gc=False, forbid_unknown_fields=True):
    """A reply of Chat."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: Annotated[tuple[PlainChoice, ...], Meta(min_length=1, max_length=1)]
    usage: Raw = MISSING
    service_tier: str | None = None
    system_fingerprint: Raw = MISSING
    prompt_logprobs: None = None
    prompt_token_ids: None = None
    kv_transfer_params: None = None


_DECODER = Decoder(PlainReply)


def read_plain_reply(body: bytes, losses: Losses) -> Reply | None:
    """Read a plain reply; None if it is not one."""
    try:
        plain = _DECODER.decode(body)
        usage = read_usage(read_fields(plain.usage, "usage")) if is_present(plain.usage) else None
    except (*DECODE_ERRORS, InvalidRequestError):
        return None
    choice = plain.choices[0]
    items = _read_items(choice.message)
    if not items or not _is_ascii(plain):
        return None
    word = choice.finish_reason
    return Reply(
        id=plain.id,
        model=plain.model,
        created=plain.created,
        choices=(Choice(normalize_calls(items, losses), Finish(READ_FINISH_REASON[word], word)),),
        usage=usage,
        service_tier=plain.service_tier,
        extras=_read_extras(plain),
    )


def _is_ascii(plain: PlainReply) -> bool:
    """Tell whether what is not decoded is text at all, and no bytes of anything else."""
    return bytes(plain.usage).isascii() and bytes(plain.system_fingerprint).isascii()


def _read_extras(plain: PlainReply) -> Extras:
    raw = plain.system_fingerprint
    return (
        unread_fields(JsonObject({"system_fingerprint": raw}), "completions")
        if is_present(raw)
        else ()
    )


def _read_items(message: PlainMessage) -> tuple[Item, ...]:
    calls = tuple(
        ToolCall(one.id, one.function.name, one.function.arguments, status="completed")
        for one in message.tool_calls or ()
    )
    if not message.content:
        return calls
    return (Message("assistant", (Text(message.content),), status="completed"), *calls)
