"""Whole replies of Chat and legacy, read and written."""

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from adapters.chat.messages import read_assistant
from adapters.chat.usage import read_usage, write_usage
from adapters.chat.wire import (
    NO_REFUSAL_LOGPROBS,
    NOTHING_SAID,
    READ_REASON,
    REPLY_ONLY_HERE,
    WRITE_REASON,
)
from adapters.chat.write_messages import TEXT_SEPARATOR
from adapters.conversation import (
    Annotation,
    Call,
    Choice,
    Citation,
    Extras,
    Finish,
    FinishReason,
    Item,
    Logprob,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Reply,
    Status,
    Text,
)
from adapters.dialect import Surroundings
from adapters.envelope import read_error_fields
from adapters.errors import InvalidInput
from adapters.extras import Carrier, left_over
from adapters.fields import Fields, read_body
from adapters.items import cut_off, has_calls, settled
from adapters.loss import Losses
from adapters.parts import read_logprobs
from adapters.replies import merged, one_choice_asked, renamed, settled_calls

Wire = dict[str, object]
_ENCODER = msgspec.json.Encoder()


# Reading


def read_reply(body: bytes, around: Surroundings) -> Reply:
    """Read a whole reply."""
    fields = read_body(body)
    if fields.has("error") and not fields.has("choices"):
        return Reply(error=read_error_fields(fields, None))
    choices = fields.each("choices")
    if not choices:
        raise InvalidInput("choices", "the reply has no choices")
    inner: Extras = ()
    read: list[Choice] = []
    for choice in sorted(choices, key=_place):
        read.append(_read_choice(choice, around))
        inner += left_over(choice, "completions", prefix=f"{choice.path}.")
    fields.raw("error")
    return Reply(
        id=fields.text("id") or "",
        model=fields.text("model") or "",
        created=fields.integer("created"),
        choices=tuple(read),
        usage=read_usage(fields.fields("usage")),
        service_tier=fields.text("service_tier"),
        extras=left_over(fields, "completions", REPLY_ONLY_HERE) + inner,
    )


def _place(choice: Fields) -> int:
    return choice.integer("index") or 0


def _read_choice(fields: Fields, around: Surroundings) -> Choice:
    word = fields.text("finish_reason")
    finish = read_finish(word, around.losses)
    message = fields.fields("message") or Fields({}, fields.at("message"))

    def mint_call(_name: str, _arguments: str) -> str:
        return around.mint.id("call_")

    message.raw("role")
    completed: Status = "completed"
    items = tuple(read_assistant(message, mint_call, completed))
    items = _said_something(items, around.losses)
    items = _with_logprobs(items, fields.fields("logprobs"), around.losses)
    if finish.reason in ("length", "filter"):
        items = cut_off(items)
    return Choice(settled_calls(items, around.losses), finish)


def _said_something(items: tuple[Item, ...], losses: Losses) -> tuple[Item, ...]:
    """Make an answer of nothing an empty text, and say so (P164)."""
    match items:
        case (Message(content=() | (Text(text=""),)) as message,):
            losses.invented("content", NOTHING_SAID)
            return (msgspec.structs.replace(message, content=(Text(""),)),)
        case (Reasoning() as thought, Message(content=() | (Text(text=""),), extras=())):
            # It thought, and said nothing: no message is made of that.
            return (thought,)
        case _:
            return items


def read_finish(word: str | None, losses: Losses) -> Finish:
    """Read a finish reason; an unknown word means that the model stopped (P107)."""
    if not word:
        losses.invented("finish_reason", "the backend did not say why it stopped")
        return Finish("stop", "")
    reason = READ_REASON.get(word)
    if reason is None:
        losses.changed("finish_reason", f"nobody knows {word!r}; it is taken for stop")
    return Finish(reason or "stop", word)


def _with_logprobs(
    items: tuple[Item, ...], fields: Fields | None, losses: Losses
) -> tuple[Item, ...]:
    """Put the probabilities of the choice with the text that they are about."""
    if fields is None:
        return items
    if fields.raws("refusal"):
        losses.dropped("logprobs.refusal", NO_REFUSAL_LOGPROBS)
    logprobs = read_logprobs(fields.raw("content"), fields.at("content"))
    return tuple(_with_text_logprobs(item, logprobs) for item in items)


def _with_text_logprobs(item: Item, logprobs: tuple[Logprob, ...]) -> Item:
    match item:
        case Message(content=(Text() as text, *others)):
            first = msgspec.structs.replace(text, logprobs=logprobs)
            return msgspec.structs.replace(item, content=(first, *others))
        case _:
            return item


# Writing


class ChoiceWire(Struct):
    """One answer, as it is written."""

    index: int
    message: Wire
    logprobs: Wire | None
    finish_reason: str


CallWriter = Callable[[tuple[Call, ...], Wire, Losses], None]


def write_reply(
    reply: Reply,
    around: Surroundings,
    write_calls: CallWriter | None = None,
    words: dict[FinishReason, str] | None = None,
) -> bytes:
    """Write a whole reply; legacy says its calls in its own way."""
    if one_choice_asked(around.request):
        reply = merged(reply)
    carrier = Carrier("completions", "Chat Completions", around.losses)
    wire: Wire = {
        "id": renamed(reply.id, "chatcmpl-") or around.mint.id("chatcmpl-"),
        "object": "chat.completion",
        "created": around.mint.now() if reply.created is None else reply.created,
        "model": reply.model or around.request.model or "unknown",
    }
    wire["choices"] = [
        _write_choice(number, choice, around.losses, write_calls or _write_calls, words)
        for number, choice in enumerate(reply.choices)
    ]
    if reply.usage is not None:
        wire["usage"] = write_usage(reply.usage)
        carrier.carry(reply.usage.extras, {}, "usage")
    if reply.service_tier is not None:
        wire["service_tier"] = reply.service_tier
    carrier.carry(reply.extras, wire)
    return _ENCODER.encode(wire)


def _write_choice(
    number: int,
    choice: Choice,
    losses: Losses,
    write_calls: CallWriter,
    words: dict[FinishReason, str] | None,
) -> ChoiceWire:
    texts = _texts(choice.items)
    refusals = _refusals(choice.items)
    message: Wire = {
        "role": "assistant",
        "content": _content(choice.items),
        "refusal": "".join(refusals) or None,
    }
    annotations = [
        wire
        for text in texts
        for annotation in text.annotations
        if (wire := write_annotation(annotation, losses)) is not None
    ]
    if annotations:
        message["annotations"] = annotations
    carrier = Carrier("completions", "Chat Completions", losses)
    for item in choice.items:
        if isinstance(item, Message):
            carrier.carry(item.extras, message, "message")
    calls = tuple(item for item in choice.items if isinstance(item, Call))
    if calls:
        write_calls(calls, message, losses)
    report_unsaid(choice.items, losses)
    reason = settled(choice.finish or Finish("stop", ""), has_calls=has_calls(choice.items))
    return ChoiceWire(number, message, _write_logprobs(texts), (words or WRITE_REASON)[reason])


def _is_said(part: Part) -> bool:
    return isinstance(part, Text | Refusal)


def _texts(items: tuple[Item, ...]) -> list[Text]:
    return [
        part
        for item in items
        if isinstance(item, Message)
        for part in item.content
        if isinstance(part, Text)
    ]


def _refusals(items: tuple[Item, ...]) -> list[str]:
    return [
        part.text
        for item in items
        if isinstance(item, Message)
        for part in item.content
        if isinstance(part, Refusal)
    ]


def _content(items: tuple[Item, ...]) -> str | None:
    """Join what was said: nothing between parts, an empty line between messages."""
    messages = [item for item in items if isinstance(item, Message)]
    if not any(isinstance(part, Text) for item in messages for part in item.content):
        # Null stands beside a call or a refusal; where there is nothing at all, an empty text.
        return None if has_calls(items) or _refusals(items) else ""
    texts = (
        "".join(part.text for part in item.content if isinstance(part, Text)) for item in messages
    )
    return TEXT_SEPARATOR.join(text for text in texts if text)


def write_annotation(annotation: Annotation, losses: Losses) -> Wire | Raw | None:
    """Write an annotation; Chat knows only citations of addresses."""
    if isinstance(annotation, Citation):
        citation = {
            "url": annotation.url,
            "title": annotation.title,
            "start_index": annotation.start_index,
            "end_index": annotation.end_index,
        }
        return {"type": "url_citation", "url_citation": citation}
    if annotation.family == "completions":
        return annotation.value
    losses.dropped("annotations", "Chat Completions has only citations of addresses")
    return None


def _write_logprobs(texts: list[Text]) -> Wire | None:
    logprobs = [logprob for text in texts for logprob in text.logprobs]
    return {"content": logprobs, "refusal": None} if logprobs else None


def _write_calls(calls: tuple[Call, ...], message: Wire, losses: Losses) -> None:
    message["tool_calls"] = [write_call(call, losses) for call in calls]


def write_call(call: Call, losses: Losses) -> Wire:
    """Write one call."""
    report_namespace(call, losses)
    body = {"name": call.name, "input" if call.kind == "custom" else "arguments": call.arguments}
    wire: Wire = {"id": call.call_id, "type": call.kind, call.kind: body}
    Carrier("completions", "Chat Completions", losses).carry(call.extras, wire, f"call {call.name}")
    return wire


def report_namespace(call: Call, losses: Losses) -> None:
    """Report a namespace, which Chat has not."""
    if call.namespace:
        losses.dropped(f"call {call.name}.namespace", "Chat Completions has no namespaces")


def report_unsaid(items: tuple[Item, ...], losses: Losses) -> None:
    """Report the items of an answer that Chat has no place for."""
    for item in items:
        if isinstance(item, Message) and any(not _is_said(part) for part in item.content):
            losses.dropped("content", "Chat Completions answers only with text", "capability")
        if isinstance(item, Reasoning):
            losses.dropped("reasoning", "Chat Completions has no place for reasoning")
        elif isinstance(item, Opaque):
            losses.dropped(item.kind, f"Chat Completions has no item {item.kind}", "capability")
