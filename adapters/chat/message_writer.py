"""Writes the items of a conversation as messages.

Chat groups: an assistant's text and all its calls are one message, and the answers to these calls
follow it at once, before anything else (P036 to P038). So items are gathered into turns, the
outputs of a turn's calls are looked up wherever they stand, and what stood between is written after
them.
"""

from collections.abc import Iterator

from msgspec import Raw

from adapters.capabilities import Capabilities
from adapters.chat.parts import (
    DETAILS_FIELD,
    TEXT_SEPARATOR,
    PartWriter,
    is_media,
    is_single_text,
    merge_reasoning_details,
    write_details,
)
from adapters.chat.wire import call_body
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
from adapters.wire.extra_fields import ExtrasWriter

# One turn of an assistant, as Chat groups it: one message, with all that is in it.


class AssistantTurn:
    """What an assistant thought, said and called before anybody else spoke."""

    __slots__ = ("calls", "messages", "thoughts")

    def __init__(self) -> None:
        self.thoughts: list[tuple[Reasoning, str]] = []
        self.messages: list[tuple[Message, str]] = []
        self.calls: list[tuple[ToolCall, str]] = []

    def __bool__(self) -> bool:
        return bool(self.thoughts or self.messages or self.calls)

    def take(self, item: Message | ToolCall | Reasoning, path: str) -> None:
        """Take one more item of the turn."""
        match item:
            case Message():
                self.messages.append((item, path))
            case ToolCall():
                self.calls.append((item, path))
            case Reasoning():
                self.thoughts.append((item, path))

    def text(self) -> str:
        """Give all that was said."""
        texts = (
            "".join(part.text for part in message.content if isinstance(part, Text))
            for message, _ in self.messages
        )
        return TEXT_SEPARATOR.join(text for text in texts if text)

    def refusal(self) -> str:
        """Give all that was declined."""
        return "".join(
            part.text
            for message, _ in self.messages
            for part in message.content
            if isinstance(part, Refusal)
        )


# Gives messages the order that strict templates want, as Mistral's (P048).
#
# Two messages of a user in a row become one, an assistant speaks between a tool and a user, and no
# assistant speaks last.


Wire = dict[str, object]

# What the assistant says there, for it must say something.
BRIDGE = "Understood."
_ANSWERS = ("tool", "function")


def strict_turns(messages: list[Wire], losses: Losses) -> list[Wire]:
    """Give the messages in an order that such a template takes."""
    kept: list[Wire] = []
    for message in messages:
        before = kept[-1]["role"] if kept else None
        if message["role"] == "user" and before in _ANSWERS:
            losses.invented("items", "an assistant speaks between a tool and a user")
            kept.append({"role": "assistant", "content": BRIDGE})
        if message["role"] == "user" and before == "user":
            losses.changed("items", "two messages of a user in a row become one")
            kept[-1] = _joined(kept[-1], message)
        else:
            kept.append(message)
    if kept and kept[-1]["role"] == "assistant":
        losses.dropped("items", "an assistant cannot speak last here", "capability")
        kept.pop()
    return kept


def _joined(first: Wire, second: Wire) -> Wire:
    one, other = first["content"], second["content"]
    if isinstance(one, str) and isinstance(other, str):
        content: object = one + TEXT_SEPARATOR + other
    else:
        content = [*_parts(one), *_parts(other)]
    return {**second, **first, "content": content}


def _parts(content: object) -> list[object]:
    if isinstance(content, list):
        return [*content]  # pyright: ignore[reportUnknownVariableType] - parts of our own writing
    return [{"type": "text", "text": content}]


Media = list[Wire | Raw]

# What stands for the content of a message that has none.
_NOTHING: dict[str, Wire] = {"null": {"content": None}, "empty_string": {"content": ""}, "omit": {}}

# Sealed state without which the conversation is another one.
_INDISPENSABLE = frozenset(("compaction", "compaction_trigger"))


class MessageWriter:
    """Writes one conversation as messages."""

    # How this form is called in a sentence for the caller.
    label = "Chat Completions"

    def __init__(self, request: Request, capabilities: Capabilities, losses: Losses) -> None:
        self._capabilities = capabilities
        self._losses = losses
        self._carrier = ExtrasWriter("completions", self.label, losses)
        self._parts = PartWriter(
            self.label, self._carrier, losses, text_parts=capabilities.text_parts
        )
        self._items = request.items_with_paths()
        # Where the outputs stand that were written before their turn.
        self._outputs_written: set[str] = set()
        self._outputs: dict[str, tuple[ToolOutput, str]] = {
            item.call_id: (item, path)
            for item, path in self._items
            if isinstance(item, ToolOutput) and item.call_id is not None
        }

    def write(self, instructions: str | None) -> list[Wire]:
        """Write all messages, the instructions first."""
        messages = self._write_all(instructions)
        return (
            strict_turns(messages, self._losses)
            if self._capabilities.alternating_roles
            else messages
        )

    def _write_all(self, instructions: str | None) -> list[Wire]:
        messages: list[Wire] = []
        if instructions:
            messages.append({"role": self._role("developer"), "content": instructions})
        turn = AssistantTurn()
        for item, path in self._items:
            if isinstance(item, OpaqueItem):
                self._drop(item, path)
                continue
            if isinstance(item, ToolCall | Reasoning) or (
                isinstance(item, Message) and item.role == "assistant"
            ):
                turn.take(item, path)
                continue
            if turn:
                messages += self._write_turn(turn)
                turn = AssistantTurn()
            if isinstance(item, ToolOutput):
                # Written with its call, perhaps just now.
                self._outputs_written.discard(path)
            elif isinstance(item, ItemReference):
                why = f"the item {item.item_id} is not kept here"
                self._losses.dropped(path, why, "meaning")
            else:
                messages.append(self._write_message(item, path))
        return messages + list(self._write_turn(turn)) if turn else messages

    def _drop(self, item: OpaqueItem, path: str) -> None:
        severity: Severity = "meaning" if item.kind in _INDISPENSABLE else "capability"
        self._losses.dropped(path, f"{self.label} has no item {item.kind}", severity)

    def _write_message(self, message: Message, path: str) -> Wire:
        if self._outputs_written:
            self._losses.changed(path, "it moves behind the outputs of the calls before it")
        role = self._role(message.role)
        if role != message.role:
            self._losses.changed(
                f"{path}.role", f"the backend does not know {message.role}; it becomes {role}"
            )
        wire: Wire = {
            "role": role,
            "content": self._parts.write_content(message.content, f"{path}.content"),
        }
        self._carrier.carry(self._kept(message.extras, path), wire, path)
        return wire

    def _kept(self, extras: Extras, path: str) -> Extras:
        """Give what is kept of the fields besides: names, where the backend takes them."""
        if self._capabilities.message_names or all(extra.name != "name" for extra in extras):
            return extras
        self._losses.dropped(f"{path}.name", "the backend takes no names of speakers")
        return tuple(extra for extra in extras if extra.name != "name")

    def _role(self, role: str) -> str:
        if role == "developer" and not self._capabilities.developer_role:
            return "system"
        return role

    def _write_turn(self, turn: AssistantTurn) -> Iterator[Wire]:
        """Write an assistant's turn and the answers to its calls."""
        yield from self._write_assistant(turn)
        media: Media = []
        yield from self._write_answers(turn, media)
        if media:
            yield {"role": "user", "content": media}

    def _write_answers(self, turn: AssistantTurn, media: Media) -> Iterator[Wire]:
        """Write the answers to a turn's calls; what they cannot hold is put into `media`."""
        for call, _ in turn.calls:
            placed = self._output_of(call)
            if placed is not None:
                yield self._write_output(call, *placed, media)

    def _output_of(self, call: ToolCall) -> tuple[ToolOutput, str] | None:
        """Find the answer to a call, wherever it stands."""
        placed = self._outputs.get(call.call_id)
        if placed is not None:
            self._outputs_written.add(placed[1])
        return placed

    def _write_assistant(self, turn: AssistantTurn) -> Iterator[Wire]:
        if not turn.messages and not turn.calls:
            self._drop_thoughts(turn)
            return
        said: Wire = {}
        text, refusal = turn.text(), turn.refusal()
        if refusal:
            said["refusal"] = refusal
        for message, path in turn.messages:
            self._report_parts(message, path)
            self._carrier.carry(self._kept(message.extras, path), said, path)
        if turn.thoughts or self._capabilities.reasoning_required:
            self._write_thoughts(turn, said)
        if turn.calls:
            self._write_calls(turn, said)
        if text or said:
            content = {"content": text} if text else self._nothing()
            yield {"role": "assistant", **content, **said}
            return
        # Servers refuse a message that says nothing (P049).
        for _, path in turn.messages:
            self._losses.dropped(path, "an assistant message that says nothing")

    def _nothing(self) -> Wire:
        """Give the content of a message that has none."""
        return _NOTHING[self._capabilities.empty_content]

    def _drop_thoughts(self, turn: AssistantTurn) -> None:
        """Drop reasoning without a message: it may not go to one beyond what a user said."""
        for thought, path in turn.thoughts:
            self._losses.dropped(path, "what this reasoning led to is not here")
            self._carrier.report_dropped(thought.extras, path)

    def _write_thoughts(self, turn: AssistantTurn, said: Wire) -> None:
        """Write what was thought, where the backend wants it back; never as text (P079)."""
        field = self._capabilities.reasoning_field
        why = f"{self.label} has no place for reasoning"
        # What the backend itself gave as a list, it gets back as one.
        listed = said
        match self._capabilities.reasoning_replay:
            case "never" if field:
                field, listed, why = None, {}, "the backend takes no reasoning back"
            case "tool_calls" if field and not turn.calls:
                why = "the backend takes back only the reasoning that led to calls"
                field, listed = None, {}
            case _:
                pass
        told: list[str] = []
        extras = merge_reasoning_details(thought for thought, _ in turn.thoughts)
        self._carrier.carry(extras, listed, turn.thoughts[0][1] if turn.thoughts else "")
        for thought, path in turn.thoughts:
            texts = thought.content or thought.summary
            if (texts and field is None) or not (texts or thought.extras):
                self._losses.dropped(path, why)
            told += texts
        if field in said:
            # The list says it all.
            return
        if field and told:
            text = TEXT_SEPARATOR.join(told)
            said[field] = write_details(text) if field == DETAILS_FIELD else text
        elif field and turn.calls and self._capabilities.reasoning_required:
            self._losses.invented(turn.calls[0][1], "its reasoning is not known; it is left empty")
            said[field] = write_details("") if field == DETAILS_FIELD else ""

    def _report_parts(self, message: Message, path: str) -> None:
        """Report what an assistant's message may hold that a request cannot repeat."""
        for number, part in enumerate(message.content):
            where = f"{path}.content[{number}]"
            match part:
                case Text():
                    self._report_text(part, where)
                case Refusal():
                    self._carrier.report_dropped(part.extras, where)
                case _:
                    self._losses.dropped(where, "an assistant can only say text", "meaning")

    def _report_text(self, part: Text, path: str) -> None:
        if part.annotations:
            self._losses.dropped(f"{path}.annotations", "a history does not repeat annotations")
        if part.logprobs:
            self._losses.dropped(f"{path}.logprobs", "a history does not repeat probabilities")
        if part.cache_breakpoint is not None:
            why = "what an assistant said is one string, without breakpoints"
            self._losses.dropped(f"{path}.prompt_cache_breakpoint", why)
        self._carrier.report_dropped(part.extras, path)

    def _write_calls(self, turn: AssistantTurn, wire: Wire) -> None:
        wire["tool_calls"] = [self._write_call(call, path) for call, path in turn.calls]

    def _write_call(self, call: ToolCall, path: str) -> Wire:
        wire: Wire = {"id": call.call_id, "type": call.kind, call.kind: call_body(call)}
        self._carrier.carry(call.extras, wire, path)
        return wire

    def _write_output(self, call: ToolCall, output: ToolOutput, path: str, media: Media) -> Wire:
        wire: Wire = {
            "role": "tool",
            "tool_call_id": output.call_id,
            "content": self._output_content(call, output, path, media),
        }
        self._carrier.carry(output.extras, wire, path)
        return wire

    def _output_content(
        self, call: ToolCall, output: ToolOutput, path: str, media: Media
    ) -> str | list[Wire | Raw]:
        """Write what a tool answered; pictures and files move behind the whole batch (P051)."""
        if isinstance(output.output, str):
            return output.output
        if not output.output or is_single_text(output.output) or self._holds_media():
            return self._parts.write_content(output.output, f"{path}.output")
        kept: Media = []
        moved: Media = []
        for number, part in enumerate(output.output):
            written = self._parts.write(part, f"{path}.output[{number}]")
            if written is not None:
                (moved if is_media(part) else kept).append(written)
        if moved:
            self._losses.changed(path, "pictures and files follow the outputs in a user message")
            media.append({"type": "text", "text": self._label_output(call)})
            media += moved
        texts = tuple(part for part in output.output if not is_media(part))
        if is_single_text(texts) or (texts and not self._capabilities.text_parts):
            # Every server takes a string.
            return self._parts.write_content(texts, f"{path}.output")
        return kept if kept or not moved else "The output is in the next user message."

    def _holds_media(self) -> bool:
        return self._capabilities.multimodal_tool_outputs

    def _label_output(self, call: ToolCall) -> str:
        """Say, before a picture, which call it comes from."""
        return f"Output of call {call.call_id}:"
