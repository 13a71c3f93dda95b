"""The wire format: entries of a conversation, in requests and replies.

    {"from": "user", "text": "…"}                      a message; a list of texts has several parts
    {"call": "id", "tool": "name", "input": "{…}"}     a tool call
    {"output": "id", "text": "…"}                      the output of a tool call

An entry of a reply that was truncated has `"cut": true`.
"""

from collections.abc import Iterator

from msgspec import Raw

from adapters.errors import InvalidRequestError
from adapters.ir.types import (
    Extras,
    Item,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Status,
    Text,
    ToolCall,
    ToolOutput,
)
from adapters.losses import Losses
from adapters.wire.extra_fields import ExtrasWriter, unread_fields
from adapters.wire.json_object import JsonObject, read_fields

Wire = dict[str, object]

FAMILY = "dialogue"
LABEL = "a dialogue"
# Fields of the IR that have another name here.
NAMES = {
    "items": "dialogue",
    "tool_choice": "tool_use",
    "max_output_tokens": "limit",
    "usage": "tokens",
}
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}


def read_items(raws: list[Raw], path: str) -> Iterator[tuple[Item, str]]:
    """Read the entries of a request or a reply, each with its path."""
    for number, raw in enumerate(raws):
        entry = read_fields(raw, f"{path}[{number}]")
        yield read_item(entry), entry.path


def read_item(entry: JsonObject) -> Item:
    """Read one entry; raise `InvalidRequestError` if it is none."""
    status: Status | None = "incomplete" if entry.boolean("cut") else None
    sender, call_id, output_id = (entry.string(name) for name in ("from", "call", "output"))
    if sender in _ROLES:
        content = tuple(Text(text) for text in _texts(entry))
        return Message(_ROLES[sender], content, status=status, extras=_extras(entry))
    if call_id is not None:
        name, arguments = entry.string("tool") or "", entry.string("input") or ""
        return ToolCall(call_id, name, arguments, status=status, extras=_extras(entry))
    if output_id is not None:
        return ToolOutput(output_id, "".join(_texts(entry)), extras=_extras(entry))
    raise InvalidRequestError(entry.path, "expected `from`, `call` or `output`")


def _texts(entry: JsonObject) -> tuple[str, ...]:
    texts = entry.text_or_raws("text")
    if isinstance(texts, str):
        return (texts,)
    parts = JsonObject({"text": Raw(b"[" + b",".join(map(bytes, texts or [])) + b"]")}, entry.path)
    return parts.texts("text")


def _extras(entry: JsonObject) -> Extras:
    return unread_fields(entry, FAMILY)


def extras_writer(losses: Losses, forward: tuple[str, ...] = ()) -> ExtrasWriter:
    """Return the writer of fields that only this dialect knows."""
    return ExtrasWriter(FAMILY, LABEL, losses, forward)


def write_items(items: list[tuple[Item, str]], losses: Losses) -> list[Wire]:
    """Write what entries can carry; report the rest."""
    return [entry for item, path in items for entry in write_item(item, path, losses)]


def write_item(item: Item, path: str, losses: Losses) -> list[Wire]:
    """Write one item, unless it cannot be an entry."""
    match item:
        case Message():
            texts = _write_texts(item.content, path, losses)
            entry: Wire = {"from": item.role, "text": texts[0] if len(texts) == 1 else texts}
        case ToolCall():
            entry = {"call": item.call_id, "tool": item.name, "input": item.arguments}
        case ToolOutput():
            output = item.output
            texts = [output] if isinstance(output, str) else _write_texts(output, path, losses)
            entry = {"output": item.call_id or "", "text": "".join(texts)}
        case Reasoning(summary=(), content=(), encrypted=None):
            return []
        case _:
            losses.dropped(path, f"{LABEL} has no such entry", "capability")
            return []
    if item.status == "incomplete":
        entry["cut"] = True
    extras_writer(losses).carry(item.extras, entry, path)
    return [entry]


def _write_texts(content: tuple[Part, ...], path: str, losses: Losses) -> list[str]:
    texts: list[str] = []
    for part in content:
        if not isinstance(part, Text | Refusal):
            losses.dropped(f"{path}.content", f"{LABEL} has only text", "capability")
            continue
        if part not in (Text(part.text), Refusal(part.text)) or isinstance(part, Refusal):
            losses.changed(f"{path}.content", f"{LABEL} has only plain text")
        texts.append(part.text)
    return texts
