"""The items of a request with opened summaries, without the items that these replace.

A summary never replaces instructions, and it replaces user messages only if it is `whole`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import InputItem, InvalidRequestError, RequestBody, Sealer
from adapters.json_text import DECODE_ERRORS
from adapters.responses.request_reader import input_items
from adapters.tool_emulation.tool_search import ADDITIONAL_TOOLS
from adapters.wire.json_object import parse
from gateway.compaction.summary import COMPACTION, Summary, SummaryDecryptor
from gateway.errors import RequestTooLargeError

_TRIGGER: Final = "compaction_trigger"
# The item with which a client requests a summary.
TRIGGER_ITEM: Final = Raw(b'{"type":"compaction_trigger"}')
# The start of both types in JSON; inside a text the quote is escaped.
_TYPE_START: Final = b'"compaction'
_SEARCH_OUTPUT: Final = "tool_search_output"
_INSTRUCTING_ROLES: Final = frozenset(("system", "developer"))
# The start of the paths of items from earlier turns.
HISTORY: Final = "history["

# One message for all cases, because it must not reveal which summaries other clients have.
_UNKNOWN: Final = "cannot be decrypted: created by another gateway or client, or modified"
# Summaries are compressed: without a limit, one request could fill the memory.
_MAX_OPENED_BYTES: Final = 128 * 1024 * 1024


class ItemHead(Struct, gc=False):
    """The fields that show the kind of an item; a message may have no type."""

    type: str | None = None
    role: str | None = None
    encrypted_content: str | None = None


class WindowItem(Struct, frozen=True):
    """An item with its head and its path in the client's request."""

    raw: Raw
    path: str
    head: ItemHead
    # Whether the gateway wrote it from a summary.
    is_summary: bool = False

    @property
    def instructs(self) -> bool:
        """Whether the item applies to all items after it."""
        return self.head.role in _INSTRUCTING_ROLES or self.head.type == ADDITIONAL_TOOLS

    @property
    def is_user_message(self) -> bool:
        """Whether the item is a user message, other than the message with a summary."""
        return self.head.role == "user" and not self.is_summary

    @property
    def is_from_history(self) -> bool:
        """Whether the item belongs to an earlier turn."""
        return self.path.startswith(HISTORY)


class Window(Struct, frozen=True):
    """The items of a request, and whether a summary of them is requested."""

    items: tuple[WindowItem, ...]
    triggered: bool = False

    def input_items(self) -> tuple[InputItem, ...]:
        """Return the items for a request body."""
        return tuple(InputItem(item.raw, item.path) for item in self.items)


class _FoundTools(Struct):
    tools: list[Raw] = []


_HEAD: Final = msgspec.json.Decoder(ItemHead)
_TOOLS: Final = msgspec.json.Decoder(_FoundTools)
_ENCODER: Final = msgspec.json.Encoder()


def may_contain_compaction(body: RequestBody) -> bool:
    """Whether there may be a summary or a trigger among the items of a request."""
    if body.items is not None:
        return any(_TYPE_START in bytes(item.raw) for item in body.items)
    return _TYPE_START in bytes(body.fields.get("input", b""))


def read_window(body: RequestBody, sealer: Sealer, *, keep_foreign: bool) -> Window:
    """Read the items of a request; `keep_foreign` keeps summaries that the gateway did not seal.

    Remove triggers of earlier turns, because those turns failed. Raises `InvalidRequestError` for
    a summary that cannot be opened, and for a trigger that is not the last item.
    """
    items = [WindowItem(item.raw, item.path, head_of(item.raw)) for item in input_items(body)]
    triggered = bool(items) and items[-1].head.type == _TRIGGER and not items[-1].is_from_history
    if triggered:
        items.pop()
    summaries = _open_summaries(items, sealer, keep_foreign=keep_foreign)
    opened: list[WindowItem] = []
    for number, item in enumerate(items):
        if number in summaries:
            opened = _insert_summary(item, summaries[number], opened)
        elif item.head.type == COMPACTION and _is_ours(item, sealer):
            # A later summary replaces this one.
            continue
        elif item.head.type != _TRIGGER:
            opened.append(item)
        elif not item.is_from_history:
            raise InvalidRequestError(item.path, "must be the last item")
    return Window(tuple(opened), triggered)


def _open_summaries(
    items: Sequence[WindowItem], sealer: Sealer, *, keep_foreign: bool
) -> dict[int, Summary]:
    """Open the summaries by index, from the last item back to the last `whole` summary."""
    decryptor = SummaryDecryptor(sealer)
    found: dict[int, Summary] = {}
    for number in range(len(items) - 1, -1, -1):
        item = items[number]
        if item.head.type != COMPACTION or (keep_foreign and not _is_ours(item, sealer)):
            continue
        summary = decryptor.summary(item.head.encrypted_content or "")
        if summary is None:
            raise InvalidRequestError(item.path, _UNKNOWN, "invalid_encrypted_content")
        if decryptor.size > _MAX_OPENED_BYTES:
            why = f"the summaries exceed {_MAX_OPENED_BYTES} bytes"
            raise RequestTooLargeError(item.path, why)
        found[number] = summary
        if summary.whole:
            break
    return found


def _is_ours(item: WindowItem, sealer: Sealer) -> bool:
    return (item.head.encrypted_content or "").startswith(sealer.prefix)


def _insert_summary(
    item: WindowItem, summary: Summary, before: list[WindowItem]
) -> list[WindowItem]:
    """Return the summary with its own items, after the items before it that it does not replace."""
    kept = _lasting(before, keeps_users=not summary.whole)
    known = [_normalized(it.raw) for it in kept]
    missing = [raw for raw in summary.before if _normalized(raw) not in known]
    message = summary_message(summary, item.path)
    return [*_items_at(item, missing), *kept, message, *_items_at(item, summary.after)]


def summary_message(summary: Summary, path: str) -> WindowItem:
    """Return the item with the message of a summary."""
    return WindowItem(summary.message(), path, ItemHead("message", "user"), is_summary=True)


def _normalized(raw: Raw) -> object:
    """Return the content of an instruction in a form that can be compared."""
    value = parse(raw)
    if not isinstance(value, dict):
        return value
    content = value.get("content")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    return value.get("role"), content, value.get("tools")


def _items_at(item: WindowItem, raws: Sequence[Raw]) -> list[WindowItem]:
    return [WindowItem(raw, item.path, head_of(raw)) for raw in raws]


def head_of(raw: Raw) -> ItemHead:
    """Decode the head of an item."""
    try:
        return _HEAD.decode(raw)
    except DECODE_ERRORS:
        # The reader of the whole item reports the error.
        return ItemHead()


def instructing_items(items: Sequence[WindowItem]) -> list[WindowItem]:
    """Return the items that apply to all items after them, and the tools that searches found."""
    return _lasting(items, keeps_users=False)


def _lasting(items: Sequence[WindowItem], *, keeps_users: bool) -> list[WindowItem]:
    """Return what a summary does not replace.

    The tools that a search found are declared by its output alone, so they become an item of their
    own, if they have not become one before.
    """
    lasting: list[WindowItem] = []
    found: set[bytes] = set()
    for item in items:
        if item.instructs or (keeps_users and item.is_user_message):
            lasting.append(item)
        elif (declared := _found_tools(item)) is not None and bytes(declared.raw) not in found:
            found.add(bytes(declared.raw))
            lasting.append(declared)
    return lasting


def _found_tools(item: WindowItem) -> WindowItem | None:
    """Return an item that declares the tools in the output of a search; None if there are none."""
    if item.head.type != _SEARCH_OUTPUT:
        return None
    try:
        tools = _TOOLS.decode(item.raw).tools
    except DECODE_ERRORS:
        # The reader of the whole item reports the error.
        return None
    if not tools:
        return None
    head = ItemHead(ADDITIONAL_TOOLS, "developer")
    fields = {"type": head.type, "role": head.role, "tools": tools}
    return WindowItem(Raw(_ENCODER.encode(fields)), item.path, head)
