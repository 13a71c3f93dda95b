"""Writes the calls of a history, and what the tools answered, as text.

The calls of a turn stand in what the assistant said, in the form that it is asked to use. Their
outputs follow in one user message, in the order of the calls.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal

from msgspec import Raw
from msgspec.json import Encoder
from msgspec.structs import replace

from adapters.ir.items import is_assistant_item
from adapters.ir.types import Item, Message, Part, Request, Text, ToolCall, ToolOutput
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.wire.extra_fields import ExtrasWriter

Placed = tuple[Item, str]

WRITTEN = "the backend knows no tools; calls and their outputs are written as text"
_ENCODER = Encoder()


def calls_as_text(request: Request, losses: Losses) -> Request:
    """Give the request with no calls and outputs in it but in words."""
    if not any(isinstance(item, ToolCall | ToolOutput) for item in request.items):
        return request
    losses.changed("items", WRITTEN)
    placed = list(_History(request, losses).write())
    return replace(
        request,
        items=tuple(item for item, _ in placed),
        paths=tuple(path for _, path in placed),
    )


class _History:
    """One history, turn by turn."""

    def __init__(self, request: Request, losses: Losses) -> None:
        self._placed = request.items_with_paths()
        self._carrier = ExtrasWriter("completions", "a text", losses)
        self._outputs = {
            item.call_id: (item, path)
            for item, path in self._placed
            if isinstance(item, ToolOutput)
        }
        self._called = {item.call_id for item, _ in self._placed if isinstance(item, ToolCall)}

    def write(self) -> Iterator[Placed]:
        """Give the items; outputs stand behind the turn that made their calls."""
        for kind, group in groupby(self._placed, _kind):
            match kind:
                case "turn":
                    yield from self._write_turn(list(group))
                case "outputs":
                    yield from self._write_outputs(self._without_calls(group))
                case "others":
                    yield from group

    def _without_calls(self, placed: Iterable[Placed]) -> list[tuple[ToolOutput, str]]:
        """Give the outputs to calls that only the server knows."""
        return [
            (item, path)
            for item, path in placed
            if isinstance(item, ToolOutput) and item.call_id not in self._called
        ]

    def _write_turn(self, turn: list[Placed]) -> Iterator[Placed]:
        """Give a turn: its reasoning, all that it said and called as one message, the outputs."""
        calls = [(item, path) for item, path in turn if isinstance(item, ToolCall)]
        if not calls:
            yield from turn
            return
        said = [(item, path) for item, path in turn if isinstance(item, Message | ToolCall)]
        yield from (one for one in turn if not isinstance(one[0], Message | ToolCall))
        spoken = next((item for item, _ in said if isinstance(item, Message)), Message("assistant"))
        content: list[Part] = []
        for item, path in said:
            content += self._separated(content, self._say(item, path))
        # It is no longer the item that its server may know by its id.
        yield replace(spoken, content=joined(content), item_id=None), said[0][1]
        outputs = [
            self._outputs[call.call_id] for call, _ in calls if call.call_id in self._outputs
        ]
        yield from self._write_outputs(outputs)

    def _separated(self, before: list[Part], content: tuple[Part, ...]) -> tuple[Part, ...]:
        return (Text("\n"), *content) if before and content else content

    def _say(self, item: Item, path: str) -> tuple[Part, ...]:
        if isinstance(item, Message):
            return item.content
        if not isinstance(item, ToolCall):
            return ()
        self._carrier.report_dropped(item.extras, path)
        return (Text(written_call(item)),)

    def _write_outputs(self, outputs: list[tuple[ToolOutput, str]]) -> Iterator[Placed]:
        content: list[Part] = []
        for output, path in outputs:
            self._carrier.report_dropped(output.extras, path)
            parts = (Text(output.output),) if isinstance(output.output, str) else output.output
            framed = (Text("<tool_response>\n"), *parts, Text("\n</tool_response>"))
            content += self._separated(content, framed)
        if outputs:
            yield Message("user", joined(content)), outputs[0][1]


def _kind(placed: Placed) -> Literal["turn", "outputs", "others"]:
    item, _ = placed
    if is_assistant_item(item):
        return "turn"
    return "outputs" if isinstance(item, ToolOutput) else "others"


def written_call(call: ToolCall) -> str:
    """Write a call as a model is asked to write it; the arguments as they were spelled."""
    spelled = call.kind == "function" and is_complete_json(call.arguments)
    arguments = Raw(call.arguments.encode()) if spelled else call.arguments
    said = _ENCODER.encode({"name": call.name, "arguments": arguments})
    return f"<tool_call>\n{said.decode()}\n</tool_call>"


def joined(parts: list[Part]) -> tuple[Part, ...]:
    """Make one text of those that stand side by side and are nothing but text."""
    content: list[Part] = []
    for part in parts:
        last = content[-1] if content else None
        if isinstance(last, Text) and isinstance(part, Text) and _is_plain(last, part):
            content[-1] = Text(last.text + part.text)
        else:
            content.append(part)
    return tuple(content)


def _is_plain(*texts: Text) -> bool:
    return all(text == Text(text.text) for text in texts)
