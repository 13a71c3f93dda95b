"""Writer of the messages of a Chat request.

In Chat, the text and all calls of an assistant's turn are one message, and servers require that the
outputs of these calls follow it directly. So consecutive items of the assistant become one message,
and outputs that are later in the conversation are moved to their calls.
"""

from collections.abc import Iterable
from typing import cast

from msgspec import Raw, Struct

from adapters.capabilities import Capabilities
from adapters.chat.parts import (
    DETAILS_FIELD,
    TEXT_SEPARATOR,
    PartWriter,
    is_media,
    is_single_text,
    merge_reasoning_details,
    report_reply_fields,
    write_details,
)
from adapters.chat.wire import LABEL, Wire, extras_writer, write_call
from adapters.ir.normalize import SUMMARY_REASON
from adapters.ir.types import (
    Extras,
    ItemReference,
    Message,
    OpaqueItem,
    Reasoning,
    Refusal,
    Request,
    Text,
    ToolCall,
    ToolOutput,
)
from adapters.losses import Losses, Severity

Media = list[Wire | Raw]

_EMPTY_CONTENT: dict[str, Wire] = {
    "null": {"content": None},
    "empty_string": {"content": ""},
    "omit": {},
}

# Reasons for losses
MERGED_REASON = "merged with the assistant message before it"
EMPTY_REASON = "the assistant message is empty"
ENCRYPTED_REASON = "only the text of the reasoning is sent, and not its encrypted form"

_EMPTY_TEXT = Text("")
# Opaque items that cannot be dropped without changing the meaning of the conversation.
_ESSENTIAL_ITEMS = frozenset(("compaction", "compaction_trigger"))


def is_empty(message: Message) -> bool:
    """Whether a message has neither content nor other fields.

    Servers reject it (https://github.com/OpenHands/OpenHands/issues/8685).
    """
    return not message.extras and all(part == _EMPTY_TEXT for part in message.content)


def message_of(path: str) -> str | None:
    """Return the path of the message that an item is a part of, if it is."""
    message_path, dot, _ = path.partition(".")
    return message_path if dot else None


class AssistantItems(Struct):
    """Consecutive items of the assistant, with their paths."""

    reasoning: list[tuple[Reasoning, str]] = []
    messages: list[tuple[Message, str]] = []
    calls: list[tuple[ToolCall, str]] = []
    # The path of the client's message that has the last item, if it has several.
    message_path: str = ""

    def texts(self) -> tuple[str, str]:
        """Return the joined texts and the joined refusals of all messages."""
        texts: list[str] = []
        refusals: list[str] = []
        for message, _ in self.messages:
            text = ""
            for part in message.content:
                if isinstance(part, Text):
                    text += part.text
                elif isinstance(part, Refusal):
                    refusals.append(part.text)
            if text:
                texts.append(text)
        return TEXT_SEPARATOR.join(texts), "".join(refusals)


class MessageWriter:
    """Writes the instructions and the items of a request as messages."""

    # The name of the dialect in messages to clients.
    label = LABEL

    def __init__(self, request: Request, capabilities: Capabilities, losses: Losses) -> None:
        self._capabilities = capabilities
        self._losses = losses
        self._extras = extras_writer(losses, self.label)
        self._parts = PartWriter(
            self.label, self._extras, losses, text_parts=capabilities.text_parts is not False
        )
        self._instructions = request.instructions
        self._items = request.items_with_paths()
        self._outputs: dict[str, tuple[ToolOutput, str]] = {
            item.call_id: (item, path)
            for item, path in self._items
            if isinstance(item, ToolOutput) and item.call_id is not None
        }
        # The paths of outputs that were written with their calls, before their own position.
        self._moved_outputs: set[str] = set()

    def write(self) -> list[Wire]:
        """Write all messages, the instructions first."""
        messages: list[Wire] = []
        if self._instructions:
            messages.append({"role": self._role("developer"), "content": self._instructions})
        self._write_items(messages)
        if self._capabilities.alternating_roles:
            return alternate_roles(messages, self._losses)
        return messages

    def _write_items(self, messages: list[Wire]) -> None:
        turn = AssistantItems()
        for item, path in self._items:
            match item:
                case ToolCall():
                    self._report_merging(turn, path)
                    turn.calls.append((item, path))
                case Message(role="assistant") if is_empty(item):
                    self._losses.dropped(path, EMPTY_REASON)
                case Message(role="assistant"):
                    self._report_joining(turn, item, path)
                    turn.messages.append((item, path))
                case Reasoning():
                    self._report_merging(turn, path)
                    turn.reasoning.append((item, path))
                case OpaqueItem(kind=kind):
                    severity: Severity = "meaning" if kind in _ESSENTIAL_ITEMS else "capability"
                    reason = f"{self.label} does not support {kind} items"
                    self._losses.dropped(path, reason, severity)
                case ToolOutput():
                    turn = self._end_turn(turn, messages)
                    # The output was written with its call.
                    self._moved_outputs.discard(path)
                case Message():
                    turn = self._end_turn(turn, messages)
                    messages.append(self._write_message(item, path))
                case ItemReference():
                    turn = self._end_turn(turn, messages)
                    reason = f"the referenced item {item.item_id} is not available"
                    self._losses.dropped(path, reason, "meaning")
        self._end_turn(turn, messages)

    def _end_turn(self, turn: AssistantItems, messages: list[Wire]) -> AssistantItems:
        """Write a turn unless it is empty; return an empty turn."""
        if not (turn.calls or turn.messages or turn.reasoning):
            return turn
        self._write_assistant(turn, messages)
        media: Media = []
        self._write_outputs(turn, messages, media)
        if media:
            messages.append({"role": "user", "content": media})
        return AssistantItems()

    # Input messages

    def _write_message(self, message: Message, path: str) -> Wire:
        if self._moved_outputs:
            self._losses.changed(path, "moved after the outputs of the preceding tool calls")
        role = self._role(message.role)
        if role != message.role:
            reason = f"{message.role} is not supported; sent as {role}"
            self._losses.changed(f"{path}.role", reason, "adapted")
        content = self._parts.write_content(message.content, f"{path}.content")
        wire: Wire = {"role": role, "content": content}
        if message.extras:
            self._extras.carry(self._accepted_extras(message.extras, path), wire, path)
        return wire

    def _role(self, role: str) -> str:
        if role == "developer" and not self._capabilities.developer_role:
            return "system"
        return role

    def _accepted_extras(self, extras: Extras, path: str) -> Extras:
        """Return the extra fields, without `name` if the backend does not accept it."""
        if self._capabilities.message_names or all(extra.name != "name" for extra in extras):
            return extras
        self._losses.dropped(f"{path}.name", "the backend does not support message names")
        return tuple(extra for extra in extras if extra.name != "name")

    # Turns of the assistant

    def _report_merging(self, turn: AssistantItems, path: str) -> None:
        """Report that a call or reasoning is from another message than the items before it."""
        message_path = message_of(path)
        if message_path is None or message_path == turn.message_path:
            return
        if turn.message_path and self._merges(turn):
            self._losses.changed(message_path, MERGED_REASON)
        turn.message_path = message_path

    def _merges(self, _turn: AssistantItems) -> bool:
        """Whether further items of a turn are written in the same message."""
        return True

    def _report_joining(self, turn: AssistantItems, message: Message, path: str) -> None:
        """Report what one message for a whole turn changes: the order, and how texts are split."""
        texts = [part.text for part in message.content if isinstance(part, Text)]
        if path != turn.message_path:
            has_content = any(texts) or any(isinstance(part, Refusal) for part in message.content)
            if turn.calls and has_content:
                self._losses.changed(path, "sent before the tool calls of the same turn")
            if turn.messages or (turn.message_path and not turn.calls):
                self._losses.changed(path, MERGED_REASON)
        if any(texts) and len(texts) > 1:
            self._losses.changed(f"{path}.content", "the text parts are joined")
        turn.message_path = path

    def _write_assistant(self, turn: AssistantItems, messages: list[Wire]) -> None:
        if not turn.messages and not turn.calls:
            # Reasoning alone cannot be written, nor moved past a user message to a later turn.
            for reasoning, path in turn.reasoning:
                reason = "the message or tool call after this reasoning is missing"
                self._losses.dropped(path, reason)
                self._extras.report_dropped(reasoning.extras, path)
            return
        fields: Wire = {}
        text, refusal = self._texts(turn)
        if refusal:
            fields["refusal"] = refusal
        for message, path in turn.messages:
            self._report_parts(message, path)
            if message.extras:
                extras = self._accepted_extras(message.extras, path)
                self._extras.carry(self._without_repeated(extras, fields, path), fields, path)
        if turn.reasoning or self._capabilities.reasoning_required:
            self._write_reasoning(turn, fields)
        if turn.calls:
            self._write_calls(turn, fields)
        if text or fields:
            content = {"content": text} if text else self._empty_content()
            messages.append({"role": "assistant", **content, **fields})
            return
        for _, path in turn.messages:
            self._losses.dropped(path, EMPTY_REASON)

    def _without_repeated(self, extras: Extras, fields: Wire, path: str) -> Extras:
        """Return the extra fields that no other message of the turn has with another value."""
        repeated = [one for one in extras if fields.get(one.name, one.value) != one.value]
        for extra in repeated:
            reason = "the message is merged with one that has another value"
            self._losses.dropped(f"{path}.{extra.name}", reason, extra.severity or "hint")
        return tuple(extra for extra in extras if extra not in repeated)

    def _texts(self, turn: AssistantItems) -> tuple[str, str]:
        """Return the text and the refusal of a turn."""
        return turn.texts()

    def _empty_content(self) -> Wire:
        return _EMPTY_CONTENT[self._capabilities.empty_content]

    def _write_reasoning(self, turn: AssistantItems, fields: Wire) -> None:
        """Write the reasoning if the backend accepts it.

        Reasoning is never written as text, because models then stop calling tools
        (https://github.com/BerriAI/litellm/issues/42005).
        """
        field, reason, is_refused = self._reasoning_field(turn)
        # Reasoning that was received as a list is also sent as a list.
        details = merge_reasoning_details(reasoning for reasoning, _ in turn.reasoning)
        path = turn.reasoning[0][1] if turn.reasoning else ""
        self._extras.carry(details, {} if is_refused else fields, path)
        texts: list[str] = []
        for reasoning, path in turn.reasoning:
            parts = reasoning.content or reasoning.summary
            lost = _lost_reasoning(reasoning, path, has_field=field is not None, refused=is_refused)
            for lost_path in lost:
                self._losses.dropped(lost_path, reason)
            if not lost and reasoning.content and reasoning.summary not in ((), reasoning.content):
                self._losses.dropped(f"{path}.summary", SUMMARY_REASON)
            if parts and field is not None and reasoning.encrypted is not None:
                self._losses.dropped(f"{path}.encrypted_content", ENCRYPTED_REASON)
            texts += parts
        if field is None or field in fields:
            return
        is_required = bool(turn.calls) and self._capabilities.reasoning_required
        if not texts and is_required:
            self._losses.invented(turn.calls[0][1], "the reasoning is not available; sent empty")
        if texts or is_required:
            text = TEXT_SEPARATOR.join(texts)
            fields[field] = write_details(text) if field == DETAILS_FIELD else text

    def _reasoning_field(self, turn: AssistantItems) -> tuple[str | None, str, bool]:
        """Return the field for reasoning, or None with the reason to report.

        The flag is true if the capabilities exclude this reasoning, also the list of its details.
        """
        field = self._capabilities.reasoning_field
        replay = self._capabilities.reasoning_replay or ("always" if field else "tool_calls")
        if replay == "never":
            return None, "the backend does not accept reasoning in requests", True
        received = (reasoning.field for reasoning, _ in turn.reasoning if reasoning.field)
        name = field or next(received, None)
        if name is None:
            return None, f"{self.label} does not support reasoning", False
        if replay == "tool_calls" and not turn.calls:
            # The list may have to be sent with every message, unless that is excluded explicitly.
            is_refused = self._capabilities.reasoning_replay is not None
            return None, "only the reasoning of tool calls is sent to the backend", is_refused
        return name, "", False

    def _report_parts(self, message: Message, path: str) -> None:
        """Report the parts and fields of an assistant's message that a request cannot contain."""
        for number, part in enumerate(message.content):
            part_path = f"{path}.content[{number}]"
            match part:
                case Text():
                    self._report_text(part, part_path)
                case Refusal():
                    self._extras.report_dropped(part.extras, part_path)
                case _:
                    reason = "assistant messages support only text"
                    self._losses.dropped(part_path, reason, "meaning")

    def _report_text(self, part: Text, path: str) -> None:
        report_reply_fields(part, path, self._losses)
        if part.cache_breakpoint is not None:
            reason = "assistant messages do not support cache breakpoints"
            self._losses.dropped(f"{path}.prompt_cache_breakpoint", reason)
        self._extras.report_dropped(part.extras, path)

    # Calls and outputs

    def _write_calls(self, turn: AssistantItems, wire: Wire) -> None:
        wire["tool_calls"] = [self._write_call(call, path) for call, path in turn.calls]

    def _write_call(self, call: ToolCall, path: str) -> Wire:
        wire = write_call(call)
        self._extras.carry(call.extras, wire, path)
        return wire

    def _write_outputs(self, turn: AssistantItems, messages: list[Wire], media: Media) -> None:
        """Write the outputs of a turn's calls; add their images and files to `media`."""
        for call, _ in turn.calls:
            if (output := self._take_output(call)) is not None:
                messages.append(self._write_output(call, *output, media))

    def _take_output(self, call: ToolCall) -> tuple[ToolOutput, str] | None:
        """Return the output of a call, with its path, from any place in the conversation."""
        output = self._outputs.get(call.call_id)
        if output is not None:
            self._moved_outputs.add(output[1])
        return output

    def _write_output(self, call: ToolCall, output: ToolOutput, path: str, media: Media) -> Wire:
        wire: Wire = {
            "role": "tool",
            "tool_call_id": output.call_id,
            "content": self._output_content(call, output, path, media),
        }
        self._extras.carry(output.extras, wire, path)
        return wire

    def _output_content(
        self, call: ToolCall, output: ToolOutput, path: str, media: Media
    ) -> str | list[Wire | Raw]:
        """Write the content of an output; move images and files to `media` if necessary."""
        parts = output.output
        if isinstance(parts, str):
            return parts
        if not parts or is_single_text(parts) or self._accepts_output_media():
            return self._parts.write_content(parts, f"{path}.output")
        kept: Media = []
        moved: Media = []
        for number, part in enumerate(parts):
            if (written := self._parts.write(part, f"{path}.output[{number}]")) is not None:
                (moved if is_media(part) else kept).append(written)
        if moved:
            self._losses.changed(path, "images and files are sent in a following user message")
            media.append({"type": "text", "text": self._output_label(call)})
            media += moved
        texts = tuple(part for part in parts if not is_media(part))
        if is_single_text(texts) or (texts and self._capabilities.text_parts is False):
            return self._parts.write_content(texts, f"{path}.output")
        return kept if kept or not moved else "The output is in the next user message."

    def _accepts_output_media(self) -> bool:
        return self._capabilities.multimodal_tool_outputs

    def _output_label(self, call: ToolCall) -> str:
        """Return the text that names the call before its images and files."""
        return f"Output of call {call.call_id}:"


# Alternating roles

# The text of an inserted assistant message.
_BRIDGE_TEXT = "Understood."


def alternate_roles(messages: list[Wire], losses: Losses) -> list[Wire]:
    """Return the messages with the alternating roles that Mistral's template requires.

    Consecutive user messages are merged, an assistant message is inserted between a tool message
    and a user message, and an assistant message at the end is dropped
    (https://github.com/mistralai/mistral-common/issues/169).
    """
    ordered: list[Wire] = []
    for message in messages:
        previous = ordered[-1]["role"] if ordered else None
        if message["role"] == "user" and previous in ("tool", "function"):
            losses.invented("items", "an assistant message was added before a user message")
            ordered.append({"role": "assistant", "content": _BRIDGE_TEXT})
        if message["role"] == "user" and previous == "user":
            losses.changed("items", "consecutive user messages are merged")
            if message.get("name") != ordered[-1].get("name"):
                losses.dropped("items", "a name of user messages that are merged")
            ordered[-1] = _merge(ordered[-1], message)
        else:
            ordered.append(message)
    if ordered and ordered[-1]["role"] == "assistant":
        losses.dropped("items", "the backend rejects a final assistant message", "capability")
        ordered.pop()
    return ordered


def _merge(first: Wire, second: Wire) -> Wire:
    before, after = first["content"], second["content"]
    if isinstance(before, str) and isinstance(after, str):
        content: object = before + TEXT_SEPARATOR + after
    else:
        content = [*_parts(before), *_parts(after)]
    return {**second, **first, "content": content}


def _parts(content: object) -> list[object]:
    if isinstance(content, list):
        return cast("list[object]", content)
    return [{"type": "text", "text": content}]


def _lost_reasoning(
    reasoning: Reasoning, path: str, *, has_field: bool, refused: bool
) -> Iterable[str]:
    """Return the paths of what is not sent: the text, and the list of details."""
    has_list = any(extra.name == DETAILS_FIELD for extra in reasoning.extras)
    lost: dict[str, None] = {}
    if has_list and refused:
        own_field = f".{reasoning.field}"
        beside = path.endswith(own_field)
        lost[path.removesuffix(own_field) + f".{DETAILS_FIELD}" if beside else path] = None
    has_text = bool(reasoning.content or reasoning.summary)
    # The list contains the text that was read from it.
    is_in_list = has_list and reasoning.field == DETAILS_FIELD
    if (has_text and not has_field and not is_in_list) or not (has_text or reasoning.extras):
        lost[path] = None
    return lost
