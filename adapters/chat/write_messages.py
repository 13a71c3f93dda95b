"""Writes the items of a conversation as messages.

Chat groups: an assistant's text and all its calls are one message, and the answers to these calls
follow it at once, before anything else (P036 to P038). So items are gathered into turns, the
outputs of a turn's calls are looked up wherever they stand, and what stood between is written after
them.
"""

from collections.abc import Iterator

from msgspec import Raw

from adapters.capabilities import Capabilities
from adapters.chat.write_parts import PartWriter, is_media
from adapters.conversation import (
    Call,
    Item,
    Message,
    Opaque,
    Output,
    Part,
    Reasoning,
    Reference,
    Refusal,
    Request,
    Text,
)
from adapters.extras import Carrier
from adapters.loss import Losses, Severity

Wire = dict[str, object]
Placed = tuple[Item, str]

# Between the texts of two message items, which must not run together.
TEXT_SEPARATOR = "\n\n"

# Sealed state without which the conversation is another one.
_INDISPENSABLE = frozenset(("compaction", "compaction_trigger"))


class Turn:
    """What an assistant thought, said and called before anybody else spoke."""

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
        paths = request.paths or tuple(f"items[{i}]" for i in range(len(request.items)))
        self._items: list[Placed] = list(zip(request.items, paths, strict=True))
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
            match item:
                case Message(role="assistant") | Call() | Reasoning():
                    self._note_reasoning(item, path)
                    turn.take(item, path)
                case Opaque():
                    self._drop(item, path)
                case Output():
                    # Written with its call, perhaps just now.
                    messages += self._write_turn(turn)
                    turn = Turn()
                    self._ahead.discard(path)
                case _:
                    messages += self._write_turn(turn)
                    turn = Turn()
                    messages += self._write_other(item, path)
        return messages + list(self._write_turn(turn))

    def _note_reasoning(self, item: Item, path: str) -> None:
        if isinstance(item, Reasoning) and not self._capabilities.reasoning_field:
            self._losses.dropped(path, f"{self.label} has no place for reasoning")

    def _drop(self, item: Opaque, path: str) -> None:
        severity: Severity = "meaning" if item.kind in _INDISPENSABLE else "capability"
        self._losses.dropped(path, f"{self.label} has no item {item.kind}", severity)

    def _write_other(self, item: Item, path: str) -> Iterator[Wire]:
        match item:
            case Message():
                yield self._write_message(item, path)
            case Reference():
                self._losses.dropped(path, f"the item {item.item_id} is not stored here", "meaning")
            case _:
                # Outputs are written with their calls.
                return

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
        if not turn:
            return
        yield from self._write_assistant(turn)
        media: list[Part] = []
        yield from self._write_answers(turn, media)
        if media:
            yield {"role": "user", "content": self._parts.write_content(tuple(media), "")}

    def _write_answers(self, turn: Turn, media: list[Part]) -> Iterator[Wire]:
        """Write the answers to a turn's calls; what they cannot hold is put into `media`."""
        for call, _ in turn.calls:
            placed = self._output_of(call)
            if placed is not None:
                yield self._write_output(*placed, media)

    def _output_of(self, call: Call) -> tuple[Output, str] | None:
        """Find the answer to a call, wherever it stands."""
        placed = self._outputs.get(call.call_id)
        if placed is not None:
            self._ahead.add(placed[1])
        return placed

    def _write_assistant(self, turn: Turn) -> Iterator[Wire]:
        text, refusal = turn.text(), turn.refusal()
        wire: Wire = {"role": "assistant", "content": text or None}
        if refusal:
            wire["refusal"] = refusal
        for message, path in turn.messages:
            self._report_parts(message, path)
            self._carrier.carry(message.extras, wire, path)
        if turn.thoughts and self._capabilities.reasoning_field:
            wire[self._capabilities.reasoning_field] = "".join(turn.thoughts)
        if turn.calls:
            self._write_calls(turn, wire)
        elif not text and not refusal:
            # Servers refuse a message that says nothing (P049).
            for _, path in turn.messages:
                self._losses.dropped(path, "an assistant message that says nothing")
            return
        yield wire

    def _report_parts(self, message: Message, path: str) -> None:
        """Report what an assistant's message may hold that a request cannot repeat."""
        for number, part in enumerate(message.content):
            where = f"{path}.content[{number}]"
            match part:
                case Text():
                    self._report_text(part, where)
                case Refusal():
                    self._carrier.carry(part.extras, {}, where)
                case _:
                    self._losses.dropped(where, "an assistant can only say text", "meaning")

    def _report_text(self, part: Text, path: str) -> None:
        if part.annotations:
            self._losses.dropped(f"{path}.annotations", "a history does not repeat annotations")
        if part.logprobs:
            self._losses.dropped(f"{path}.logprobs", "a history does not repeat probabilities")
        self._carrier.carry(part.extras, {}, path)

    def _write_calls(self, turn: Turn, wire: Wire) -> None:
        wire["tool_calls"] = [self._write_call(call, path) for call, path in turn.calls]

    def _write_call(self, call: Call, path: str) -> Wire:
        self._report_namespace(call, path)
        wire: Wire = {"id": call.call_id, "type": call.kind}
        if call.kind == "custom":
            wire["custom"] = {"name": call.name, "input": call.arguments}
        else:
            wire["function"] = {"name": call.name, "arguments": call.arguments}
        self._carrier.carry(call.extras, wire, path)
        return wire

    def _report_namespace(self, call: Call, path: str) -> None:
        if call.namespace:
            self._losses.dropped(
                f"{path}.namespace", f"{self.label} has no namespaces", "capability"
            )

    def _write_output(self, output: Output, path: str, media: list[Part]) -> Wire:
        wire: Wire = {
            "role": "tool",
            "tool_call_id": output.call_id,
            "content": self._output_content(output, path, media),
        }
        self._carrier.carry(output.extras, wire, path)
        return wire

    def _output_content(
        self, output: Output, path: str, media: list[Part]
    ) -> str | list[Wire | Raw]:
        """Write what a tool answered; pictures and files move behind the whole batch (P051)."""
        if isinstance(output.output, str):
            return output.output
        moved = tuple(part for part in output.output if is_media(part))
        if moved:
            self._losses.changed(
                f"{path}.output", "pictures and files follow the outputs in a user message"
            )
            media.append(Text(f"Output of call {output.call_id}:"))
            media += moved
        kept = tuple(part for part in output.output if not is_media(part))
        if moved and not kept:
            return "The output is in the next user message."
        return self._parts.write_content(kept, f"{path}.output")
