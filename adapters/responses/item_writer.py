"""Writer of the input items of a request."""

from collections.abc import Iterable, Iterator

from msgspec import Raw
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.ids import stable_hash
from adapters.ir import types as ir
from adapters.ir.normalize import (
    FILE_ID_BESIDE_URL_REASON,
    REFUSAL_AS_TEXT_REASON,
    SUMMARY_REASON,
)
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.responses.client_tools import write_arguments, write_output
from adapters.responses.wire import ALL_CALL_NAMES, CALLS, FAMILY, LABEL, Wire
from adapters.wire.extra_fields import ExtrasWriter

# Kinds of calls that OpenAI rejects without an item id.
_CALLS_WITH_ITEM_ID = ("computer", "local_shell")


class ItemWriter:
    """Writes the items of one request."""

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self._capabilities = capabilities
        self._losses = losses
        self._extras = ExtrasWriter(FAMILY, LABEL, losses)
        # The reasoning of the current turn, and whether a call has followed it.
        self._turn_reasoning: Wire | None = None
        self._has_call = False

    def write(self, request: ir.Request) -> list[Wire | Raw]:
        """Write the items of the request."""
        written: list[Wire | Raw] = []
        for item, path in request.items_with_paths():
            written += self._write_item(item, path)
        return written

    def _write_item(self, item: ir.Item, path: str) -> Iterator[Wire | Raw]:
        match item:
            case ir.Message():
                if item.role != "assistant":
                    self._turn_reasoning = None
                yield from self._write_message(item, path)
            case ir.ToolCall():
                yield from self._repeat_reasoning()
                yield self._write_call(item, path)
            case ir.ToolOutput():
                yield self._write_output(item, path)
            case ir.Reasoning():
                yield from self._write_reasoning(item, path)
            case ir.ItemReference():
                yield {"type": "item_reference", "id": item.item_id}
            case ir.OpaqueItem():
                yield item.value

    def _add_common_fields(
        self, item: ir.Message | ir.ToolCall | ir.ToolOutput | ir.Reasoning, wire: Wire, path: str
    ) -> Wire:
        # Backends reject unknown item ids, so only `_CALLS_WITH_ITEM_ID` get a generated id.
        if item.item_id is not None:
            wire["id"] = item.item_id
        if item.status is not None:
            wire["status"] = item.status
        elif self._capabilities.item_status_required and not (
            isinstance(item, ir.Message) and item.role != "assistant"
        ):
            wire["status"] = "completed"
        self._extras.carry(item.extras, wire, path)
        return wire

    # Messages

    def _write_message(self, message: ir.Message, path: str) -> Iterator[Wire]:
        wire: Wire = {"type": "message", "role": message.role}
        wire["content"] = (
            self._write_assistant_content(message, path)
            if message.role == "assistant"
            else self._write_content(message.content, f"{path}.content")
        )
        self._add_common_fields(message, wire, path)
        if wire["content"] or message.role != "assistant":
            yield wire
        else:
            self._losses.dropped(path, "the assistant message is empty")

    def _write_assistant_content(self, message: ir.Message, path: str) -> str | list[Wire]:
        """Write the content of an assistant: a string if possible, or else a list of output parts.

        OpenAI rejects `input_text` here (https://github.com/BerriAI/litellm/issues/17507).
        """
        plain = all(
            isinstance(part, ir.Text) and not part.annotations and not part.logprobs
            for part in message.content
        )
        # A message with an id or a status cannot have a string as its content.
        has_status = message.status is not None or self._capabilities.item_status_required
        requires_parts = message.content and (has_status or message.item_id is not None)
        if plain and not requires_parts:
            return self._join_texts(message, path)
        written: list[Wire] = []
        for number, part in enumerate(message.content):
            part_path = f"{path}.content[{number}]"
            match part:
                case ir.Text():
                    text: Wire = {"type": "output_text", "text": part.text}
                    text["annotations"] = list(
                        write_annotations(part.annotations, part_path, self._losses)
                    )
                    if part.logprobs:
                        text["logprobs"] = write_logprobs(part.logprobs)
                    self._extras.carry(part.extras, text, part_path)
                    self._report_breakpoint(part, part_path)
                    written.append(text)
                case ir.Refusal():
                    refusal: Wire = {"type": "refusal", "refusal": part.text}
                    self._extras.carry(part.extras, refusal, part_path)
                    written.append(refusal)
                case _:
                    self._drop_part(part_path)
        return written

    def _report_breakpoint(self, text: ir.Text, path: str) -> None:
        if text.cache_breakpoint is not None:
            reason = "assistant messages do not support cache breakpoints"
            self._losses.dropped(f"{path}.prompt_cache_breakpoint", reason)

    def _join_texts(self, message: ir.Message, path: str) -> str:
        """Join the texts, and report the loss of their other fields."""
        texts: list[str] = []
        for number, part in enumerate(message.content):
            if isinstance(part, ir.Text):
                texts.append(part.text)
                part_path = f"{path}.content[{number}]"
                self._extras.report_dropped(part.extras, part_path)
                self._report_breakpoint(part, part_path)
        if len(texts) > 1:
            self._losses.changed(f"{path}.content", "the text parts are joined")
        return "".join(texts)

    def _write_content(self, content: tuple[ir.Part, ...], path: str) -> str | list[Wire | Raw]:
        match content:
            case ():
                return ""
            case (ir.Text(cache_breakpoint=None) as text,) if not any(
                extra.family == FAMILY for extra in text.extras
            ):
                self._extras.report_dropped(text.extras, f"{path}[0]")
                self._report_reply_fields(text, f"{path}[0]")
                return text.text
            case _:
                return list(self._write_parts(content, path))

    def _write_parts(self, content: tuple[ir.Part, ...], path: str) -> Iterator[Wire | Raw]:
        for number, part in enumerate(content):
            part_path = f"{path}[{number}]"
            if isinstance(part, ir.OtherPart) and part.family == FAMILY:
                yield part.value
                continue
            wire = _write_part(part)
            if wire is None or isinstance(part, ir.OtherPart):
                self._drop_part(part_path)
                continue
            if isinstance(part, ir.Text):
                self._report_reply_fields(part, part_path)
            if isinstance(part, ir.Refusal):
                self._losses.changed(part_path, REFUSAL_AS_TEXT_REASON)
            elif part.cache_breakpoint is not None:
                wire["prompt_cache_breakpoint"] = part.cache_breakpoint
            if isinstance(part, ir.Image) and part.url is not None and part.file_id is not None:
                self._losses.dropped(f"{part_path}.file_id", FILE_ID_BESIDE_URL_REASON)
            self._extras.carry(part.extras, wire, part_path)
            yield wire

    def _report_reply_fields(self, text: ir.Text, path: str) -> None:
        """Report the fields of a text that only a message of the assistant can have."""
        for name in ("annotations", "logprobs"):
            if getattr(text, name):
                self._losses.dropped(f"{path}.{name}", "only assistant messages support this field")

    def _drop_part(self, path: str) -> None:
        self._losses.dropped(path, f"{LABEL} does not support this part", "meaning")

    # Calls and their outputs

    def _write_call(self, call: ir.ToolCall, path: str) -> Wire:
        names = CALLS.get(call.kind)
        wire: Wire = {"type": ALL_CALL_NAMES[call.kind].item, "call_id": call.call_id}
        if names is None:
            # Most of these kinds require a status.
            wire["status"] = "completed"
            if call.kind in _CALLS_WITH_ITEM_ID:
                wire["id"] = ALL_CALL_NAMES[call.kind].prefix + stable_hash(call.call_id)
            if not is_complete_json(call.arguments):
                self._losses.changed(path, "the arguments are not JSON; sent as an empty object")
            wire |= write_arguments(call.arguments, call.kind)
        else:
            wire |= {"name": call.name, names.field: call.arguments}
        if call.namespace is not None:
            wire["namespace"] = call.namespace
        return self._add_common_fields(call, wire, path)

    def _write_output(self, output: ir.ToolOutput, path: str) -> Wire:
        wire: Wire = {"type": ALL_CALL_NAMES[output.kind].output}
        if output.kind == "local_shell":
            # A local shell output has no `call_id`; its `id` is the id of the call.
            wire["id"] = output.call_id
        elif output.call_id is not None:
            wire["call_id"] = output.call_id
        if output.kind not in CALLS:
            wire |= write_output(output, path, self._losses)
        elif isinstance(output.output, str):
            wire["output"] = output.output
        else:
            wire["output"] = list(self._write_parts(output.output, f"{path}.output"))
        return self._add_common_fields(output, wire, path)

    # Reasoning

    def _write_reasoning(self, reasoning: ir.Reasoning, path: str) -> Iterator[Wire]:
        """Write reasoning in the form that the backend accepts.

        OpenAI accepts only its own items (https://github.com/vercel/ai/issues/7099).
        """
        if self._capabilities.reasoning_items != "encrypted" and reasoning.encrypted is None:
            # By default, clients receive the text of reasoning as a summary, and return it so.
            text = reasoning.content or reasoning.summary
            if reasoning.summary not in ((), text):
                self._losses.dropped(f"{path}.summary", SUMMARY_REASON)
            reasoning = replace(reasoning, content=text, summary=())
        elif reasoning.encrypted is None and reasoning.item_id is None:
            self._losses.dropped(path, f"{LABEL} accepts only encrypted reasoning that it created")
            return
        wire: Wire = {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text} for text in reasoning.summary],
        }
        if reasoning.content:
            wire["content"] = [{"type": "reasoning_text", "text": t} for t in reasoning.content]
        if reasoning.encrypted is not None:
            wire["encrypted_content"] = reasoning.encrypted
        self._turn_reasoning = self._add_common_fields(reasoning, wire, path)
        self._has_call = False
        yield wire

    def _repeat_reasoning(self) -> Iterator[Wire]:
        """Repeat the reasoning before each call but the first, if the backend requires it."""
        reasoning = self._turn_reasoning
        if self._capabilities.reasoning_items == "text_per_call" and reasoning and self._has_call:
            # Servers reject two items with the same id.
            yield {name: value for name, value in reasoning.items() if name != "id"}
        self._has_call = True


def _write_part(part: ir.Part) -> Wire | None:
    """Write a content part; return None if the Responses API does not have its type."""
    match part:
        case ir.Text() | ir.Refusal():
            return {"type": "input_text", "text": part.text}
        case ir.Image():
            source = {"image_url": part.url} if part.url is not None else {"file_id": part.file_id}
            return {"type": "input_image", **source, "detail": part.detail or "auto"}
        case ir.File():
            fields = {
                "file_data": part.data,
                "file_id": part.file_id,
                "file_url": part.url,
                "filename": part.filename,
                "detail": part.detail,
            }
            given = {name: value for name, value in fields.items() if value is not None}
            return {"type": "input_file", **given}
        case _:
            return None


def write_annotations(
    annotations: tuple[ir.Annotation, ...], path: str, losses: Losses
) -> Iterator[Wire | Raw]:
    """Write the annotations of a text, without those that only another dialect has."""
    for annotation in annotations:
        if isinstance(annotation, ir.Citation):
            yield {
                "type": "url_citation",
                "url": annotation.url,
                "title": annotation.title,
                "start_index": annotation.start_index,
                "end_index": annotation.end_index,
            }
        elif annotation.family == FAMILY:
            yield annotation.value
        else:
            reason = f"{LABEL} does not support this annotation"
            losses.dropped(f"{path}.annotations", reason)


def write_logprobs(logprobs: Iterable[ir.Logprob]) -> list[Wire]:
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
