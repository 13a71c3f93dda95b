"""The items of an answer, as the Responses API writes them."""

from collections.abc import Iterator

from msgspec import Raw

from adapters.dialect import ReplyOptions
from adapters.ids import IdSource, short_call_id
from adapters.ir.normalize import call_path
from adapters.ir.types import (
    Annotation,
    Citation,
    Extras,
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
    ToolOutput,
)
from adapters.losses import Losses
from adapters.responses.client_tools import write_arguments
from adapters.responses.wire import ALL_CALL_NAMES, CALLS

# Annotations and probabilities, as the Responses API writes them.


Wire = dict[str, object]


def write_annotation(annotation: Annotation, losses: Losses) -> Wire | Raw | None:
    """Write an annotation."""
    if isinstance(annotation, Citation):
        return {
            "type": "url_citation",
            "url": annotation.url,
            "title": annotation.title,
            "start_index": annotation.start_index,
            "end_index": annotation.end_index,
        }
    if annotation.family == "responses":
        return annotation.value
    losses.dropped("annotations", "the Responses API does not know this annotation")
    return None


def write_logprobs(logprobs: tuple[Logprob, ...] | list[Logprob]) -> list[Wire]:
    """Write probabilities; bytes are a list here, where Chat may have null."""
    return [
        {
            "token": one.token,
            "logprob": one.logprob,
            "bytes": one.bytes or (),
            "top_logprobs": [
                {"token": top.token, "logprob": top.logprob, "bytes": top.bytes or ()}
                for top in one.top_logprobs or ()
            ],
        }
        for one in logprobs
    ]


LABEL = "the Responses API"


def new_item_id(item: Item, ids: IdSource) -> str:
    """Give an item its id: its server's own, else a new one with the prefix of its kind (P059)."""
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
    """Writes items of an answer, whole or as far as they have come."""

    def __init__(self, reply_options: ReplyOptions, losses: Losses) -> None:
        self._reply_options = reply_options
        self._losses = losses

    def write(self, item: Item, item_id: str, status: Status) -> Wire | Raw:
        """Write one item under its id."""
        match item:
            case Message():
                parts = [self.write_part(part) for part in self._said(item)]
                said: Wire = {
                    "id": item_id,
                    "type": "message",
                    "status": status,
                    "role": "assistant",
                    "content": parts,
                }
                return self._with_extras(said, item.extras)
            case ToolCall():
                wire = _write_call(item, item_id, status)
                if wire["call_id"] != item.call_id:
                    self._losses.changed(
                        call_path(item), "a call id has at most 64 characters; it is hashed"
                    )
                return self._with_extras(wire, item.extras)
            case Reasoning():
                return self._write_reasoning(item, item_id, status)
            case OpaqueItem():
                return item.value
            case ToolOutput() | ItemReference():
                raise AssertionError(f"a model does not answer with {item!r}")

    def _said(self, message: Message) -> Iterator[Text | Refusal]:
        for part in message.content:
            if isinstance(part, Text | Refusal):
                yield part
            else:
                self._losses.dropped("content", f"{LABEL} answers only with text", "capability")

    def _with_extras(self, wire: Wire, extras: Extras) -> Wire:
        for extra in extras:
            if extra.family == "responses":
                wire[extra.name] = extra.value
            elif extra.severity is not None:
                self._losses.dropped(extra.name, f"{LABEL} has no place for it", extra.severity)
        return wire

    def write_part(self, part: Text | Refusal) -> Wire:
        """Write a part of what the model said."""
        if isinstance(part, Refusal):
            return {"type": "refusal", "refusal": part.text}
        written = [write_annotation(one, self._losses) for one in part.annotations]
        return {
            "type": "output_text",
            "text": part.text,
            "annotations": [one for one in written if one is not None],
            "logprobs": write_logprobs(part.logprobs),
        }

    def _write_reasoning(self, item: Reasoning, item_id: str, status: Status) -> Wire:
        """Write a reasoning; empty fields are left out, as Open Responses refuses nulls."""
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
        return self._with_extras(wire, item.extras)


def _write_call(call: ToolCall, item_id: str, status: Status) -> Wire:
    words = CALLS.get(call.kind)
    wire: Wire = {
        "id": item_id,
        "type": ALL_CALL_NAMES[call.kind].item,
        "status": status,
        "call_id": short_call_id(call.call_id),
    }
    if words is None:
        if call.kind == "apply_patch" and status == "incomplete":
            # It has no other word for what did not come to its end.
            wire["status"] = "in_progress"
        return wire | write_arguments(call.arguments, call.kind)
    wire |= {"name": call.name, words.field: call.arguments}
    if call.namespace is not None:
        wire["namespace"] = call.namespace
    return wire
