"""Tools that a history brings along: in items of their own, or found by a search (P031, P032)."""

from collections.abc import Iterator
from contextlib import suppress

from msgspec import Raw

from adapters.errors import InvalidRequestError
from adapters.ir.types import Item, OpaqueItem, Request, Tool, ToolOutput
from adapters.losses import Losses
from adapters.tool_emulation import tool_search as searching
from adapters.tool_emulation.backend_support import BackendToolSupport
from adapters.wire.json_object import read_fields
from adapters.wire.tools import read_tools

KIND = "additional_tools"
# What such items are called in the hub, and other things.
_KINDS = frozenset((KIND, "tool_search_output", searching.KIND))

Placed = tuple[Tool, str]
# An item that holds tools, its path, and by what kind of thing it does.
Held = tuple[Item, str, str]


def is_hoisted_tools_item(item: Item, target: BackendToolSupport) -> bool:
    """Tell whether an item is nothing but tools, and not for this backend."""
    return _holds(item) == KIND and not target.has(KIND)


def items_with_tools(request: Request) -> list[Held]:
    """Give the items that bring tools along; mostly there are none, and that is told at once."""
    if not any(getattr(item, "kind", None) in _KINDS for item in request.items):
        return []
    placed = ((item, path, _holds(item)) for item, path in request.items_with_paths())
    return [(item, path, kind) for item, path, kind in placed if kind is not None]


def tools_from_items(
    held: list[Held], target: BackendToolSupport, losses: Losses
) -> Iterator[Placed]:
    """Give the tools that items bring along, for a backend that would not find them there."""
    for item, path, kind in held:
        if target.has(kind):
            continue
        if kind == KIND:
            losses.changed(path, "its tools are declared from the start")
        yield from _read(item, path)


def tools_visible_to_backend(
    held: list[Held], target: BackendToolSupport | None = None
) -> Iterator[Placed]:
    """Give the tools that a backend finds in items; in those that are sent, that is all of them.

    Of tools that cannot be read, the backend will say so itself.
    """
    for item, path, kind in held:
        if target is None or target.has(kind):
            with suppress(InvalidRequestError):
                yield from _read(item, path)


def _holds(item: Item) -> str | None:
    """Tell by what kind of thing an item brings tools along; None if it does not."""
    match item:
        case OpaqueItem(kind="additional_tools"):
            return KIND
        case OpaqueItem(kind="tool_search_output") | ToolOutput(kind="tool_search"):
            return searching.KIND
        case _:
            return None


def _read(item: Item, path: str) -> Iterator[Placed]:
    inner = f"{path}.tools"
    for number, tool in enumerate(read_tools(_raws(item, path), inner, "responses")):
        yield tool, f"{inner}[{number}]"


def _raws(item: Item, path: str) -> list[Raw]:
    if isinstance(item, OpaqueItem):
        return read_fields(item.value, path).array("tools")
    return searching.found_tools(item) if isinstance(item, ToolOutput) else []
