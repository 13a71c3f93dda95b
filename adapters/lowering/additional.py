"""Tools that a history brings along: in items of their own, or found by a search (P031, P032)."""

from collections.abc import Iterator

from msgspec import Raw

from adapters.conversation import Item, Opaque, Output, Request, Tool
from adapters.fields import read_fields
from adapters.loss import Losses
from adapters.lowering import searching
from adapters.lowering.target import Target
from adapters.tools import read_tools

KIND = "additional_tools"
# What a search that its server ran is in a history.
_FOUND_BY_SERVER = "tool_search_output"

Placed = tuple[Tool, str]


def is_hoisted(item: Item, target: Target) -> bool:
    """Tell whether an item is nothing but tools, and not for this backend."""
    return isinstance(item, Opaque) and item.kind == KIND and not target.has(KIND)


def brought_along(request: Request, target: Target, losses: Losses) -> Iterator[Placed]:
    """Give the tools that the items bring along, for a backend that would not find them there."""
    for item, path in request.placed():
        if isinstance(item, Opaque):
            yield from _held(item, path, target, losses)
        elif isinstance(item, Output) and _is_found(item, target):
            yield from _read(searching.found_tools(item), path)


def _is_found(output: Output, target: Target) -> bool:
    return output.kind == searching.KIND and not target.has(searching.KIND)


def _held(item: Opaque, path: str, target: Target, losses: Losses) -> Iterator[Placed]:
    if item.kind == KIND and not target.has(KIND):
        losses.changed(path, "its tools are declared from the start")
    elif item.kind != _FOUND_BY_SERVER or target.has(searching.KIND):
        return
    yield from _read(read_fields(item.value, path).raws("tools"), path)


def _read(raws: list[Raw], path: str) -> Iterator[Placed]:
    inner = f"{path}.tools"
    for number, tool in enumerate(read_tools(raws, inner, "responses")):
        yield tool, f"{inner}[{number}]"
