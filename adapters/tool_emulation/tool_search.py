"""Tools that are not declared at first but found by a search.

A client may run the search itself: then it is a function to a backend that has no such thing, and
what it found can be called on the next turn. A search that the server would run is not needed where
all tools are declared from the start. A backend with a small context is told only of those that fit
best what the user says; then the search is run here.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from msgspec import Raw
from msgspec.structs import replace

from adapters.errors import InvalidRequestError
from adapters.ir.types import (
    CustomTool,
    FunctionTool,
    HostedTool,
    Item,
    Message,
    OpaqueItem,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolOutput,
)
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.tool_emulation.registry import BackendToolSupport
from adapters.wire.json_object import read_fields
from adapters.wire.json_schema import EMPTY_SCHEMA
from adapters.wire.tools import read_tools

TOOL_SEARCH = "tool_search"
DEFER_LOADING = "defer_loading"

_DESCRIPTION = "Searches for tools that are not listed here; what it finds can be called next."
_NOTHING_FOUND = "No tool was found."
_FOUND = "These tools were found and can be called now:"

# Words of a name or a sentence: `getWeather`, `get_weather` and `get weather` have the same.
_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# The usual constants: how soon repeats stop counting, and how much long texts are held back.
_SATURATION, _LENGTH = 1.2, 0.75
# Shorter words have no ending to be told apart by.
_LEAST_STEM = 4


def search_runs_on_client(tool: HostedTool, path: str) -> bool:
    """Tell whether the client runs the search itself."""
    return read_fields(tool.value, path).string("execution") == "client"


def search_as_function(tool: HostedTool, name: str, path: str) -> FunctionTool:
    """Give the function that stands for a search that the client runs."""
    fields = read_fields(tool.value, path)
    return FunctionTool(
        name,
        fields.string("description") or _DESCRIPTION,
        fields.raw("parameters") or EMPTY_SCHEMA,
        strict=False,
    )


# What was found


def found_tools(output: ToolOutput) -> list[Raw]:
    """Give the tools that a search found, as they were spelled; words are no tools."""
    if not isinstance(output.output, str) or not _is_list(output.output):
        return []
    return read_fields(Raw(b'{"tools":' + output.output.encode() + b"}")).array("tools")


def _is_list(text: str) -> bool:
    return text.lstrip().startswith("[") and is_complete_json(text)


def describe_found_tools(output: ToolOutput, told_name: Callable[[str | None, str], str]) -> str:
    """Tell the model what a search found, under the names that it can call."""
    lines = [line for raw in found_tools(output) for line in _lines(raw, None, told_name)]
    return "\n".join([_FOUND, *lines]) if lines else _NOTHING_FOUND


def _lines(
    raw: Raw, namespace: str | None, told_name: Callable[[str | None, str], str]
) -> list[str]:
    fields = read_fields(raw)
    name, description = fields.string("name") or "", fields.string("description")
    children = fields.array("tools")
    if children:
        return [line for child in children for line in _lines(child, name, told_name)]
    return [f"- {told_name(namespace, name)}" + (f": {description}" if description else "")]


# Tools that were deferred


def is_deferred(tool: FunctionTool | CustomTool) -> bool:
    """Tell whether a tool is to be declared only when a search finds it."""
    return any(extra.name == DEFER_LOADING and extra.value == Raw(b"true") for extra in tool.extras)


def without_defer_loading(tool: FunctionTool | CustomTool) -> FunctionTool | CustomTool:
    """Give a tool that is declared from the start."""
    if not tool.extras:
        return tool
    return replace(tool, extras=tuple(extra for extra in tool.extras if extra.name != DEFER_LOADING))


def search_tools(request: Request, tools: Sequence[str], limit: int) -> list[int]:
    """Give the places of the tools that fit best what the user says now, or else ever said."""
    texts = [_said(item) for item in request.items if isinstance(item, Message)]
    spoken = [text for text in texts if text]
    return bm25_rank(" ".join(spoken[-1:]), tools, limit) or bm25_rank(
        " ".join(spoken), tools, limit
    )


def called_names(request: Request) -> frozenset[str]:
    """Give the names of the tools that were called before."""
    return frozenset(item.name for item in request.items if isinstance(item, ToolCall))


def _said(message: Message) -> str:
    if message.role != "user":
        return ""
    return " ".join(part.text for part in message.content if isinstance(part, Text))


# Ranking


def bm25_rank(query: str, texts: Sequence[str], limit: int) -> list[int]:
    """Give the places of the texts that fit a query best, the best first, if they fit at all.

    Each word of the query counts for more the fewer texts have it (BM25).
    """
    counts = [Counter(_words(text)) for text in texts]
    usual = sum(count.total() for count in counts) / len(counts) if counts else 0.0
    having = Counter(word for count in counts for word in count)
    # A query may be long, and most of its words are in no text.
    rarity = {
        word: _rarity(having[word], len(texts)) for word in having.keys() & set(_words(query))
    }
    scores = [
        sum(rarity[word] * _share(count, word, usual) for word in count if word in rarity)
        for count in counts
    ]
    best = sorted(range(len(texts)), key=lambda place: (-scores[place], place))
    return [place for place in best[:limit] if scores[place] > 0]


def _words(text: str) -> list[str]:
    return [_stem(word.casefold()) for word in _WORD.findall(_HUMP.sub(" ", text))]


def _stem(word: str) -> str:
    """Take a plural for its singular."""
    return word[:-1] if len(word) > _LEAST_STEM and word.endswith("s") else word


def _rarity(having: int, texts: int) -> float:
    return math.log(1 + (texts - having + 0.5) / (having + 0.5))


def _share(count: "Counter[str]", word: str, usual: float) -> float:
    held_back = 1 - _LENGTH + _LENGTH * count.total() / usual if usual else 1.0
    return count[word] * (_SATURATION + 1) / (count[word] + _SATURATION * held_back)


# Tools that a history brings along: in items of their own, or found by a search (P031, P032).


ADDITIONAL_TOOLS = "additional_tools"
# What such items are called in the hub, and other things.
_KINDS = frozenset((ADDITIONAL_TOOLS, "tool_search_output", TOOL_SEARCH))

Placed = tuple[Tool, str]
# An item that holds tools, its path, and by what kind of thing it does.
ToolsItem = tuple[Item, str, str]


def is_hoisted_tools_item(item: Item, target: BackendToolSupport) -> bool:
    """Tell whether an item is nothing but tools, and not for this backend."""
    return _holds(item) == ADDITIONAL_TOOLS and not target.supports_hosted(ADDITIONAL_TOOLS)


def items_with_tools(request: Request) -> list[ToolsItem]:
    """Give the items that bring tools along; mostly there are none, and that is told at once."""
    if not any(getattr(item, "kind", None) in _KINDS for item in request.items):
        return []
    placed = ((item, path, _holds(item)) for item, path in request.items_with_paths())
    return [(item, path, kind) for item, path, kind in placed if kind is not None]


def tools_from_items(
    held: list[ToolsItem], target: BackendToolSupport, losses: Losses
) -> Iterator[Placed]:
    """Give the tools that items bring along, for a backend that would not find them there."""
    for item, path, kind in held:
        if target.supports_hosted(kind):
            continue
        if kind == ADDITIONAL_TOOLS:
            losses.changed(path, "its tools are declared from the start")
        yield from _read(item, path)


def tools_visible_to_backend(
    held: list[ToolsItem], target: BackendToolSupport | None = None
) -> Iterator[Placed]:
    """Give the tools that a backend finds in items; in those that are sent, that is all of them.

    Of tools that cannot be read, the backend will say so itself.
    """
    for item, path, kind in held:
        if target is None or target.supports_hosted(kind):
            with suppress(InvalidRequestError):
                yield from _read(item, path)


def _holds(item: Item) -> str | None:
    """Tell by what kind of thing an item brings tools along; None if it does not."""
    match item:
        case OpaqueItem(kind="additional_tools"):
            return ADDITIONAL_TOOLS
        case OpaqueItem(kind="tool_search_output") | ToolOutput(kind="tool_search"):
            return TOOL_SEARCH
        case _:
            return None


def _read(item: Item, path: str) -> Iterator[Placed]:
    inner = f"{path}.tools"
    for number, tool in enumerate(read_tools(_raws(item, path), inner, "responses")):
        yield tool, f"{inner}[{number}]"


def _raws(item: Item, path: str) -> list[Raw]:
    if isinstance(item, OpaqueItem):
        return read_fields(item.value, path).array("tools")
    return found_tools(item) if isinstance(item, ToolOutput) else []
