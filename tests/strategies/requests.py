"""Strategies for requests that a dialect can express without loss."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import Raw
from msgspec.structs import replace

from adapters.ids import StableIds
from adapters.ir import types as ir
from tests.strategies.replies import calls, citations, refusals, with_item_id
from tests.strategies.values import (
    DialectName,
    floats,
    names,
    non_empty_texts,
    optional,
    raw_objects,
    texts,
    tuples_of,
)

_schemas = st.sampled_from([
    Raw(b'{"type":"object","properties":{}}'),
    Raw(b'{ "type" : "object", "properties": {"n": {"type": "integer", "maximum": 1e21}}}'),
    Raw(b'{"type":"object","properties":{"n":{"enum":[null, 12345678901234567890]}}}'),
    Raw(b'{"type":"object","properties":{},"required":[],"additionalProperties":false}'),
])  # fmt: skip
_plain_formats = st.sampled_from([ir.ResponseFormat("text"), ir.ResponseFormat("json_object")])
_json_schema = st.just("json_schema")
_formats = _plain_formats | st.builds(
    ir.ResponseFormat, _json_schema, names, _schemas, optional(st.booleans()), optional(texts)
)
_non_empty_objects = raw_objects.filter(lambda raw: bytes(raw).strip(b"{ \t\n}") != b"")
_SHARED_SETTINGS: dict[str, SearchStrategy[object]] = {
    "max_output_tokens": st.integers(16, 10**9),
    "temperature": floats,
    "top_p": floats,
    "presence_penalty": floats.filter(bool),
    "frequency_penalty": floats.filter(bool),
    "format": _formats,
    "verbosity": names,
    "effort": names,
    "stream": st.booleans(),
    "metadata": _non_empty_objects,
    "user": texts,
    "safety_identifier": texts,
    "prompt_cache_key": texts,
    "prompt_cache_retention": names,
    "prompt_cache_options": st.builds(ir.CacheOptions, names, optional(st.just("30m"))),
    "service_tier": names,
    "moderation": _non_empty_objects,
}
_FAMILY_SETTINGS: dict[ir.Family, dict[str, SearchStrategy[object]]] = {
    "responses": {"instructions": texts, "logprobs": st.just(value=True)},
    "completions": {
        "stop": tuples_of(non_empty_texts, 3, 1),
        "choices": st.integers(1, 4),
        "logprobs": st.booleans(),
        "top_logprobs": st.integers(0, 20),
        "store": st.just(value=True),
    },
}


@st.composite
def _settings(draw: DrawFn, family: ir.Family) -> ir.Request:
    """Draw a request with some settings, and without items and tools."""
    known = _SHARED_SETTINGS | _FAMILY_SETTINGS[family]
    chosen = draw(st.lists(st.sampled_from(sorted(known)), max_size=4, unique=True))
    request = replace(
        ir.Request(draw(non_empty_texts)), **{name: draw(known[name]) for name in chosen}
    )
    # The writer always requests the usage of a Chat stream; Responses sends it unasked.
    wants_usage = request.stream and family == "completions"
    return replace(request, include_usage=True if wants_usage else None)


_WEB_SEARCH_FIELDS = (
    b'{"type":"web_search","user_location":{"type":"approximate","city":"Gouda"},'
    b'"search_context_size":"low"}'
)
_WEB_SEARCH = ir.HostedTool("web_search", Raw(_WEB_SEARCH_FIELDS))


@cache
def _tools(name: DialectName) -> SearchStrategy[tuple[ir.Tool, ...]]:
    booleans = st.booleans()
    strict = {"chat": booleans, "legacy": st.just(value=False), "responses": optional(booleans)}
    described = (names, optional(texts))
    tool: SearchStrategy[ir.Tool] = st.builds(ir.FunctionTool, *described, _schemas, strict[name])
    if name != "legacy":
        grammar = {"format": st.just("grammar"), "syntax": st.just("lark"), "definition": texts}
        tool |= st.builds(ir.CustomTool, *described)
        tool |= st.builds(ir.CustomTool, *described, **grammar)
    lists = st.lists(tool, max_size=3, unique_by=lambda tool: getattr(tool, "name", ""))
    several: SearchStrategy[tuple[ir.Tool, ...]] = lists.map(tuple)
    if name == "legacy":
        return several
    # Chat declares its search beside the tools, so it comes last.
    hosted: SearchStrategy[tuple[ir.Tool, ...]] = st.sampled_from([(), (_WEB_SEARCH,)])
    return st.tuples(several, hosted).map(lambda pair: pair[0] + pair[1])


@st.composite
def _tool_choices(
    draw: DrawFn, name: DialectName, tools: tuple[ir.Tool, ...]
) -> ir.ToolChoice | None:
    named = [
        ir.NamedToolChoice(tool.name, "custom" if isinstance(tool, ir.CustomTool) else "function")
        for tool in tools
        if not isinstance(tool, ir.HostedTool)
    ]
    if not named:
        return None
    choices: list[ir.ToolChoice] = [ir.ToolChoiceMode("auto"), *named]
    # Chat has no way to declare a web search and to forbid it.
    has_search = name != "responses" and any(isinstance(tool, ir.HostedTool) for tool in tools)
    if not has_search:
        choices.append(ir.ToolChoiceMode("none"))
    if name != "legacy":
        others = (Raw(b'{"type":"web_search"}'),) if has_search else ()
        choices += [
            ir.ToolChoiceMode("required"),
            ir.AllowedToolsChoice("auto", tuple(named), others),
            ir.AllowedToolsChoice("required", (named[0],), others),
        ]
    return draw(optional(st.sampled_from(choices)))


@cache
def _parts(name: DialectName) -> SearchStrategy[ir.Part]:
    """Return a strategy for the parts of a user message."""
    breakpoints = optional(st.just(Raw(b'{"type":"ephemeral"}')))
    common: SearchStrategy[ir.Part] = st.one_of(
        st.builds(ir.Text, texts, cache_breakpoint=breakpoints),
        st.builds(ir.Image, url=texts, detail=names, cache_breakpoint=breakpoints),
        st.builds(
            ir.File, data=optional(texts), filename=optional(texts), cache_breakpoint=breakpoints
        ),
    )
    if name == "responses":
        other = ir.OtherPart("responses", "input_video", Raw(b'{"type":"input_video","x":1.0}'))
        return common | st.just(other)
    other = ir.OtherPart("completions", "video_url", Raw(b'{"type":"video_url","x":1.0}'))
    return st.one_of(common, st.builds(ir.Audio, texts, names, breakpoints), st.just(other))


@cache
def _messages(name: DialectName) -> SearchStrategy[ir.Message]:
    """Return a strategy for messages of a user, the system or a developer."""
    roles: SearchStrategy[ir.Role] = st.sampled_from(["user", "system", "developer"])
    one_text = texts.map(lambda text: (ir.Text(text),))
    return st.builds(ir.Message, roles, one_text | tuples_of(_parts(name), 3, 2))


_reasoning = st.none() | st.builds(
    ir.Reasoning, content=st.tuples(non_empty_texts), field=st.just("reasoning_content")
)
_output_texts = texts | tuples_of(st.builds(ir.Text, texts), 3, 2)
_turn_calls: dict[bool, SearchStrategy[tuple[ir.ToolCall, ...]]] = {
    True: st.just(()) | calls(kinds=("function",)).map(lambda several: several[:1]),
    False: st.just(()) | calls(),
}


@st.composite
def _assistant_turn(draw: DrawFn, name: DialectName) -> list[ir.Item]:
    """Draw the reasoning, message and calls of an assistant, with the outputs of the calls."""
    reasoning = draw(_reasoning)
    text, refusal = draw(texts), draw(texts)
    content: tuple[ir.Part, ...] = (ir.Text(text),) if text else ()
    content += (ir.Refusal(refusal),) if refusal else ()
    turn_calls = draw(_turn_calls[name == "legacy"])
    if not content and not turn_calls:
        content = (ir.Text("text"),)
    items: list[ir.Item] = [] if reasoning is None else [reasoning]
    items += [ir.Message("assistant", content)] if content else []
    items += [replace(call, status=None) for call in turn_calls]
    outputs = texts if name == "legacy" else _output_texts
    return items + [ir.ToolOutput(call.call_id, draw(outputs)) for call in turn_calls]


@cache
def _chat_turns(
    name: DialectName,
) -> SearchStrategy[list[tuple[tuple[ir.Message, ...], list[ir.Item]]]]:
    turn = st.tuples(tuples_of(_messages(name), 2, 1), _assistant_turn(name))
    return st.lists(turn, max_size=3)


@st.composite
def _chat_history(draw: DrawFn, name: DialectName) -> tuple[ir.Item, ...]:
    turns = draw(_chat_turns(name))
    items = [item for messages, turn in turns for item in (*messages, *turn)]
    return tuple(_with_stable_ids(items) if name == "legacy" else _with_unique_ids(items))


def _with_unique_ids(items: Sequence[ir.Item]) -> Iterator[ir.Item]:
    """Give each call an id that no other turn has."""
    ids: dict[str, str] = {}
    numbers = count()
    for item in items:
        match item:
            case ir.ToolCall():
                ids[item.call_id] = f"call_{next(numbers)}_{item.call_id}"
                yield replace(item, call_id=ids[item.call_id])
            case ir.ToolOutput(call_id=str(call_id)):
                yield replace(item, call_id=ids[call_id])
            case _:
                yield item


def _with_stable_ids(items: Sequence[ir.Item]) -> Iterator[ir.Item]:
    """Give each call the id that the reader of a history without ids generates."""
    new_id = StableIds()
    last = ir.ToolCall("", "")
    for item in items:
        match item:
            case ir.ToolCall():
                last = replace(item, call_id=new_id(item.name, item.arguments))
                yield last
            case ir.ToolOutput():
                yield replace(item, call_id=last.call_id, name=last.name)
            case _:
                yield item


_statuses = st.sampled_from([None, "completed", "incomplete"])
_namespaces = optional(names)
_responses_outputs = texts | tuples_of(_parts("responses"), 2, 1)


@cache
def _responses_items() -> SearchStrategy[list[ir.Item]]:
    one_text = st.builds(ir.Text, non_empty_texts).map(lambda text: (text,))
    cited = st.builds(ir.Text, texts, tuples_of(citations, 2, 1))
    content = one_text | tuples_of(cited | refusals, 3, 1)
    message = st.builds(ir.Message, st.just("assistant"), content, status=_statuses)
    reasoning = st.builds(
        ir.Reasoning, tuples_of(texts), tuples_of(texts), non_empty_texts, status=_statuses
    )
    search = ir.OpaqueItem("responses", "web_search_call", Raw())
    others: list[ir.Item] = [ir.ItemReference(""), search]
    any_item: SearchStrategy[ir.Item] = st.one_of(
        _messages("responses"), message, reasoning, st.sampled_from(others)
    )
    return st.lists(any_item, max_size=4)


@st.composite
def _responses_history(draw: DrawFn) -> tuple[ir.Item, ...]:
    """Draw items in any order, with each output somewhere after its call."""
    items = draw(_responses_items())
    for call in draw(_turn_calls[False]):
        call_place = draw(st.integers(0, len(items)))
        items.insert(call_place, replace(call, namespace=draw(_namespaces), status=draw(_statuses)))
        output = draw(_responses_outputs)
        output_place = draw(st.integers(call_place + 1, len(items)))
        items.insert(output_place, ir.ToolOutput(call.call_id, output, call.kind))
    # Most items may have an id or none; equal ids would make two items one.
    return tuple(
        with_item_id(item, number)
        if draw(st.booleans()) or isinstance(item, ir.ItemReference | ir.OpaqueItem)
        else item
        for number, item in enumerate(items)
    )


@st.composite
def requests(draw: DrawFn, name: DialectName) -> ir.Request:
    """Draw a request that a dialect can express without loss."""
    tools = draw(_tools(name))
    parallel: SearchStrategy[bool | None] = st.none()
    if name != "legacy" and any(not isinstance(tool, ir.HostedTool) for tool in tools):
        parallel = optional(st.booleans())
    store = ir.ExtraField("responses", "store", Raw(b"false"), None)
    return replace(
        draw(_settings("responses" if name == "responses" else "completions")),
        items=draw(_responses_history() if name == "responses" else _chat_history(name)),
        tools=tools,
        tool_choice=draw(_tool_choices(name, tools)),
        parallel_tool_calls=draw(parallel),
        extras=(store,) if name == "responses" else (),
    )
