"""Tool search, and tools in items of the history.

For a backend without tool search, a search that the client runs is declared as a function, and the
next request declares the tools that it found. A search that the backend would run is replaced by
declaring all tools. If the backend has a limit for deferred tools, the gateway itself searches: it
declares the tools that match the user's messages best.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from msgspec import Raw

from adapters.errors import InvalidRequestError
from adapters.ir import types as ir
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.tool_emulation.registry import BackendToolSupport, NamedTool
from adapters.wire.json_object import read_fields
from adapters.wire.json_schema import EMPTY_SCHEMA
from adapters.wire.tools import read_tools

TOOL_SEARCH = "tool_search"
DEFER_LOADING = "defer_loading"
ADDITIONAL_TOOLS = "additional_tools"
NOT_DEFERRED_REASON = "deferred loading is not supported; declared immediately"

ADDITIONAL_TOOLS_REASON = "tools in items are not supported; declared with the other tools"

# Takes the namespace and the name of a tool; returns the name by which a model calls it.
CallableName = Callable[[str | None, str], str]


# The search as a function

_DESCRIPTION = "Searches for tools that are not listed here; what it finds can be called next."
_NOTHING_FOUND = "No tool was found."
_FOUND = "These tools were found and can be called now:"


def search_runs_on_client(tool: ir.HostedTool, path: str) -> bool:
    """Whether the client itself runs the search."""
    return read_fields(tool.value, path).string("execution") == "client"


def search_as_function(tool: ir.HostedTool, path: str) -> ir.FunctionTool:
    """Return the function that emulates a search on the client."""
    fields = read_fields(tool.value, path)
    return ir.FunctionTool(
        TOOL_SEARCH,
        fields.string("description") or _DESCRIPTION,
        fields.raw("parameters") or EMPTY_SCHEMA,
        strict=False,
    )


def describe_found_tools(output: ir.ToolOutput, callable_name: CallableName) -> str:
    """Return the output of a search as text for the model."""
    lines = [line for raw in _found_tools(output) for line in _lines(raw, None, callable_name)]
    return "\n".join([_FOUND, *lines]) if lines else _NOTHING_FOUND


def _lines(raw: Raw, namespace: str | None, callable_name: CallableName) -> list[str]:
    fields = read_fields(raw)
    name, description = fields.string("name") or "", fields.string("description")
    children = fields.array("tools")
    if children:
        return [line for child in children for line in _lines(child, name, callable_name)]
    return [f"- {callable_name(namespace, name)}" + (f": {description}" if description else "")]


def _found_tools(output: ir.ToolOutput) -> list[Raw]:
    """Return the declarations in the output of a search, which may also be plain text."""
    text = output.output
    if not isinstance(text, str) or not text.lstrip().startswith("[") or not is_complete_json(text):
        return []
    return read_fields(Raw(b'{"tools":' + text.encode() + b"}")).array("tools")


# Tools in items of the history: the outputs of searches, and `additional_tools`, which Codex sends
# instead of `tools`; see https://github.com/BerriAI/litellm/issues/34198

_ITEM_KINDS = frozenset((ADDITIONAL_TOOLS, "tool_search_output", TOOL_SEARCH))

ToolWithPath = tuple[ir.Tool, str]
# An item that contains tools, its path, and the hosted kind of the backends that can read it.
ToolsItem = tuple[ir.Item, str, str]


def is_hoisted_tools_item(item: ir.Item, backend: BackendToolSupport) -> bool:
    """Whether an item has only tools, which are declared because the backend cannot read it."""
    return _tools_kind(item) == ADDITIONAL_TOOLS and not backend.supports_hosted(ADDITIONAL_TOOLS)


def items_with_tools(request: ir.Request) -> list[ToolsItem]:
    """Return the items that contain tools."""
    # Skip the paths in most requests, because they have no such items.
    if not any(getattr(item, "kind", None) in _ITEM_KINDS for item in request.items):
        return []
    items = ((item, path, _tools_kind(item)) for item, path in request.items_with_paths())
    return [(item, path, kind) for item, path, kind in items if kind is not None]


def tools_from_items(
    items: list[ToolsItem], family: ir.Family, backend: BackendToolSupport, losses: Losses
) -> Iterator[ToolWithPath]:
    """Yield the tools in items that the backend cannot read."""
    for item, path, kind in items:
        if backend.supports_hosted(kind):
            continue
        if kind == ADDITIONAL_TOOLS:
            losses.changed(path, ADDITIONAL_TOOLS_REASON, "adapted")
        yield from _read_item(item, path, family)


def tools_visible_to_backend(
    items: list[ToolsItem], family: ir.Family, backend: BackendToolSupport | None = None
) -> Iterator[ToolWithPath]:
    """Yield the tools in items that the backend can read; without a backend, in all items.

    Invalid tools are skipped, because the backend itself reports them.
    """
    for item, path, kind in items:
        if backend is None or backend.supports_hosted(kind):
            with suppress(InvalidRequestError):
                yield from _read_item(item, path, family)


def _tools_kind(item: ir.Item) -> str | None:
    """Return the hosted kind of an item that contains tools."""
    match item:
        case ir.OpaqueItem(kind="additional_tools"):
            return ADDITIONAL_TOOLS
        case ir.OpaqueItem(kind="tool_search_output") | ir.ToolOutput(kind="tool_search"):
            return TOOL_SEARCH
        case _:
            return None


def _read_item(item: ir.Item, path: str, family: ir.Family) -> Iterator[ToolWithPath]:
    raws: list[Raw] = []
    if isinstance(item, ir.OpaqueItem):
        raws = read_fields(item.value, path).array("tools")
    elif isinstance(item, ir.ToolOutput):
        raws = _found_tools(item)
    for number, tool in enumerate(read_tools(raws, f"{path}.tools", family)):
        yield tool, f"{path}.tools[{number}]"


# Deferred tools


def is_deferred(tool: NamedTool) -> bool:
    """Whether a tool must be declared only after a search has found it."""
    return any(extra.name == DEFER_LOADING and extra.value == Raw(b"true") for extra in tool.extras)


def search_tools(request: ir.Request, tools: Sequence[str], limit: int) -> list[int]:
    """Return the positions of the best matches for the user's messages, in the order of these.

    The matches of a message follow those of earlier messages, so that prompt caches keep working;
    they replace them if there would be more than the limit.
    """
    selected: list[int] = []
    for item in request.items:
        if isinstance(item, ir.Message) and item.role == "user":
            text = " ".join(part.text for part in item.content if isinstance(part, ir.Text))
            best = bm25_rank(text, tools, limit)
            more = [position for position in best if position not in selected]
            selected = selected + more if len(selected) + len(more) <= limit else best
    return selected


# Ranking

_TERM = re.compile(r"[^\W\d_]+|\d+")
# `getWeather` has the same terms as `get_weather`.
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# The usual constants k1 and b of BM25: term saturation and length normalization.
_SATURATION, _LENGTH_WEIGHT = 1.2, 0.75
_MIN_PLURAL_LENGTH = 5


def bm25_rank(query: str, texts: Sequence[str], limit: int) -> list[int]:
    """Return the positions of the texts that match a query, best first, by BM25."""
    counts = [Counter(_terms(text)) for text in texts]
    mean_length = sum(count.total() for count in counts) / len(counts) if counts else 0.0
    frequencies = Counter(term for count in counts for term in count)
    # The inverse frequencies of the terms that the query has in common with the texts.
    weights = {
        term: math.log(1 + (len(texts) - frequencies[term] + 0.5) / (frequencies[term] + 0.5))
        for term in frequencies.keys() & set(_terms(query))
    }
    scores = [
        sum(
            weights[term] * _term_score(count, term, mean_length)
            for term in count
            if term in weights
        )
        for count in counts
    ]
    best = sorted(range(len(texts)), key=lambda position: (-scores[position], position))
    return [position for position in best[:limit] if scores[position] > 0]


def _terms(text: str) -> list[str]:
    return [_singular(term.casefold()) for term in _TERM.findall(_CAMEL_CASE.sub(" ", text))]


def _singular(term: str) -> str:
    return term[:-1] if len(term) >= _MIN_PLURAL_LENGTH and term.endswith("s") else term


def _term_score(count: "Counter[str]", term: str, mean_length: float) -> float:
    relative_length = count.total() / mean_length if mean_length else 1.0
    normalization = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * relative_length
    return count[term] * (_SATURATION + 1) / (count[term] + _SATURATION * normalization)
