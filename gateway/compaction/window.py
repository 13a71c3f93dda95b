"""What a backend sees of a conversation: summaries are opened, and what they stand for is left out.

Where a summary stands for all that was before it, only instructions before it stay; else what users
said stays, too: `/responses/compact` answers with that and the summary, and Codex keeps it beside
a summary by itself.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError, Sealer
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import parse, read_body
from gateway.compaction.summary import COMPACTION, Summary, SummaryDecryptor
from gateway.errors import RequestTooLargeError

_TRIGGER: Final = "compaction_trigger"
# The item that asks for a summary.
TRIGGER_ITEM: Final = Raw(b'{"type":"compaction_trigger"}')
# Both kinds begin so; a text that says it has its quotes escaped.
_SIGN: Final = b'"compaction'
# Who gives instructions, and what declares tools in the midst of a conversation.
_INSTRUCTING: Final = frozenset(("system", "developer"))
_DECLARING: Final = "additional_tools"
_PLACE: Final = re.compile(r"input\[(\d+)\]")

# One sentence for all: nobody learns whether something exists that belongs to somebody else.
_UNKNOWN: Final = (
    "this summary cannot be opened: it was made elsewhere, for another, or was changed"
)
_CODE: Final = "invalid_encrypted_content"
# So many bytes may come out of the summaries of one request. They are packed, and one that repeats
# itself becomes a thousand times as long: whoever sends many of those would keep us from all else.
_MOST_OPENED: Final = 128 * 1024 * 1024


class ItemHead(Struct, gc=False):
    """What is looked at of an item; a message may leave its type out."""

    type: str | None = None
    role: str | None = None
    encrypted_content: str | None = None


class WindowItem(Struct, frozen=True):
    """An item, and where it stands in the body that it was read from."""

    raw: Raw
    path: str
    kind: ItemHead
    # Written by us to tell of a summary.
    told: bool = False

    @property
    def instructs(self) -> bool:
        """Tell whether it goes on to hold, whatever is said later."""
        return self.kind.role in _INSTRUCTING or self.kind.type == _DECLARING

    @property
    def is_of_user(self) -> bool:
        """Tell whether a user said it."""
        return self.kind.role == "user" and not self.told


class Window(Struct, frozen=True):
    """The items of a request, and whether it asks to have them summed up."""

    items: tuple[WindowItem, ...]
    triggered: bool = False

    @property
    def raws(self) -> list[Raw]:
        """Give the items as they are spelled."""
        return [item.raw for item in self.items]

    def client_path(self, path: str) -> str:
        """Name a place among these items as it was called in the body they were read from."""
        return _PLACE.sub(self._placed, path)

    def _placed(self, found: re.Match[str]) -> str:
        place = int(found[1])
        # What we add in the end is nowhere in that body.
        return self.items[place].path if place < len(self.items) else "input"


_KIND: Final = msgspec.json.Decoder(ItemHead)


def may_contain_compaction(body: bytes) -> bool:
    """Tell whether there may be a summary or a wish for one in a body."""
    return _SIGN in body


def read_window(body: bytes, seal: Sealer, *, passes: bool, past: int = 0) -> Window:
    """Read the items of a body; foreign summaries stay where they may pass.

    Triggers among the first `past` items are of turns that failed. Raises `InvalidInput` for a
    summary that cannot be opened, and for a trigger that is not the last item.
    """
    given = read_body(body).text_or_raws("input") or []
    if isinstance(given, str):
        given = [message_of_user(given)]
    placed = [WindowItem(raw, f"input[{i}]", kind_of(raw)) for i, raw in enumerate(given)]
    triggered = bool(placed) and placed[-1].kind.type == _TRIGGER and len(placed) > past
    if triggered:
        placed.pop()
    summaries = _summaries(placed, seal, passes=passes)
    opened: list[WindowItem] = []
    for number, item in enumerate(placed):
        if number in summaries:
            opened = _told(item, summaries[number], opened)
        elif item.kind.type == COMPACTION and _is_ours(item, seal):
            # A later one stands for it, too.
            continue
        elif item.kind.type != _TRIGGER:
            opened.append(item)
        elif number >= past:
            raise InvalidRequestError(item.path, f"a {_TRIGGER} must be the last item")
    return Window(tuple(opened), triggered)


def message_of_user(text: str) -> Raw:
    """Give the item that an input stands for which is just a text."""
    return Raw(msgspec.json.encode({"type": "message", "role": "user", "content": text}))


def _summaries(placed: Sequence[WindowItem], seal: Sealer, *, passes: bool) -> dict[int, Summary]:
    """Open the summaries that count, by their places: back to the last that stands for all."""
    opening = SummaryDecryptor(seal)
    found: dict[int, Summary] = {}
    for number in range(len(placed) - 1, -1, -1):
        item = placed[number]
        if item.kind.type != COMPACTION or (passes and not _is_ours(item, seal)):
            continue
        summary = opening.summary(item.kind.encrypted_content or "")
        if summary is None:
            raise InvalidRequestError(item.path, _UNKNOWN, _CODE)
        if opening.size > _MOST_OPENED:
            raise RequestTooLargeError(item.path, f"the summaries hold over {_MOST_OPENED} bytes")
        found[number] = summary
        if summary.whole:
            break
    return found


def _is_ours(item: WindowItem, seal: Sealer) -> bool:
    return (item.kind.encrypted_content or "").startswith(seal.prefix)


def _told(item: WindowItem, summary: Summary, before: list[WindowItem]) -> list[WindowItem]:
    """Tell a summary in place of what it stands for."""
    stays = [one for one in before if one.instructs or (one.is_of_user and not summary.whole)]
    known = [_essence(one.raw) for one in stays]
    missing = [raw for raw in summary.before if _essence(raw) not in known]
    message = WindowItem(summary.message(), item.path, ItemHead("message", "user"), told=True)
    return [*_at(missing, item), *stays, message, *_at(summary.after, item)]


def _essence(raw: Raw) -> object:
    """Give what an instruction says, however it is spelled."""
    said = parse(raw)
    if not isinstance(said, dict):
        return said
    content = said.get("content")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    return said.get("role"), content, said.get("tools")


def _at(raws: Sequence[Raw], item: WindowItem) -> list[WindowItem]:
    return [WindowItem(raw, item.path, kind_of(raw)) for raw in raws]


def kind_of(raw: Raw) -> ItemHead:
    """Look at an item."""
    try:
        return _KIND.decode(raw)
    except DECODE_ERRORS:
        # Whoever reads the whole says what is wrong with it.
        return ItemHead()


def persistent_instructions(items: Sequence[WindowItem]) -> tuple[Raw, ...]:
    """Give what goes on to hold."""
    return tuple(item.raw for item in items if item.instructs)
