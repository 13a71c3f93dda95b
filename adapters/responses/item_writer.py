"""Writes items for the Responses API: those of a request's input."""

from collections.abc import Iterator

from msgspec import Raw
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.ids import stable_hash
from adapters.ir.types import (
    File,
    Image,
    Item,
    ItemReference,
    Message,
    OpaqueItem,
    OtherPart,
    Part,
    Reasoning,
    Refusal,
    Request,
    Text,
    ToolCall,
    ToolOutput,
)
from adapters.losses import Losses
from adapters.responses.client_tools import write_arguments, write_output
from adapters.responses.output_writer import LABEL, write_annotation
from adapters.responses.wire import ALL_CALL_NAMES, CALLS
from adapters.wire.extra_fields import ExtrasWriter

Wire = dict[str, object]

# Calls without whose id the API refuses the item.
_NEED_IDS = ("computer", "local_shell")


class ItemWriter:
    """Writes items, and reports what they cannot keep."""

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self._capabilities = capabilities
        self._losses = losses
        # The reasoning of the turn, and whether a call has followed it already.
        self._thought: Wire | None = None
        self._called = False
        self._carrier = ExtrasWriter("responses", LABEL, losses)

    def write(self, request: Request) -> list[Wire | Raw]:
        """Write all items of a request."""
        written: list[Wire | Raw] = []
        for item, path in request.items_with_paths():
            written += self._write_item(item, path)
        return written

    def _write_item(self, item: Item, path: str) -> Iterator[Wire | Raw]:
        match item:
            case Message():
                if item.role != "assistant":
                    self._thought = None
                yield from self._write_message(item, path)
            case ToolCall():
                yield from self._repeat_reasoning()
                yield self._write_call(item, path)
            case ToolOutput():
                yield self._write_output(item, path)
            case Reasoning():
                yield from self._write_reasoning(item, path)
            case ItemReference():
                yield {"type": "item_reference", "id": item.item_id}
            case OpaqueItem():
                yield item.value

    def _finish(
        self, item: Message | ToolCall | ToolOutput | Reasoning, wire: Wire, path: str
    ) -> Wire:
        """Add what is common to items. An id is only ever one that a server gave (P066)."""
        if item.item_id is not None:
            wire["id"] = item.item_id
        if item.status is not None:
            wire["status"] = item.status
        elif self._capabilities.item_status_required and not _is_input(item):
            wire["status"] = "completed"
        self._carrier.carry(item.extras, wire, path)
        return wire

    # Messages

    def _write_message(self, message: Message, path: str) -> Iterator[Wire]:
        wire: Wire = {"type": "message", "role": message.role}
        wire["content"] = (
            self._assistant_content(message, path)
            if message.role == "assistant"
            else self._content(message.content, f"{path}.content")
        )
        self._finish(message, wire, path)
        if wire["content"] or message.role != "assistant":
            yield wire
        else:
            self._losses.dropped(path, "an assistant message that says nothing")

    def _assistant_content(self, message: Message, path: str) -> str | list[Wire]:
        """Write what an assistant said: a string if it can be one, else typed as output (P045)."""
        plain = all(isinstance(part, Text) and not part.annotations for part in message.content)
        # A string has neither id nor status.
        named = message.item_id is not None or message.status is not None
        if plain and not (message.content and (named or self._capabilities.item_status_required)):
            self._report_texts(message, path)
            return "".join(part.text for part in message.content if isinstance(part, Text))
        written: list[Wire] = []
        for number, part in enumerate(message.content):
            match part:
                case Text():
                    annotations = [write_annotation(one, self._losses) for one in part.annotations]
                    kept = [one for one in annotations if one is not None]
                    written.append({"type": "output_text", "text": part.text, "annotations": kept})
                case Refusal():
                    written.append({"type": "refusal", "refusal": part.text})
                case _:
                    self._cannot_carry(f"{path}.content[{number}]")
        return written

    def _report_texts(self, message: Message, path: str) -> None:
        """Report what texts cannot keep that become one string."""
        for number, part in enumerate(message.content):
            if isinstance(part, Text):
                where = f"{path}.content[{number}]"
                self._carrier.report_dropped(part.extras, where)
                if part.cache_breakpoint is not None:
                    why = "what an assistant said is one string, without breakpoints"
                    self._losses.dropped(f"{where}.prompt_cache_breakpoint", why)

    def _content(self, content: tuple[Part, ...], path: str) -> str | list[Wire | Raw]:
        if not content:
            return ""
        first = content[0]
        if len(content) == 1 and isinstance(first, Text) and _is_plain(first):
            self._carrier.report_dropped(first.extras, f"{path}[0]")
            return first.text
        return list(self._write_parts(content, path))

    def _write_parts(self, content: tuple[Part, ...], path: str) -> Iterator[Wire | Raw]:
        for number, part in enumerate(content):
            where = f"{path}[{number}]"
            if isinstance(part, OtherPart) and part.family == "responses":
                yield part.value
                continue
            wire = _shape(part)
            if wire is None or isinstance(part, OtherPart):
                self._cannot_carry(where)
                continue
            breakpoint_ = None if isinstance(part, Refusal) else part.cache_breakpoint
            if breakpoint_ is not None:
                wire["prompt_cache_breakpoint"] = breakpoint_
            self._carrier.carry(part.extras, wire, where)
            yield wire

    def _cannot_carry(self, path: str) -> None:
        self._losses.dropped(path, f"{LABEL} cannot carry this part", "meaning")

    # Calls and their outputs

    def _write_call(self, call: ToolCall, path: str) -> Wire:
        words = CALLS.get(call.kind)
        wire: Wire = {"type": ALL_CALL_NAMES[call.kind].item, "call_id": call.call_id}
        if words is None:
            # Most of these must say how they ended, and some must have an id.
            wire["status"] = "completed"
            if call.kind in _NEED_IDS:
                wire["id"] = ALL_CALL_NAMES[call.kind].prefix + stable_hash(call.call_id)
            wire |= write_arguments(call.arguments, call.kind)
        else:
            wire |= {"name": call.name, words.field: call.arguments}
        if call.namespace is not None:
            wire["namespace"] = call.namespace
        return self._finish(call, wire, path)

    def _write_output(self, output: ToolOutput, path: str) -> Wire:
        wire: Wire = {"type": ALL_CALL_NAMES[output.kind].output}
        if output.kind == "local_shell":
            # It has one id: that of the call.
            wire["id"] = output.call_id
        elif output.call_id is not None:
            wire["call_id"] = output.call_id
        if output.kind not in CALLS:
            return self._finish(output, wire | write_output(output, path, self._losses), path)
        content = output.output
        wire["output"] = (
            content
            if isinstance(content, str)
            else list(self._write_parts(content, f"{path}.output"))
        )
        return self._finish(output, wire, path)

    # Reasoning

    def _write_reasoning(self, reasoning: Reasoning, path: str) -> Iterator[Wire]:
        """Write what the server itself once sent; OpenAI refuses any other reasoning (P080)."""
        if self._capabilities.reasoning_items != "encrypted" and reasoning.encrypted is None:
            # Such a server reads the thoughts; what clients were told as a summary are thoughts.
            told = reasoning.content or reasoning.summary
            reasoning = replace(reasoning, content=told, summary=())
        elif reasoning.encrypted is None and reasoning.item_id is None:
            self._losses.dropped(path, f"{LABEL} takes back only reasoning that it sealed")
            return
        wire: Wire = {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text} for text in reasoning.summary],
        }
        if reasoning.content:
            wire["content"] = [{"type": "reasoning_text", "text": t} for t in reasoning.content]
        if reasoning.encrypted is not None:
            wire["encrypted_content"] = reasoning.encrypted
        self._thought, self._called = self._finish(reasoning, wire, path), False
        yield self._thought

    def _repeat_reasoning(self) -> Iterator[Wire]:
        """Repeat the reasoning of a turn before each call but the first, where that is wanted."""
        thought = self._thought
        if self._capabilities.reasoning_items == "text_per_call" and thought and self._called:
            # An id stands for one item (P062).
            yield {name: value for name, value in thought.items() if name != "id"}
        self._called = True


def _is_plain(text: Text) -> bool:
    """Tell whether a text can be a string, which has no fields besides."""
    return text.cache_breakpoint is None and all(
        extra.family != "responses" for extra in text.extras
    )


def _is_input(item: Item) -> bool:
    return isinstance(item, Message) and item.role != "assistant"


def _shape(part: Part) -> Wire | None:
    """Give the part's own shape, or None where the API has none for it."""
    match part:
        case Text() | Refusal():
            return {"type": "input_text", "text": part.text}
        case Image():
            where = {"image_url": part.url} if part.url is not None else {"file_id": part.file_id}
            return {"type": "input_image", **where, "detail": part.detail or "auto"}
        case File():
            names = {
                "file_data": part.data,
                "file_id": part.file_id,
                "file_url": part.url,
                "filename": part.filename,
                "detail": part.detail,
            }
            given = {name: value for name, value in names.items() if value is not None}
            return {"type": "input_file", **given}
        case _:
            return None
