"""The wire format: entries of a conversation, requests, replies, events and errors.

A reader rejects fields that it does not know.
"""

from collections.abc import Iterator

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from adapters.ir import types as ir
from adapters.losses import Losses

FAMILY = "dialogue"
LABEL = "a dialogue"
# Fields of the IR that have another name here.
NAMES = {
    "items": "dialogue",
    "tool_choice": "tool_use",
    "max_output_tokens": "limit",
    "usage": "tokens",
}


class Entry(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A message (`from`), a tool call (`call`) or the output of one (`output`)."""

    role: ir.Role | None = field(default=None, name="from")
    text: str = ""
    # The id of a call, in the call and in its output.
    call: str | None = None
    output: str | None = None
    tool: str = ""
    input: str = ""
    # Whether the entry of a reply was truncated.
    cut: bool = False


class ToolWire(Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    purpose: str | None = None
    schema: Raw = Raw()


class OnlyTool(Struct, forbid_unknown_fields=True):
    only: str


class RequestWire(Struct, forbid_unknown_fields=True, omit_defaults=True):
    dialogue: list[Entry]
    model: str | None = None
    stream: bool | None = None
    instructions: str | None = None
    temperature: float | None = None
    limit: int | None = None
    tools: list[ToolWire] = []
    tool_use: str | OnlyTool | None = None


class Tokens(Struct):
    input: int
    output: int
    total: int


class ReplyWire(Struct):
    dialogue: list[Entry]
    id: str = ""
    model: str = ""
    created: int | None = None
    end: ir.FinishReason = "stop"
    tokens: Tokens | None = None


class ErrorDetails(Struct):
    reason: str
    category: str = "server_error"
    code: str | None = None
    field: str | None = None


class ErrorWire(Struct, tag="error", tag_field="event"):
    """An error: the body of an HTTP error, or the last event of a stream."""

    error: ErrorDetails


class Begin(Struct, tag="begin", tag_field="event"):
    id: str
    model: str
    created: int | None = None


class Open(Struct, tag="open", tag_field="event"):
    """The start of an entry, without text and input."""

    number: int
    entry: Entry


class Add(Struct, tag="add", tag_field="event"):
    """A piece of the text or the input of an entry."""

    number: int
    text: str


class Close(Struct, tag="close", tag_field="event"):
    number: int
    cut: bool = False


class End(Struct, tag="end", tag_field="event"):
    end: ir.FinishReason
    tokens: Tokens | None = None


EVENT = Decoder(Begin | Open | Add | Close | End | ErrorWire)


def read_entry(entry: Entry) -> ir.Item:
    status: ir.Status | None = "incomplete" if entry.cut else None
    if entry.call is not None:
        return ir.ToolCall(entry.call, entry.tool, entry.input, status=status)
    if entry.output is not None:
        return ir.ToolOutput(entry.output, entry.text)
    content: tuple[ir.Part, ...] = (ir.Text(entry.text),) if entry.text else ()
    return ir.Message(entry.role or "user", content, status=status)


def write_entries(items: list[tuple[ir.Item, str]], losses: Losses) -> Iterator[Entry]:
    """Write the items that can be entries; report the others."""
    for item, path in items:
        match item:
            case ir.Message(role=role, content=content, status=status):
                yield Entry(role, _text(content, path, losses), cut=status == "incomplete")
            case ir.ToolCall(call_id=call_id, name=name, arguments=arguments, status=status):
                cut = status == "incomplete"
                yield Entry(call=call_id, tool=name, input=arguments, cut=cut)
            case ir.ToolOutput(call_id=call_id, output=output):
                text = output if isinstance(output, str) else _text(output, path, losses)
                yield Entry(output=call_id or "", text=text)
            case ir.Reasoning(summary=(), content=(), encrypted=None):
                pass
            case _:
                losses.dropped(path, f"{LABEL} has no such entry", "capability")


def _text(content: tuple[ir.Part, ...], path: str, losses: Losses) -> str:
    texts = [part.text for part in content if isinstance(part, ir.Text)]
    if content not in ((), *((ir.Text(text),) for text in texts)):
        losses.changed(f"{path}.content", f"{LABEL} has one plain text", "capability")
    return "".join(texts)


def read_tokens(tokens: Tokens | None) -> ir.Usage | None:
    return None if tokens is None else ir.Usage(tokens.input, tokens.output, tokens.total)


def write_tokens(usage: ir.Usage | None) -> Tokens | None:
    if usage is None:
        return None
    return Tokens(usage.input_tokens, usage.output_tokens, usage.total_tokens)
