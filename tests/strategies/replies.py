"""Strategies for replies that a dialect can express without loss."""

from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import Raw
from msgspec.structs import replace

from adapters.ir import types as ir
from adapters.ir.normalize import has_calls, has_truncated_arguments, mark_incomplete
from tests.strategies.values import (
    DialectName,
    any_arguments,
    counts,
    floats,
    id_suffixes,
    names,
    non_empty_texts,
    optional,
    texts,
    tuples_of,
)

_top_logprobs = st.builds(ir.TopLogprob, texts, floats, st.just((104, 105)))
_logprobs = st.builds(ir.Logprob, texts, floats, st.just((10,)), tuples_of(_top_logprobs, 2))
citations: SearchStrategy[ir.Annotation] = st.builds(ir.Citation, texts, texts, counts, counts)
_text_parts = st.builds(ir.Text, non_empty_texts, tuples_of(citations, 2), tuples_of(_logprobs, 2))
refusals = st.builds(ir.Refusal, non_empty_texts)
_usages = st.builds(ir.Usage, counts, counts, st.integers(1, 10**6), counts, counts, counts)
_optional_usages = optional(_usages)
_tiers = st.sampled_from(["flex", "priority", "default"])
_optional_tiers = optional(_tiers)

_ID_PREFIXES = {"chat": "chatcmpl-", "legacy": "chatcmpl-", "responses": "resp_"}
FINISH_REASONS: dict[DialectName, dict[ir.FinishReason, str]] = {
    "chat": {"calls": "tool_calls", "stop": "stop", "length": "length", "filter": "content_filter"},
    "legacy": {
        "calls": "function_call",
        "stop": "stop",
        "length": "length",
        "filter": "content_filter",
    },
    "responses": {"stop": "completed", "length": "max_output_tokens", "filter": "content_filter"},
}


# The items of a reply.
Items = tuple[ir.Item, ...]


def calls(
    arguments: SearchStrategy[str] = any_arguments,
    *,
    kinds: tuple[ir.CallKind, ...] = ("function", "custom"),
    distinct_names: bool = False,
) -> SearchStrategy[tuple[ir.ToolCall, ...]]:
    """Return a strategy for calls with different ids, and different names if required."""
    ids = id_suffixes.map("call_".__add__)
    completed = st.just("completed")
    # Blank arguments of a function are not JSON and become {}.
    function = st.builds(ir.ToolCall, ids, names, arguments.filter(str.strip), status=completed)
    custom = st.builds(ir.ToolCall, ids, names, arguments, st.just("custom"), status=completed)
    call = st.one_of([function, custom] if "custom" in kinds else [function])
    several = st.lists(call, min_size=1, max_size=3, unique_by=lambda call: call.call_id)
    if distinct_names:
        several = several.filter(lambda calls: len({call.name for call in calls}) == len(calls))
    return several.map(tuple)


def assistant_message(parts: tuple[ir.Part, ...]) -> ir.Message:
    return ir.Message("assistant", parts, status="completed")


def chat_items(calls: SearchStrategy[tuple[ir.ToolCall, ...]]) -> SearchStrategy[Items]:
    """Return a strategy for the items of a Chat reply: a message, calls, or both."""
    parts: SearchStrategy[tuple[ir.Part, ...]] = st.one_of(
        st.tuples(_text_parts), st.tuples(refusals), st.tuples(_text_parts, refusals)
    )
    message = parts.map(lambda content: (assistant_message(content),))
    empty: Items = (assistant_message((ir.Text(""),)),)
    both = st.tuples(message, calls).map(lambda pair: pair[0] + pair[1])
    return st.one_of(st.just(empty), message, calls, both)


@cache
def responses_items() -> SearchStrategy[Items]:
    """Return a strategy for the items of a response, of any type and in any order."""
    message = tuples_of(_text_parts | refusals).map(assistant_message)
    call = st.tuples(calls(), optional(names)).map(
        lambda drawn: replace(drawn[0][0], namespace=drawn[1])
    )
    reasoning = st.builds(
        ir.Reasoning,
        tuples_of(non_empty_texts),
        tuples_of(non_empty_texts),
        optional(non_empty_texts),
        status=st.just("completed"),
    )
    search = st.just(ir.OpaqueItem("responses", "web_search_call", Raw()))
    any_item: SearchStrategy[ir.Item] = st.one_of(message, call, reasoning, search)
    return st.lists(any_item, max_size=4).map(
        lambda items: tuple(_with_call_id(item, number) for number, item in enumerate(items))
    )


def _with_call_id(item: ir.Item, number: int) -> ir.Item:
    if isinstance(item, ir.ToolCall):
        item = replace(item, call_id=f"call_{number}")
    return with_item_id(item, number)


def with_item_id(item: ir.Item, number: int) -> ir.Item:
    """Return an item with an id made from a number."""
    if isinstance(item, ir.OpaqueItem):
        item = replace(item, value=Raw(b'{"type":"web_search_call","id":"item_%d"}' % number))
    return replace(item, item_id=f"item_{number}")


@cache
def items_of(name: DialectName) -> SearchStrategy[Items]:
    match name:
        case "chat":
            return chat_items(calls())
        case "legacy":
            # The dialect has no ids: this is the first that the reader generates.
            call = calls(kinds=("function",)).map(
                lambda several: (replace(several[0], call_id="call_0001"),)
            )
            return chat_items(call)
        case "responses":
            return responses_items()


@st.composite
def replies(
    draw: DrawFn, name: DialectName, items: SearchStrategy[Items] | None = None
) -> ir.Reply:
    """Draw a reply that a dialect can express without loss, of these items or of any."""
    # A response always has usage and a tier.
    is_response = name == "responses"
    return ir.Reply(
        id=_ID_PREFIXES[name] + draw(id_suffixes),
        model=draw(non_empty_texts),
        created=draw(counts),
        choices=(draw(_choices(name, items_of(name) if items is None else items)),),
        usage=draw(_usages if is_response else _optional_usages),
        service_tier=draw(_tiers if is_response else _optional_tiers),
    )


@st.composite
def _choices(draw: DrawFn, name: DialectName, items_: SearchStrategy[Items]) -> ir.Choice:
    items = draw(items_)
    success: ir.FinishReason = "calls" if has_calls(items) and name != "responses" else "stop"
    reasons: list[ir.FinishReason] = [success, "length", "filter"]
    # Only the last call of a truncated reply can be truncated.
    truncated = any(
        isinstance(item, ir.ToolCall) and has_truncated_arguments(item) for item in items[:-1]
    )
    reason = success if truncated else draw(st.sampled_from(reasons))
    if reason in ("length", "filter"):
        items = mark_incomplete(items)
    return ir.Choice(items, ir.Finish(reason, FINISH_REASONS[name][reason]))
