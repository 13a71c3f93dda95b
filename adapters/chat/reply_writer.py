"""Writer of complete replies for Chat clients."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Raw

from adapters.chat.parts import TEXT_SEPARATOR, reasoning_field, reasoning_text
from adapters.chat.wire import (
    FAMILY,
    IMAGES_REASON,
    LABEL,
    NO_REASONING_FIELD_REASON,
    WRITE_FINISH_REASON,
    Wire,
    extras_writer,
    report_finish,
    write_call,
    write_usage,
)
from adapters.dialect import ReplyContext
from adapters.ir import types as ir
from adapters.ir.normalize import (
    EMPTY_REPLY_REASON,
    MERGED_CHOICES_REASON,
    call_path,
    content_path,
    effective_finish,
    has_calls,
    merge_choices,
    part_path,
    reply_model,
    wants_one_choice,
    with_id_prefix,
)
from adapters.losses import Losses
from adapters.wire.images import chat_image, image_of, report_image_fields
from adapters.wire.json_object import read_fields


def completion_id(reply_id: str) -> str | None:
    """Return a reply's id for a Chat client; only ids of the Responses API are changed."""
    if reply_id.startswith("resp_"):
        return with_id_prefix(reply_id, "chatcmpl-")
    return reply_id or None


class ReplyWriter:
    """Writes complete replies."""

    finish_reasons: Mapping[ir.FinishReason, str] = WRITE_FINISH_REASON

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._losses = context.losses
        # A reply that is repaired keeps the details that the IR lacks.
        self._details = Losses(None) if context.repairs else context.losses
        self._extras = extras_writer(context.losses)

    def write(self, reply: ir.Reply) -> Wire:
        """Write the reply."""
        context = self._context
        if len(reply.choices) > 1 and wants_one_choice(context.request):
            self._losses.changed("choices", MERGED_CHOICES_REASON)
            reply = merge_choices(reply)
        wire: Wire = {
            "id": completion_id(reply.id) or context.ids.id("chatcmpl-"),
            "object": "chat.completion",
            "created": context.ids.now() if reply.created is None else reply.created,
            "model": reply_model(reply.model, context.request, self._losses),
            "choices": [self._write_choice(*numbered) for numbered in enumerate(reply.choices)],
        }
        if reply.usage is not None:
            wire["usage"] = write_usage(reply.usage, extras_writer(self._details))
        if reply.service_tier is not None:
            wire["service_tier"] = reply.service_tier
        self._extras.carry(reply.extras, wire)
        return wire

    def _write_choice(self, number: int, choice: ir.Choice) -> Wire:
        message = self._write_message(choice.items, f"choices[{number}].message")
        finish = choice.finish or ir.Finish("stop", "")
        reason = effective_finish(finish, has_calls=has_calls(choice.items))
        report_finish(finish, reason, number, self._details)
        texts = [part for part in _parts(choice.items) if isinstance(part, ir.Text)]
        logprobs = [logprob for text in texts for logprob in text.logprobs]
        wire: Wire = {
            "index": number,
            "message": message,
            "logprobs": write_logprobs(logprobs) if logprobs else None,
            "finish_reason": self.finish_reasons[reason],
        }
        self._extras.carry(choice.extras, wire, f"choices[{number}]")
        return wire

    def _write_message(self, items: tuple[ir.Item, ...], path: str) -> Wire:
        message: Wire = {
            "role": "assistant",
            "content": _content(items, self._details),
            "refusal": "".join([p.text for p in _parts(items) if isinstance(p, ir.Refusal)])
            or None,
        }
        if annotations := list(_write_annotations(items, self._details)):
            message["annotations"] = annotations
        for item in items:
            if isinstance(item, ir.Message | ir.Reasoning):
                self._losses.place(item.path, path)
                self._extras.carry(item.extras, message, item.path)
        reasoning = (item for item in items if isinstance(item, ir.Reasoning))
        field = reasoning_field(reasoning, self._context)
        if field and reasoning_text(items):
            message[field] = reasoning_text(items)
        if images := write_images(items, 0, path, self._losses):
            message["images"] = images
        if calls := [item for item in items if isinstance(item, ir.ToolCall)]:
            self._write_calls(calls, message, path)
        report_unwritable(items, self._details, writes_reasoning=field is not None)
        return message

    def _write_calls(self, calls: list[ir.ToolCall], message: Wire, path: str) -> None:
        message["tool_calls"] = [self._write_call(call) for call in calls]
        for number, call in enumerate(calls):
            self._losses.place(call_path(call), f"{path}.tool_calls[{number}]")

    def _write_call(self, call: ir.ToolCall) -> Wire:
        wire = write_call(call)
        self._extras.carry(call.extras, wire, call_path(call))
        return wire


def write_reply(reply: ir.Reply, context: ReplyContext) -> Wire:
    """Write a complete reply."""
    return ReplyWriter(context).write(reply)


def _parts(items: tuple[ir.Item, ...]) -> list[ir.Part]:
    return [part for item in items if isinstance(item, ir.Message) for part in item.content]


def _content(items: tuple[ir.Item, ...], losses: Losses) -> str | None:
    """Join the texts: parts without a separator, messages with an empty line between them."""
    parts = _parts(items)
    if not [part for part in parts if isinstance(part, ir.Text)]:
        if has_calls(items) or any(isinstance(p, ir.Refusal) for p in parts) or _has_media(items):
            return None
        losses.invented("content", EMPTY_REPLY_REASON)
    return "".join(separator + text.text for separator, text, _ in _separated_texts(items))


def _has_media(items: tuple[ir.Item, ...]) -> bool:
    """Whether there is audio or an image."""
    messages = (item for item in items if isinstance(item, ir.Message))
    has_audio = any(extra.name == "audio" for message in messages for extra in message.extras)
    return has_audio or any(image_of(item) is not None for item in items)


def write_images(
    items: Iterable[ir.Item], number: int, message: str, losses: Losses
) -> list[Wire | Raw]:
    """Write the images among some items; the first one has this number in the message."""
    written: list[Wire | Raw] = []
    for item in items:
        if not isinstance(item, ir.OpaqueItem) or item.image is None:
            continue
        losses.place(item.path, f"{message}.images[{number + len(written)}]")
        if item.family == FAMILY:
            written.append(item.value)
            continue
        losses.changed(item.path, IMAGES_REASON)
        report_image_fields(item.value, item.path, LABEL, losses)
        written.append(chat_image(item.image, number + len(written)))
    return written


def _separated_texts(items: tuple[ir.Item, ...]) -> Iterator[tuple[str, ir.Text, str]]:
    """Yield each text with the separator before it and its path."""
    has_text = False
    for item in items:
        if not isinstance(item, ir.Message):
            continue
        separate = has_text and not item.continues
        for number, part in enumerate(item.content):
            if isinstance(part, ir.Text):
                separator = TEXT_SEPARATOR if separate and part.text else ""
                yield separator, part, part_path(item, number)
                separate = separate and not part.text
                has_text = has_text or bool(part.text)


def _write_annotations(items: tuple[ir.Item, ...], losses: Losses) -> Iterator[Wire | Raw]:
    """Write the annotations, with their positions in the joined text."""
    offset = 0
    for separator, text, path in _separated_texts(items):
        offset += len(separator)
        for annotation in text.annotations:
            if (wire := write_annotation(annotation, path, losses, offset)) is not None:
                yield wire
        offset += len(text.text)


def write_annotation(
    annotation: ir.Annotation, path: str, losses: Losses, offset: int = 0
) -> Wire | Raw | None:
    """Write an annotation; Chat has only URL citations."""
    if isinstance(annotation, ir.Citation):
        citation = {
            "url": annotation.url,
            "title": annotation.title,
            "start_index": annotation.start_index + offset,
            "end_index": annotation.end_index + offset,
        }
        return {"type": "url_citation", "url_citation": citation}
    if annotation.family == FAMILY:
        return annotation.value
    kind = read_fields(annotation.value).string("type")
    reason = f"{LABEL} does not support annotations of type {kind}"
    losses.dropped(f"{path}.annotations", reason)
    return None


def write_logprobs(logprobs: Iterable[ir.Logprob]) -> Wire:
    """Write the log probabilities of a choice, including the keys that clients expect."""
    content: list[Wire] = [
        {
            "token": logprob.token,
            "logprob": logprob.logprob,
            "bytes": logprob.bytes,
            "top_logprobs": logprob.top_logprobs or (),
        }
        for logprob in logprobs
    ]
    return {"content": content, "refusal": None}


def report_unwritable(
    items: tuple[ir.Item, ...], losses: Losses, *, writes_reasoning: bool = False
) -> None:
    """Report the items and parts of a reply that Chat does not support."""
    for item in items:
        if isinstance(item, ir.Message):
            for number, part in enumerate(item.content):
                if not isinstance(part, ir.Text | ir.Refusal):
                    path = content_path(item, number)
                    losses.dropped(path, f"{LABEL} supports only text", "capability")
        elif isinstance(item, ir.Reasoning):
            if item.encrypted is not None or (reasoning_text((item,)) and not writes_reasoning):
                losses.dropped(item.path or "reasoning", NO_REASONING_FIELD_REASON)
        elif isinstance(item, ir.OpaqueItem) and item.image is None:
            path = item.path or item.kind
            losses.dropped(path, f"{LABEL} does not support {item.kind} items", "capability")
