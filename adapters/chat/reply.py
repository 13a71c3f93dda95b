"""Whole replies of Chat and legacy, read and written."""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Raw

from adapters.chat.message_reader import read_assistant
from adapters.chat.parts import NO_REASONING_FIELD_REASON, TEXT_SEPARATOR, reasoning_text
from adapters.chat.typical_reply import read_plain_reply
from adapters.chat.wire import (
    CHAT_ONLY_REPLY_FIELDS,
    FAILED_FINISH_REASONS,
    MISSING_CALL_ID_REASON,
    READ_FINISH_REASON,
    REFUSAL_LOGPROBS_REASON,
    WRITE_FINISH_REASON,
    call_body,
    read_usage,
    write_usage,
)
from adapters.dialect import ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.normalize import (
    EMPTY_REPLY_REASON,
    effective_finish,
    has_calls,
    mark_incomplete,
    merge_choices,
    normalize_calls,
    reply_model,
    wants_one_choice,
    with_id_prefix,
)
from adapters.ir.types import (
    Annotation,
    Choice,
    Citation,
    Error,
    Finish,
    FinishReason,
    Item,
    Logprob,
    Message,
    OpaqueItem,
    Part,
    Reasoning,
    Refusal,
    Reply,
    Status,
    Text,
    ToolCall,
    Usage,
)
from adapters.losses import Losses
from adapters.wire.content import read_logprobs
from adapters.wire.error_body import (
    infer_status,
    is_error,
    read_error_fields,
    read_error_value,
)
from adapters.wire.extra_fields import ExtrasWriter, unread_fields
from adapters.wire.json_object import JsonObject, read_body, read_fields

Wire = dict[str, object]
_ENCODER = msgspec.json.Encoder()


# Reading


def read_reply(body: bytes, around: ReplyContext) -> Reply:
    """Read a whole reply."""
    return read_plain_reply(body, around.losses) or read_any_reply(body, around)


def read_any_reply(body: bytes, around: ReplyContext) -> Reply:
    """Read a whole reply, whatever shape it has."""
    fields = read_body(body)
    error = _read_failure(fields)
    if error is not None:
        return Reply(error=infer_status(error))
    choices = fields.objects("choices")
    if not choices:
        raise InvalidRequestError("choices", "the reply has no choices")
    read = [_read_choice(choice, around) for choice in sorted(choices, key=_place)]
    words = (choice.finish.raw for choice in read if choice.finish is not None)
    failed = next((word for word in words if word in FAILED_FINISH_REASONS), None)
    return Reply(
        id=fields.string("id") or "",
        model=fields.string("model") or "",
        created=fields.integer("created"),
        choices=tuple(read),
        usage=_read_usage(fields, around.losses),
        service_tier=fields.string("service_tier"),
        error=None if failed is None else finish_error(failed),
        extras=unread_fields(fields, "completions", CHAT_ONLY_REPLY_FIELDS),
    )


def _read_usage(fields: JsonObject, losses: Losses) -> Usage | None:
    """Read what it cost; that it cannot be read does not cost the answer."""
    try:
        return read_usage(fields.nested("usage"))
    except InvalidRequestError as problem:
        losses.dropped("usage", f"it cannot be read: {problem}")
        return None


def _read_failure(fields: JsonObject) -> Error | None:
    """Read the error that a reply is, or has: servers answer 200 to what went wrong."""
    raw = fields.raw("error")
    if raw is not None and is_error(raw):
        return read_error_value(raw, None)
    if fields.string("object") == "error":
        return read_error_fields(fields, None)
    return None


def finish_error(word: str) -> Error:
    """Say that the model did not get to an end, where its server has only a word for it."""
    return Error(f"the backend broke off: {word}", code=word, status=502)


def _place(choice: JsonObject) -> int:
    return choice.integer("index") or 0


def _read_choice(fields: JsonObject, around: ReplyContext) -> Choice:
    finish = read_finish(fields.string("finish_reason"), around.losses)
    message = fields.nested("message") or JsonObject({}, fields.at("message"))
    modern = message.has("tool_calls")

    def mint_call(name: str, _arguments: str) -> str:
        if modern:
            around.losses.invented(f"call {name}", MISSING_CALL_ID_REASON)
        return around.mint.id("call_")

    message.raw("role")
    completed: Status = "completed"
    items = tuple(read_assistant(message, mint_call, completed))
    items = _said_something(items, around.losses)
    items = _with_logprobs(items, fields.nested("logprobs"), around.losses)
    cut = finish.reason in ("length", "filter")
    settled = normalize_calls(mark_incomplete(items) if cut else items, around.losses)
    if items and not settled:
        # Calls that nobody could run were all that it said.
        nothing = Message("assistant", status="incomplete" if cut else completed)
        settled = _said_something((nothing,), around.losses)
    return Choice(settled, finish, unread_fields(fields, "completions"))


def _said_something(items: tuple[Item, ...], losses: Losses) -> tuple[Item, ...]:
    """Make an answer of nothing an empty text, and say so (P164)."""
    match items:
        case (Message(content=() | (Text(text=""),), extras=extras) as message,) if not any(
            extra.name == "audio" for extra in extras
        ):
            losses.invented("content", EMPTY_REPLY_REASON)
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
    reason = READ_FINISH_REASON.get(word)
    if reason is None and word not in FAILED_FINISH_REASONS:
        losses.changed("finish_reason", f"nobody knows {word!r}; it is taken for a normal end")
    return Finish(reason or "stop", word)


def _with_logprobs(
    items: tuple[Item, ...], fields: JsonObject | None, losses: Losses
) -> tuple[Item, ...]:
    """Put the probabilities of the choice with the text that they are about."""
    if fields is None:
        return items
    if fields.array("refusal"):
        losses.dropped("logprobs.refusal", REFUSAL_LOGPROBS_REASON)
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


def completion_id(reply_id: str) -> str | None:
    """Give a reply's id as Chat has it; within the family it stays what it was."""
    if reply_id.startswith("resp_"):
        return with_id_prefix(reply_id, "chatcmpl-")
    return reply_id or None


CallWriter = Callable[[tuple[ToolCall, ...], Wire, Losses], None]


def write_reply(
    reply: Reply,
    around: ReplyContext,
    write_calls: CallWriter | None = None,
    words: dict[FinishReason, str] | None = None,
) -> bytes:
    """Write a whole reply; legacy says its calls in its own way."""
    if wants_one_choice(around.request):
        reply = merge_choices(reply)
    carrier = ExtrasWriter("completions", "Chat Completions", around.losses)
    wire: Wire = {
        "id": completion_id(reply.id) or around.mint.id("chatcmpl-"),
        "object": "chat.completion",
        "created": around.mint.now() if reply.created is None else reply.created,
        "model": reply_model(reply.model, around.request, around.losses),
    }
    wire["choices"] = [
        _write_choice(number, choice, around, write_calls or _write_calls, words)
        for number, choice in enumerate(reply.choices)
    ]
    if reply.usage is not None:
        wire["usage"] = write_usage(reply.usage, carrier)
    if reply.service_tier is not None:
        wire["service_tier"] = reply.service_tier
    carrier.carry(reply.extras, wire)
    return _ENCODER.encode(wire)


def _write_choice(
    number: int,
    choice: Choice,
    around: ReplyContext,
    write_calls: CallWriter,
    words: dict[FinishReason, str] | None,
) -> Wire:
    losses = around.losses
    texts = _texts(choice.items)
    refusals = _refusals(choice.items)
    message: Wire = {
        "role": "assistant",
        "content": _content(choice.items, losses),
        "refusal": "".join(refusals) or None,
    }
    annotations = list(_write_annotations(choice.items, losses))
    if annotations:
        message["annotations"] = annotations
    carrier = ExtrasWriter("completions", "Chat Completions", losses)
    for item in choice.items:
        if isinstance(item, Message | Reasoning):
            carrier.carry(item.extras, message, "message")
    field = around.reply_options.reasoning_field
    if field and reasoning_text(choice.items):
        message[field] = reasoning_text(choice.items)
    calls = tuple(item for item in choice.items if isinstance(item, ToolCall))
    if calls:
        write_calls(calls, message, losses)
    report_unwritable(choice.items, losses, tells_thoughts=field is not None)
    reason = effective_finish(
        choice.finish or Finish("stop", ""), has_calls=has_calls(choice.items)
    )
    wire: Wire = {
        "index": number,
        "message": message,
        "logprobs": _write_logprobs(texts),
        "finish_reason": (words or WRITE_FINISH_REASON)[reason],
    }
    carrier.carry(choice.extras, wire, f"choices[{number}]")
    return wire


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


def _content(items: tuple[Item, ...], losses: Losses) -> str | None:
    """Join what was said: nothing between parts, an empty line between messages."""
    if not _texts(items):
        if has_calls(items) or _refusals(items) or _has_audio(items):
            # Null stands beside a call, a refusal or a sound.
            return None
        losses.invented("content", EMPTY_REPLY_REASON)
    return "".join(separator + text.text for separator, text in _joined(items))


def _has_audio(items: tuple[Item, ...]) -> bool:
    return any(
        extra.name == "audio"
        for item in items
        if isinstance(item, Message)
        for extra in item.extras
    )


def _joined(items: tuple[Item, ...]) -> Iterator[tuple[str, Text]]:
    """Give each text with what stands before it when all are put into one string."""
    spoke = False
    for item in items:
        if not isinstance(item, Message):
            continue
        separate = spoke and not item.continues
        for part in item.content:
            if isinstance(part, Text):
                yield (TEXT_SEPARATOR if separate and part.text else ""), part
                separate = separate and not part.text
                spoke = spoke or bool(part.text)


def _write_annotations(items: tuple[Item, ...], losses: Losses) -> Iterator[Wire | Raw]:
    """Write the annotations; in the joined text their places are counted from its start."""
    offset = 0
    for separator, text in _joined(items):
        offset += len(separator)
        for annotation in text.annotations:
            wire = write_annotation(annotation, losses, offset)
            if wire is not None:
                yield wire
        offset += len(text.text)


def write_annotation(annotation: Annotation, losses: Losses, offset: int = 0) -> Wire | Raw | None:
    """Write an annotation; Chat knows only citations of addresses."""
    if isinstance(annotation, Citation):
        citation = {
            "url": annotation.url,
            "title": annotation.title,
            "start_index": annotation.start_index + offset,
            "end_index": annotation.end_index + offset,
        }
        return {"type": "url_citation", "url_citation": citation}
    if annotation.family == "completions":
        return annotation.value
    kind = read_fields(annotation.value).string("type")
    losses.dropped("annotations", f"Chat Completions has no annotation {kind}")
    return None


def _write_logprobs(texts: list[Text]) -> Wire | None:
    logprobs = [logprob for text in texts for logprob in text.logprobs]
    return {"content": write_logprobs(logprobs), "refusal": None} if logprobs else None


def write_logprobs(logprobs: Iterable[Logprob]) -> list[Wire]:
    """Write probabilities, with every key that clients look for."""
    return [
        {
            "token": one.token,
            "logprob": one.logprob,
            "bytes": one.bytes,
            "top_logprobs": one.top_logprobs or (),
        }
        for one in logprobs
    ]


def _write_calls(calls: tuple[ToolCall, ...], message: Wire, losses: Losses) -> None:
    message["tool_calls"] = [write_call(call, losses) for call in calls]


def write_call(call: ToolCall, losses: Losses) -> Wire:
    """Write one call."""
    wire: Wire = {"id": call.call_id, "type": call.kind, call.kind: call_body(call)}
    ExtrasWriter("completions", "Chat Completions", losses).carry(
        call.extras, wire, f"call {call.name}"
    )
    return wire


def report_unwritable(
    items: tuple[Item, ...], losses: Losses, *, tells_thoughts: bool = False
) -> None:
    """Report the items of an answer that Chat has no place for."""
    for item in items:
        if isinstance(item, Message) and any(not _is_said(part) for part in item.content):
            losses.dropped("content", "Chat Completions answers only with text", "capability")
        if isinstance(item, Reasoning):
            if item.encrypted is not None or (reasoning_text((item,)) and not tells_thoughts):
                losses.dropped("reasoning", NO_REASONING_FIELD_REASON)
        elif isinstance(item, OpaqueItem):
            losses.dropped(item.kind, f"Chat Completions has no item {item.kind}", "capability")
