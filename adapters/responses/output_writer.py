"""Writer of the output items of a response, complete or not."""

from collections.abc import Iterable

from msgspec import Raw

from adapters.dialect import ReplyOptions
from adapters.ids import IdSource, short_call_id
from adapters.ir.normalize import call_path
from adapters.ir.types import (
    Annotation,
    Citation,
    Item,
    ItemReference,
    Logprob,
    Message,
    OpaqueItem,
    Reasoning,
    Refusal,
    Status,
    Text,
    ToolCall,
)
from adapters.losses import Losses
from adapters.responses.client_tools import write_arguments
from adapters.responses.wire import ALL_CALL_NAMES, CALLS, FAMILY, LABEL, Wire
from adapters.wire.extra_fields import ExtrasWriter


def output_item_id(item: Item, ids: IdSource) -> str:
    """Return the id of the backend, or a new one with the prefix that OpenAI requires.

    Histories with other prefixes work until a client sends them to OpenAI
    (https://github.com/BerriAI/litellm/issues/37946).
    """
    if not isinstance(item, ItemReference) and item.item_id:
        return item.item_id
    match item:
        case Message():
            return ids.id("msg_")
        case ToolCall():
            return ids.id(ALL_CALL_NAMES[item.kind].prefix)
        case Reasoning():
            return ids.id("rs_")
        case _:
            return ids.id("item_")


class OutputWriter:
    """Writes output items."""

    def __init__(self, reply_options: ReplyOptions, losses: Losses) -> None:
        self._reply_options = reply_options
        self._losses = losses
        self._extras = ExtrasWriter(FAMILY, LABEL, losses)

    def write(self, item: Item, item_id: str, status: Status) -> Wire | Raw:
        """Write one item."""
        match item:
            case Message():
                wire = self._write_message(item, item_id, status)
            case ToolCall():
                wire = _write_call(item, item_id, status)
                if wire["call_id"] != item.call_id:
                    reason = "call ids are limited to 64 characters; hashed"
                    self._losses.changed(call_path(item), reason)
            case Reasoning():
                wire = self._write_reasoning(item, item_id, status)
            case OpaqueItem():
                return item.value
            case _:
                raise AssertionError(f"a reply cannot contain {item!r}")
        self._extras.carry(item.extras, wire)
        return wire

    def _write_message(self, message: Message, item_id: str, status: Status) -> Wire:
        parts: list[Wire] = []
        for part in message.content:
            if isinstance(part, Text | Refusal):
                parts.append(self.write_part(part))
            else:
                self._losses.dropped("content", f"{LABEL} supports only text", "capability")
        return {
            "id": item_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": parts,
        }

    def write_part(self, part: Text | Refusal) -> Wire:
        """Write a part of a message."""
        if isinstance(part, Refusal):
            return {"type": "refusal", "refusal": part.text}
        annotations = [write_annotation(one, self._losses) for one in part.annotations]
        return {
            "type": "output_text",
            "text": part.text,
            "annotations": [one for one in annotations if one is not None],
            "logprobs": write_logprobs(part.logprobs),
        }

    def _write_reasoning(self, item: Reasoning, item_id: str, status: Status) -> Wire:
        """Write reasoning; Open Responses rejects null, so empty fields are left out."""
        summary, content = item.summary, item.content
        if not self._reply_options.reasoning_text:
            summary, content = summary + content, ()
        wire: Wire = {
            "id": item_id,
            "type": "reasoning",
            "status": status,
            "summary": [{"type": "summary_text", "text": text} for text in summary],
        }
        if content:
            wire["content"] = [{"type": "reasoning_text", "text": text} for text in content]
        if item.encrypted is not None:
            wire["encrypted_content"] = item.encrypted
        return wire


def _write_call(call: ToolCall, item_id: str, status: Status) -> Wire:
    names = CALLS.get(call.kind)
    wire: Wire = {
        "id": item_id,
        "type": ALL_CALL_NAMES[call.kind].item,
        "status": status,
        "call_id": short_call_id(call.call_id),
    }
    if names is None:
        if call.kind == "apply_patch" and status == "incomplete":
            # This type of item has no status `incomplete`.
            wire["status"] = "in_progress"
        return wire | write_arguments(call.arguments, call.kind)
    wire |= {"name": call.name, names.field: call.arguments}
    if call.namespace is not None:
        wire["namespace"] = call.namespace
    return wire


def write_annotation(annotation: Annotation, losses: Losses) -> Wire | Raw | None:
    """Write an annotation; None if it belongs to another dialect."""
    if isinstance(annotation, Citation):
        return {
            "type": "url_citation",
            "url": annotation.url,
            "title": annotation.title,
            "start_index": annotation.start_index,
            "end_index": annotation.end_index,
        }
    if annotation.family == FAMILY:
        return annotation.value
    losses.dropped("annotations", f"{LABEL} does not support this annotation")
    return None


def write_logprobs(logprobs: Iterable[Logprob]) -> list[Wire]:
    """Write log probabilities; `bytes` is never null, as it may be in Chat."""
    return [
        {
            "token": logprob.token,
            "logprob": logprob.logprob,
            "bytes": logprob.bytes or (),
            "top_logprobs": [
                {"token": top.token, "logprob": top.logprob, "bytes": top.bytes or ()}
                for top in logprob.top_logprobs or ()
            ],
        }
        for logprob in logprobs
    ]
