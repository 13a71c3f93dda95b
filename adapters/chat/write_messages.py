"""Writes the items of a conversation as messages.

Chat groups: an assistant's text and all its calls are one message, and the answers to these calls
follow it at once, before anything else (P036 to P038). So items are gathered into turns, the
outputs of a turn's calls are looked up wherever they stand, and what stood between is written after
them.
"""

from collections.abc import Iterator

from msgspec import Raw

from adapters.capabilities import Capabilities
from adapters.chat.custom import wrapped
from adapters.chat.write_parts import PartWriter, is_media, is_plain
from adapters.conversation import (
    Call,
    Item,
    Message,
    Opaque,
    Output,
    Reasoning,
    Reference,
    Refusal,
    Request,
    Text,
)
from adapters.extras import Carrier
from adapters.loss import Losses, Severity

Wire = dict[str, object]
Media = list[Wire | Raw]
Placed = tuple[Item, str]

# Between the texts of two message items, which must not run together.
TEXT_SEPARATOR = "\n\n"

# Sealed state without which the conversation is another one.
_INDISPENSABLE = frozenset(("compaction", "compaction_trigger"))


class Turn:
    """What an assistant thought, said and called before anybody else spoke."""

    __slots__ = ("calls", "messages", "thoughts")

    def __init__(self) -> None:
        self.thoughts: list[str] = []
        self.messages: list[tuple[Message, str]] = []
        self.calls: list[tuple[Call, str]] = []

    def __bool__(self) -> bool:
        return bool(self.thoughts or self.messages or self.calls)

    def take(self, item: Message | Call | Reasoning, path: str) -> None:
        """Take one more item of the turn."""
        match item:
            case Message():
                self.messages.append((item, path))
            case Call():
                self.calls.append((item, path))
            case Reasoning():
                self.thoughts += item.content or item.summary

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


class MessageWriter:
    """Writes one conversation as messages."""

    # How this form is called in a sentence for the caller.
    label = "Chat Completions"

    def __init__(self, request: Request, capabilities: Capabilities, losses: Losses) -> None:
        self._capabilities = capabilities
        self._losses = losses
        self._carrier = Carrier("completions", self.label, losses)
        self._parts = PartWriter(self.label, self._carrier, losses)
        self._items = request.placed()
        # Where the outputs stand that were written before their turn.
        self._ahead: set[str] = set()
        self._outputs: dict[str, tuple[Output, str]] = {
            item.call_id: (item, path)
            for item, path in self._items
            if isinstance(item, Output) and item.call_id is not None
        }

    def write(self, instructions: str | None) -> list[Wire]:
        """Write all messages, the instructions first."""
        messages: list[Wire] = []
        if instructions:
            messages.append({"role": self._role("developer"), "content": instructions})
        turn = Turn()
        for item, path in self._items:
            if isinstance(item, Opaque):
                self._drop(item, path)
                continue
            if isinstance(item, Call | Reasoning):
                self._note_reasoning(item, path)
                turn.take(item, path)
                continue
            if isinstance(item, Message) and item.role == "assistant":
                turn.take(item, path)
                continue
            if turn:
                messages += self._write_turn(turn)
                turn = Turn()
            if isinstance(item, Output):
                # Written with its call, perhaps just now.
                self._ahead.discard(path)
            else:
                messages += self._write_other(item, path)
        return messages + list(self._write_turn(turn)) if turn else messages

    def _note_reasoning(self, item: Item, path: str) -> None:
        if not isinstance(item, Reasoning):
            return
        if not self._capabilities.reasoning_field or not (item.content or item.summary):
            self._losses.dropped(path, f"{self.label} has no place for reasoning")
        self._carrier.lose(item.extras, path)

    def _drop(self, item: Opaque, path: str) -> None:
        severity: Severity = "meaning" if item.kind in _INDISPENSABLE else "capability"
        self._losses.dropped(path, f"{self.label} has no item {item.kind}", severity)

    def _write_other(self, item: Message | Reference, path: str) -> Iterator[Wire]:
        if isinstance(item, Reference):
            why = f"the item {item.item_id} is not kept here"
            self._losses.dropped(path, why, "meaning")
            return
        if self._ahead:
            self._losses.changed(path, "it moves behind the outputs of the calls before it")
        yield self._write_message(item, path)

    def _write_message(self, message: Message, path: str) -> Wire:
        role = self._role(message.role)
        if role != message.role:
            self._losses.changed(
                f"{path}.role", f"the backend does not know {message.role}; it becomes {role}"
            )
        wire: Wire = {
            "role": role,
            "content": self._parts.write_content(message.content, f"{path}.content"),
        }
        self._carrier.carry(message.extras, wire, path)
        return wire

    def _role(self, role: str) -> str:
        if role == "developer" and not self._capabilities.developer_role:
            return "system"
        return role

    def _write_turn(self, turn: Turn) -> Iterator[Wire]:
        """Write an assistant's turn and the answers to its calls."""
        yield from self._write_assistant(turn)
        media: Media = []
        yield from self._write_answers(turn, media)
        if media:
            yield {"role": "user", "content": media}

    def _write_answers(self, turn: Turn, media: Media) -> Iterator[Wire]:
        """Write the answers to a turn's calls; what they cannot hold is put into `media`."""
        for call, _ in turn.calls:
            placed = self._output_of(call)
            if placed is not None:
                yield self._write_output(call, *placed, media)

    def _output_of(self, call: Call) -> tuple[Output, str] | None:
        """Find the answer to a call, wherever it stands."""
        placed = self._outputs.get(call.call_id)
        if placed is not None:
            self._ahead.add(placed[1])
        return placed

    def _write_assistant(self, turn: Turn) -> Iterator[Wire]:
        said: Wire = {}
        text, refusal = turn.text(), turn.refusal()
        if refusal:
            said["refusal"] = refusal
        for message, path in turn.messages:
            self._report_parts(message, path)
            self._carrier.carry(message.extras, said, path)
        if turn.thoughts and self._capabilities.reasoning_field:
            said[self._capabilities.reasoning_field] = TEXT_SEPARATOR.join(turn.thoughts)
        if turn.calls:
            self._write_calls(turn, said)
        if text or said:
            yield {"role": "assistant", "content": text or None, **said}
            return
        # Servers refuse a message that says nothing (P049).
        for _, path in turn.messages:
            self._losses.dropped(path, "an assistant message that says nothing")

    def _report_parts(self, message: Message, path: str) -> None:
        """Report what an assistant's message may hold that a request cannot repeat."""
        for number, part in enumerate(message.content):
            where = f"{path}.content[{number}]"
            match part:
                case Text():
                    self._report_text(part, where)
                case Refusal():
                    self._carrier.lose(part.extras, where)
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
        self._carrier.lose(part.extras, path)

    def _write_calls(self, turn: Turn, wire: Wire) -> None:
        wire["tool_calls"] = [self._write_call(call, path) for call, path in turn.calls]

    def _write_call(self, call: Call, path: str) -> Wire:
        self._report_namespace(call, path)
        wire: Wire = {"id": call.call_id, "type": call.kind}
        if call.kind == "custom" and self._capabilities.custom_tools:
            wire["custom"] = {"name": call.name, "input": call.arguments}
        else:
            wire["type"] = "function"
            wire["function"] = {"name": call.name, "arguments": wrapped(call, path, self._losses)}
        self._carrier.carry(call.extras, wire, path)
        return wire

    def _report_namespace(self, call: Call, path: str) -> None:
        if call.namespace:
            self._losses.dropped(
                f"{path}.namespace", f"{self.label} has no namespaces", "capability"
            )

    def _write_output(self, call: Call, output: Output, path: str, media: Media) -> Wire:
        wire: Wire = {
            "role": "tool",
            "tool_call_id": output.call_id,
            "content": self._output_content(call, output, path, media),
        }
        self._carrier.carry(output.extras, wire, path)
        return wire

    def _output_content(
        self, call: Call, output: Output, path: str, media: Media
    ) -> str | list[Wire | Raw]:
        """Write what a tool answered; pictures and files move behind the whole batch (P051)."""
        if isinstance(output.output, str):
            return output.output
        if is_plain(output.output):
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
        texts = [part for part in output.output if not is_media(part)]
        if is_plain(tuple(texts)) and isinstance(texts[0], Text):
            # Every server takes a string.
            return texts[0].text
        return kept if kept or not moved else "The output is in the next user message."

    def _label_output(self, call: Call) -> str:
        """Say, before a picture, which call it comes from."""
        return f"Output of call {call.call_id}:"
