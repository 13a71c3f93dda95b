"""What can be said, and all the ways in which it may come: hypothesis strategies for the laws.

First values: the hub's replies and requests that one dialect can say with nothing lost. Then
tellings: streams that mean a given reply, told as servers do who leave out and repeat what they
like, as long as only one reading remains.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, count, cycle, groupby, pairwise
from typing import Literal, TypeVar, cast

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.ids import StableIds
from adapters.ir.accumulator import to_events
from adapters.ir.events import BlockId, Closed, Delta, Event, Opened
from adapters.ir.normalize import has_calls, has_truncated_arguments, mark_incomplete
from adapters.ir.types import (
    AllowedToolsChoice,
    Annotation,
    Audio,
    CacheOptions,
    CallKind,
    Choice,
    Citation,
    CustomTool,
    ExtraField,
    Family,
    File,
    Finish,
    FinishReason,
    FunctionTool,
    HostedTool,
    Image,
    Item,
    ItemReference,
    Logprob,
    Message,
    NamedToolChoice,
    OpaqueItem,
    OtherPart,
    Part,
    Reasoning,
    Refusal,
    Reply,
    Request,
    ResponseFormat,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolChoiceMode,
    ToolOutput,
    TopLogprob,
    Usage,
)

T = TypeVar("T")
Wire = dict[str, object]
DialectName = Literal["chat", "responses", "legacy"]
DIALECT_NAMES: tuple[DialectName, ...] = ("chat", "responses", "legacy")

# A backend that can take whatever its dialect can say.
ABLE = Capabilities(
    developer_role=True,
    reasoning_field="reasoning_content",
    custom_tools=True,
    web_search_options=True,
    penalties=True,
)


# --- words ------------------------------------------------------------------------------------

# What breaks framing, escaping, templates or `splitlines`, alone and beside anything else.
ODD = (
    *("\0", "\u2028", "\u2029", "\x85", "\x1f", "\x7f", "\ufeff", "\U0010ffff", "é", "🦜"),
    *("\r\n", "\n\n", "\r", '"', "\\", "\\u0000", "\\n", "data: ", "[DONE]"),
)
_ANYTHING = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
some_text = st.one_of(
    st.sampled_from([*ODD, *(f"a{one}b" for one in ODD), *(one * 2 for one in ODD)]), _ANYTHING
)
texts = st.just("") | some_text
names = st.text("abcdef_", min_size=1, max_size=5)
_tokens = st.text("0123456789abcdef", min_size=1, max_size=6)
_numbers = st.integers(0, 10**6)


def maybe(strategy: SearchStrategy[T]) -> SearchStrategy[T | None]:
    """Say it or not."""
    return st.none() | strategy


def some(
    strategy: SearchStrategy[T], most: int = 3, least: int = 0
) -> SearchStrategy[tuple[T, ...]]:
    """Say a few of them, in any order."""
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


_spaces = st.sampled_from(["", "", " ", "\n", "\t ", " \r\n  "])
_scalars = st.sampled_from([
    *("1", "-0", "1.0", "1e400", "12345678901234567890123", "0.1000000000000000055"),
    *("null", "true", '""', '"\\u2603"', '"\\ud83d\\ude00"', '"\u2028\u2029"', '"\\u0000"'),
    *('"a\\"b\\\\"', '"{"', '"\\/"', '"é🦜"'),
])  # fmt: skip


def _objects(values: SearchStrategy[str]) -> SearchStrategy[str]:
    """Spell objects out of values, with spaces where no serialiser would put them."""

    def spell(found: list[str], before: str, after: str) -> str:
        fields = ",".join(f'{before}"k"{after}:{before}{value}{after}' for value in found)
        return f"{{{fields or before}}}"

    return st.builds(spell, st.lists(values, max_size=3), _spaces, _spaces)


def _nested(inner: SearchStrategy[str]) -> SearchStrategy[str]:
    return _objects(inner) | st.lists(inner, max_size=2).map(lambda found: f"[{', '.join(found)}]")


# One whole JSON object, oddly spelled; and what else a model may write.
json_arguments = _objects(st.recursive(_scalars, _nested, max_leaves=4))
any_arguments = st.one_of(
    json_arguments,
    texts,
    st.tuples(_spaces, json_arguments, _spaces).map("".join),
    st.sampled_from(["", "{", "{}{", "[1][2]", '{"a":', "null", "12"]),
)
raws = json_arguments.map(lambda text: Raw(text.replace("\r", "").encode()))


# --- replies ----------------------------------------------------------------------------------

_floats = st.floats(-2, 2)
_top_logprobs = st.builds(TopLogprob, texts, _floats, st.just((104, 105)))
_logprobs = st.builds(Logprob, texts, _floats, st.just((10,)), some(_top_logprobs, 2))
_citations: SearchStrategy[Annotation] = st.builds(Citation, texts, texts, _numbers, _numbers)
_spoken = st.builds(Text, some_text, some(_citations, 2), some(_logprobs, 2))
_refusals = st.builds(Refusal, some_text)
_usages = st.builds(Usage, _numbers, _numbers, st.integers(1, 10**6), _numbers, _numbers, _numbers)


def calls(
    arguments: SearchStrategy[str] = any_arguments,
    *,
    kinds: tuple[CallKind, ...] = ("function", "custom"),
    distinct: bool = False,
) -> SearchStrategy[tuple[ToolCall, ...]]:
    """Calls with an id each, and with a name each where that must tell them apart."""
    ids = _tokens.map("call_".__add__)
    whole = st.just("completed")
    # Blank arguments of a function could not be parsed, and do not stay as they are.
    function = st.builds(ToolCall, ids, names, arguments.filter(str.strip), status=whole)
    custom = st.builds(ToolCall, ids, names, arguments, st.just("custom"), status=whole)
    call = st.one_of([function, custom] if "custom" in kinds else [function])
    several = st.lists(call, min_size=1, max_size=3, unique_by=lambda made: made.call_id)
    if distinct:
        several = several.filter(lambda made: len({one.name for one in made}) == len(made))
    return several.map(tuple)


def answered(parts: tuple[Part, ...]) -> Message:
    """Make the message of an answer."""
    return Message("assistant", parts, status="completed")


def chat_items(made: SearchStrategy[tuple[ToolCall, ...]]) -> SearchStrategy[tuple[Item, ...]]:
    """What an answer of Chat can hold: a message, or calls, or a message and then calls."""
    said: SearchStrategy[tuple[Part, ...]] = st.one_of(
        st.tuples(_spoken), st.tuples(_refusals), st.tuples(_spoken, _refusals)
    )
    message = said.map(lambda parts: (answered(parts),))
    empty: tuple[Item, ...] = (answered((Text(""),)),)
    return st.one_of(
        st.just(empty), message, made, st.tuples(message, made).map(lambda two: two[0] + two[1])
    )


@st.composite
def responses_items(draw: DrawFn) -> tuple[Item, ...]:
    """What an answer of the Responses API can hold: anything, in any order."""
    message = some(_spoken | _refusals).map(answered)
    call = st.builds(_in_namespace, calls().map(lambda made: made[0]), maybe(names))
    thoughts = st.builds(
        Reasoning, some(some_text), some(some_text), maybe(some_text), status=st.just("completed")
    )
    search = st.just(OpaqueItem("responses", "web_search_call", Raw()))
    every: SearchStrategy[Item] = st.one_of(message, call, thoughts, search)
    items = draw(st.lists(every, max_size=4))
    return tuple(_identified(item, number) for number, item in enumerate(items))


def _in_namespace(call: ToolCall, namespace: str | None) -> ToolCall:
    return replace(call, namespace=namespace)


_PREFIXES = {"chat": "chatcmpl-", "legacy": "chatcmpl-", "responses": "resp_"}
WORDS: dict[DialectName, dict[FinishReason, str]] = {
    "chat": {"calls": "tool_calls", "stop": "stop", "length": "length", "filter": "content_filter"},
    "legacy": {
        "calls": "function_call",
        "stop": "stop",
        "length": "length",
        "filter": "content_filter",
    },
    "responses": {
        "stop": "completed",
        "length": "max_output_tokens",
        "filter": "content_filter",
    },
}


def _identified(item: Item, number: int) -> Item:
    if isinstance(item, ToolCall):
        item = replace(item, call_id=f"call_{number}")
    return _with_id(item, number)


def _with_id(item: Item, number: int) -> Item:
    if isinstance(item, OpaqueItem):
        item = replace(item, value=Raw(b'{"type":"web_search_call","id":"item_%d"}' % number))
    return replace(item, item_id=f"item_{number}")


@cache
def items_of(name: DialectName) -> SearchStrategy[tuple[Item, ...]]:
    """What an answer of a dialect can hold."""
    match name:
        case "chat":
            return chat_items(calls())
        case "legacy":
            # It has no ids: this is the first that the reader will make.
            one = st.builds(
                ToolCall,
                st.just("call_0001"),
                names,
                any_arguments.filter(str.strip),
                status=st.just("completed"),
            )
            return chat_items(st.tuples(one))
        case "responses":
            return responses_items()


@st.composite
def replies(
    draw: DrawFn, name: DialectName, items: SearchStrategy[tuple[Item, ...]] | None = None
) -> Reply:
    """Give a reply that a dialect can say with nothing lost; what it says may be given."""
    responses = name == "responses"
    tiers = st.sampled_from(["flex", "priority", "default"])
    return Reply(
        id=_PREFIXES[name] + draw(_tokens),
        model=draw(some_text),
        created=draw(_numbers),
        choices=(draw(_choices(name, items_of(name) if items is None else items)),),
        # A response always says what it cost and who served it.
        usage=draw(_usages if responses else maybe(_usages)),
        service_tier=draw(tiers if responses else maybe(tiers)),
    )


@st.composite
def _choices(draw: DrawFn, name: DialectName, made: SearchStrategy[tuple[Item, ...]]) -> Choice:
    items = draw(made)
    called = has_calls(items) and name != "responses"
    ended: FinishReason = "calls" if called else "stop"
    reasons: list[FinishReason] = [ended, "length", "filter"]
    # A call that breaks off is where an answer was cut, so nothing follows it.
    halves = any(
        isinstance(item, ToolCall) and has_truncated_arguments(item) for item in items[:-1]
    )
    reason = ended if halves else draw(st.sampled_from(reasons))
    if reason in ("length", "filter"):
        items = mark_incomplete(items)
    return Choice(items, Finish(reason, WORDS[name][reason]))


# --- requests ---------------------------------------------------------------------------------

_SCHEMAS = st.sampled_from([
    Raw(b'{"type":"object","properties":{}}'),
    Raw(b'{ "type" : "object", "properties": {"n": {"type": "integer", "maximum": 1e21}}}'),
    Raw(b'{"type":"object","properties":{"n":{"enum":[null, 12345678901234567890]}}}'),
    Raw(b'{"type":"object","properties":{},"required":[],"additionalProperties":false}'),
])  # fmt: skip


@cache
def _formats() -> SearchStrategy[ResponseFormat]:
    named = st.builds(
        ResponseFormat, st.just("json_schema"), names, _SCHEMAS, maybe(st.booleans()), maybe(texts)
    )
    return st.sampled_from([ResponseFormat("text"), ResponseFormat("json_object")]) | named


_SHARED: dict[str, SearchStrategy[object]] = {
    "max_output_tokens": st.integers(16, 10**9),
    "temperature": _floats,
    "top_p": _floats,
    "presence_penalty": _floats.filter(bool),
    "frequency_penalty": _floats.filter(bool),
    "format": _formats(),
    "verbosity": names,
    "effort": names,
    "stream": st.booleans(),
    "metadata": raws.filter(lambda raw: bytes(raw).strip(b"{ \t\n}") != b""),
    "user": texts,
    "safety_identifier": texts,
    "prompt_cache_key": texts,
    "prompt_cache_retention": names,
    "prompt_cache_options": st.builds(CacheOptions, names, maybe(st.just("30m"))),
    "service_tier": names,
    "moderation": raws.filter(lambda raw: bytes(raw).strip(b"{ \t\n}") != b""),
}
_OWN: dict[Family, dict[str, SearchStrategy[object]]] = {
    "responses": {"instructions": texts, "logprobs": st.just(value=True)},
    "completions": {
        "stop": some(some_text, 3, 1),
        "choices": st.integers(1, 4),
        "logprobs": st.booleans(),
        "top_logprobs": st.integers(0, 20),
        "store": st.just(value=True),
    },
}


@st.composite
def _settings(draw: DrawFn, family: Family) -> Request:
    """Say a few of the things that can be said besides items and tools."""
    known = _SHARED | _OWN[family]
    chosen = draw(st.lists(st.sampled_from(sorted(known)), max_size=4, unique=True))
    request = replace(Request(draw(some_text)), **{name: draw(known[name]) for name in chosen})
    # Chat is always asked for the usage of a stream; Responses tells it unasked.
    asks = request.stream and family == "completions"
    return replace(request, include_usage=True if asks else None)


@cache
def _tools(name: DialectName) -> SearchStrategy[tuple[Tool, ...]]:
    strict = {
        "chat": st.booleans(),
        "legacy": st.just(value=False),
        "responses": maybe(st.booleans()),
    }
    function: SearchStrategy[Tool] = st.builds(
        FunctionTool, names, maybe(texts), _SCHEMAS, strict[name]
    )
    plain = st.builds(CustomTool, names, maybe(texts))
    grammar = st.builds(
        CustomTool,
        names,
        maybe(texts),
        format=st.just("grammar"),
        syntax=st.just("lark"),
        definition=texts,
    )
    custom = plain | grammar
    several = st.lists(
        function if name == "legacy" else function | custom,
        max_size=3,
        unique_by=lambda tool: getattr(tool, "name", ""),
    ).map(tuple)
    if name == "legacy":
        return several
    # Chat declares its search beside the tools, so there it comes last.
    hosted: SearchStrategy[tuple[Tool, ...]] = st.sampled_from([(), (_WEB_SEARCH,)])
    return st.tuples(several, hosted).map(lambda both: both[0] + both[1])


_WEB_SEARCH = HostedTool(
    "web_search",
    Raw(
        b'{"type":"web_search","user_location":{"type":"approximate","city":"Gouda"},'
        b'"search_context_size":"low"}'
    ),
)


@st.composite
def _tool_choices(draw: DrawFn, name: DialectName, tools: tuple[Tool, ...]) -> ToolChoice | None:
    named = [
        NamedToolChoice(tool.name, "custom" if isinstance(tool, CustomTool) else "function")
        for tool in tools
        if not isinstance(tool, HostedTool)
    ]
    if not named:
        return None
    modes = [ToolChoiceMode("auto"), *([] if name == "legacy" else [ToolChoiceMode("required")])]
    if name == "responses" or not any(isinstance(tool, HostedTool) for tool in tools):
        # Chat has no way to declare a web search and not to want it.
        modes.append(ToolChoiceMode("none"))
    # Of a search Chat cannot say that it is not allowed.
    searches = name != "responses" and any(isinstance(tool, HostedTool) for tool in tools)
    others = (Raw(b'{"type":"web_search"}'),) if searches else ()
    allowed: list[ToolChoice] = [
        AllowedToolsChoice("auto", tuple(named), others),
        AllowedToolsChoice("required", (named[0],), others),
    ]
    return draw(maybe(st.sampled_from([*modes, *named, *([] if name == "legacy" else allowed)])))


@cache
def _parts(name: DialectName) -> SearchStrategy[Part]:
    """What a user can say besides plain text."""
    marks = maybe(st.just(Raw(b'{"type":"ephemeral"}')))
    text = st.builds(Text, texts, cache_breakpoint=marks)
    image = st.builds(Image, url=texts, detail=names, cache_breakpoint=marks)
    file = st.builds(File, data=maybe(texts), filename=maybe(texts), cache_breakpoint=marks)
    audio = st.builds(Audio, texts, names, marks)
    if name == "responses":
        other = OtherPart("responses", "input_video", Raw(b'{"type":"input_video","x":1.0}'))
        return st.one_of(text, image, file, st.just(other))
    other = OtherPart("completions", "video_url", Raw(b'{"type":"video_url","x":1.0}'))
    return st.one_of(text, image, file, audio, st.just(other))


@cache
def _messages(name: DialectName) -> SearchStrategy[Message]:
    """What anyone but the assistant says: just a text, or several parts."""
    roles: SearchStrategy[Role] = st.sampled_from(["user", "system", "developer"])
    plain = texts.map(lambda text: (Text(text),))
    return st.builds(Message, roles, plain | some(_parts(name), 3, 2))


@st.composite
def _chat_turn(draw: DrawFn, name: DialectName) -> list[Item]:
    """What an assistant thinks, says and calls, and what is answered to it."""
    thought = draw(st.none() | st.builds(Reasoning, content=st.tuples(some_text)))
    text, refusal = draw(texts), draw(texts)
    content: tuple[Part, ...] = (Text(text),) if text else ()
    content += (Refusal(refusal),) if refusal else ()
    kinds: tuple[CallKind, ...] = ("function",) if name == "legacy" else ("function", "custom")
    made = draw(calls(kinds=kinds)) if draw(st.booleans()) else ()
    made = made[:1] if name == "legacy" else made
    if not content and not made:
        content = (Text("so be it"),)
    items: list[Item] = [] if thought is None else [thought]
    items += [Message("assistant", content)] if content else []
    items += [replace(call, status=None) for call in made]
    outputs = texts if name == "legacy" else texts | some(st.builds(Text, texts), 3, 2)
    return items + [ToolOutput(call.call_id, draw(outputs)) for call in made]


@st.composite
def _chat_history(draw: DrawFn, name: DialectName) -> tuple[Item, ...]:
    turns = draw(st.lists(st.tuples(some(_messages(name), 2, 1), _chat_turn(name)), max_size=3))
    items = [item for before, turn in turns for item in (*before, *turn)]
    return tuple(_stable(items) if name == "legacy" else _unique(items))


def _unique(items: Sequence[Item]) -> Iterator[Item]:
    """Give each call an id that no other turn has."""
    ids: dict[str, str] = {}
    numbers = count()
    for item in items:
        match item:
            case ToolCall():
                ids[item.call_id] = f"call_{next(numbers)}_{item.call_id}"
                yield replace(item, call_id=ids[item.call_id])
            case ToolOutput(call_id=str(call_id)):
                yield replace(item, call_id=ids[call_id])
            case _:
                yield item


def _stable(items: Sequence[Item]) -> Iterator[Item]:
    """Give each call the id that it gets when its history, which has none, is read."""
    name_call = StableIds()
    last = ToolCall("", "")
    for item in items:
        match item:
            case ToolCall():
                last = replace(item, call_id=name_call(item.name, item.arguments))
                yield last
            case ToolOutput():
                yield replace(item, call_id=last.call_id, name=last.name)
            case _:
                yield item


@st.composite
def _responses_history(draw: DrawFn) -> tuple[Item, ...]:
    """Items in any order, but for outputs, which follow their calls sooner or later."""
    statuses = st.sampled_from([None, "completed", "incomplete"])
    said = st.builds(Text, some_text).map(lambda text: (text,)) | some(
        st.builds(Text, texts, some(_citations, 2, 1)) | _refusals, 3, 1
    )
    spoken = st.builds(Message, st.just("assistant"), said, status=statuses)
    sealed = st.builds(Reasoning, some(texts), some(texts), some_text, status=statuses)
    unknown: list[Item] = [ItemReference(""), OpaqueItem("responses", "web_search_call", Raw())]
    kinds: SearchStrategy[Item] = st.one_of(
        _messages("responses"), spoken, sealed, st.sampled_from(unknown)
    )
    items = draw(st.lists(kinds, max_size=4))
    for call in draw(st.just(()) | calls()):
        made = replace(call, namespace=draw(maybe(names)), status=draw(statuses))
        output = draw(texts | some(_parts("responses"), 2, 1))
        place = draw(st.integers(0, len(items)))
        items.insert(place, made)
        later = draw(st.integers(place + 1, len(items)))
        items.insert(later, ToolOutput(call.call_id, output, call.kind))
    # An id of a server's own is a matter of taste; two of the same would be one item.
    return tuple(
        _with_id(item, number) if draw(st.booleans()) or _needs_id(item) else item
        for number, item in enumerate(items)
    )


def _needs_id(item: Item) -> bool:
    return isinstance(item, ItemReference | OpaqueItem)


@st.composite
def requests(draw: DrawFn, name: DialectName) -> Request:
    """Give a request that a dialect can say with nothing lost."""
    tools = draw(_tools(name))
    parallel = {"chat": maybe(st.booleans()), "legacy": st.just(value=False)}
    declares = any(not isinstance(tool, HostedTool) for tool in tools)
    said = parallel.get(name, maybe(st.booleans())) if declares else st.none()
    store = ExtraField("responses", "store", Raw(b"false"), None)
    return replace(
        draw(_settings("responses" if name == "responses" else "completions")),
        items=draw(_responses_history() if name == "responses" else _chat_history(name)),
        tools=tools,
        tool_choice=draw(_tool_choices(name, tools)),
        parallel_tool_calls=draw(said),
        extras=(store,) if name == "responses" else (),
    )


# --- pieces -----------------------------------------------------------------------------------

# Where to cut: into pieces of one size, or at places of any kind.
cuttings: SearchStrategy[int | list[int]] = st.integers(1, 70) | st.lists(st.integers(0, 5000))
# LF after CR would make one line end of two, so those two are never mixed.
line_ends = st.sampled_from([
    (b"\n",), (b"\r\n",), (b"\r",), (b"\n", b"\r\n"), (b"\r", b"\r\n"), (b"\r\n", b"\r\n", b"\n"),
])  # fmt: skip


def cut(data: bytes, cutting: int | list[int]) -> list[bytes]:
    """Cut bytes as a network might."""
    if isinstance(cutting, int):
        return [data[place : place + cutting] for place in range(0, len(data), cutting)]
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cutting)})
    return [data[start:end] for start, end in pairwise(places)]


def with_line_ends(data: bytes, ends: Sequence[bytes]) -> bytes:
    """End the lines of a stream that has LF only in other ways, taken in turn."""
    lines = data.split(b"\n")
    return b"".join(line + end for line, end in zip(lines, cycle(ends), strict=False))[
        : -len(ends[(len(lines) - 1) % len(ends)])
    ]


@st.composite
def fragments(draw: DrawFn, text: str) -> list[str]:
    """Cut a text into pieces, none of them empty."""
    places = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=4))})
    return [text[start:end] for start, end in pairwise(places)]


def interleave(draw: DrawFn, queues: Sequence[Sequence[T]]) -> list[T]:
    """Mix queues, each in its own order; they begin one after the other."""
    mixed: list[T] = []
    left = [list(queue) for queue in queues]
    begun = 0
    while any(left):
        ready = [number for number, queue in enumerate(left[: begun + 1]) if queue]
        chosen = draw(st.sampled_from(ready)) if ready else begun
        begun = max(begun, chosen + 1)
        mixed += left[chosen][:1]
        del left[chosen][:1]
    return mixed


@st.composite
def events(draw: DrawFn, reply: Reply, overlapping: type[Struct] = Struct) -> list[Event]:
    """Tell a reply as events that the grammar allows: texts in pieces, blocks overlapping.

    Which items may overlap can be said. What comes whole is told at its end, so its place is its
    own only if nothing overlaps it.
    """
    first, *middle, last = to_events(reply)
    blocks: dict[BlockId, list[Event]] = {}
    for event in middle:
        match event:
            case Opened():
                blocks[event.index] = [event]
            case Delta():
                blocks[event.index] += draw(_split(event))
            case Closed():
                blocks[event.index].append(event)
            case _:
                raise AssertionError(event)
    items = [item for choice in reply.choices for item in choice.items]
    overlaps = [isinstance(one, overlapping) and not isinstance(one, OpaqueItem) for one in items]
    return [first, *overlap(draw, list(blocks.values()), overlaps), last]


def overlap(draw: DrawFn, queues: Sequence[Sequence[T]], overlaps: Sequence[bool]) -> list[T]:
    """Mix those neighbours among some queues that may overlap."""
    mixed: list[T] = []
    for may, found in groupby(zip(overlaps, queues, strict=True), key=lambda pair: pair[0]):
        run = [queue for _, queue in found]
        mixed += interleave(draw, run) if may else chain.from_iterable(run)
    return mixed


@st.composite
def _split(draw: DrawFn, delta: Delta) -> list[Event]:
    """Cut one delta into several; what goes with it goes with the first."""
    found = draw(fragments(delta.text)) or [""]
    rest = [replace(delta, text=text, logprobs=(), annotations=()) for text in found[1:]]
    return [replace(delta, text=found[0]), *rest]


# --- tellings of Chat -------------------------------------------------------------------------


class Style(Struct, frozen=True):
    """One way in which servers tell the calls of an answer."""

    # Gives the entries of `tool_calls` for one call, one for each chunk.
    tell: Callable[[int, ToolCall, list[str]], list[Wire]]
    # Whether pieces of several calls may alternate.
    mixes: bool = False
    # Whether the ids that were meant are told.
    ids: bool = True
    # Whether it can be read only if the arguments are one JSON object and names differ.
    plain: bool = True


def _entry(
    call: ToolCall, fragment: object = None, *, named: bool = False, **place: object
) -> Wire:
    inner: Wire = {"name": call.name} if named else {}
    if fragment is not None:
        inner["input" if call.kind == "custom" else "arguments"] = fragment
    return {**place, call.kind: inner}


def _whole(number: int, call: ToolCall, **more: object) -> Wire:
    return {"index": number, "id": call.call_id, "type": call.kind, **more}


def _legal(number: int, call: ToolCall, found: list[str]) -> list[Wire]:
    first = _entry(call, "", named=True, **_whole(number, call))
    return [first, *(_entry(call, text, index=number) for text in found)]


def _eager(number: int, call: ToolCall, found: list[str]) -> list[Wire]:
    first = _entry(call, "".join(found[:1]), named=True, **_whole(number, call))
    return [first, *(_entry(call, text, index=number) for text in found[1:])]


def _without_index(_: int, call: ToolCall, found: list[str]) -> list[Wire]:
    first = _entry(call, "".join(found[:1]), named=True, id=call.call_id, type=call.kind)
    return [first, *(_entry(call, text) for text in found[1:])]


def _ids_only(_: int, call: ToolCall, found: list[str]) -> list[Wire]:
    first = _entry(call, named=True, id=call.call_id)
    return [first, *(_entry(call, text, id=call.call_id) for text in found)]


def _all_repeated(number: int, call: ToolCall, found: list[str]) -> list[Wire]:
    return [_entry(call, text, named=True, **_whole(number, call)) for text in found or [""]]


def _told_twice(number: int, call: ToolCall, found: list[str]) -> list[Wire]:
    again = _entry(call, call.arguments, named=True, **_whole(number, call))
    return [*_legal(number, call, found), again]


def _one_index(_: int, call: ToolCall, found: list[str]) -> list[Wire]:
    return _legal(0, call, found)


def _one_index_without_ids(_: int, call: ToolCall, found: list[str]) -> list[Wire]:
    first = _entry(call, found[0], named=True, index=0)
    return [first, *(_entry(call, text, index=0) for text in found[1:])]


def _names_only(_: int, call: ToolCall, found: list[str]) -> list[Wire]:
    return [_entry(call, found[0], named=True), *(_entry(call, text) for text in found[1:])]


def _blanks(number: int, call: ToolCall, found: list[str]) -> list[Wire]:
    """Tell empty strings and nulls where there is nothing to tell (P101)."""
    more: Wire = {"index": number, "id": "", "type": None}
    blank = [{**more, call.kind: {"name": "", "arguments": text}} for text in found]
    return [_entry(call, None, named=True, **_whole(number, call)), *blank]


def _late_name(number: int, call: ToolCall, found: list[str]) -> list[Wire]:
    early = [_entry(call, text, index=number, id=call.call_id) for text in found[:-1]]
    last = _entry(call, found[-1] if found else "", named=True, **_whole(number, call))
    return [*early, last]


def _other_index(number: int, call: ToolCall, found: list[str]) -> list[Wire]:
    """Go on under an index that nobody opened (P099)."""
    first, *_ = _legal(number, call, [])
    return [first, *(_entry(call, text, index=100 + number) for text in found)]


def _as_object(number: int, call: ToolCall, _: list[str]) -> list[Wire]:
    """Tell arguments as the object itself."""
    return [_entry(call, Raw(call.arguments.encode()), named=True, **_whole(number, call))]


STYLES: dict[str, Style] = {
    "legal": Style(_legal, plain=False),
    "eager": Style(_eager, plain=False),
    "without index": Style(_without_index, plain=False),
    "one index": Style(_one_index, plain=False),
    "legal, mixed": Style(_legal, mixes=True),
    "ids only": Style(_ids_only, mixes=True),
    "all repeated": Style(_all_repeated, mixes=True),
    "blanks": Style(_blanks, mixes=True),
    "other index": Style(_other_index),
    "told twice": Style(_told_twice),
    "late name": Style(_late_name),
    "one index, no ids": Style(_one_index_without_ids, ids=False),
    "names only": Style(_names_only, ids=False),
    "as object": Style(_as_object),
}
LEGAL = STYLES["legal"]


def calls_told_in(style: Style) -> SearchStrategy[tuple[ToolCall, ...]]:
    """Give calls that can be told in a style without being mistaken for others."""
    if not style.plain:
        return calls()
    arguments = json_arguments
    if style.tell is _as_object:
        # A carriage return would end the line, and come out as another.
        arguments = arguments.map(lambda text: text.replace("\r", ""))
    return calls(arguments, kinds=("function",), distinct=True)


class Telling(Struct, frozen=True):
    """A stream, and the place at which it has said that the answer is whole."""

    stream: bytes
    finished: int


@st.composite
def chat_streams(draw: DrawFn, reply: Reply, style: Style = LEGAL) -> Telling:
    """Tell a reply as a Chat backend might."""
    (choice,) = reply.choices
    deltas = draw(_chat_deltas(choice.items, style))
    return draw(_chunks(reply, deltas))


@st.composite
def legacy_streams(draw: DrawFn, reply: Reply) -> Telling:
    """Tell a reply as a legacy backend might."""
    (choice,) = reply.choices
    deltas = draw(_said(choice.items))
    for call in (item for item in choice.items if isinstance(item, ToolCall)):
        found = draw(fragments(call.arguments))
        first: Wire = {"function_call": {"name": call.name, "arguments": ""}}
        more: list[Wire] = [{"function_call": {"arguments": text}} for text in found]
        deltas += [first, *more]
    return draw(_chunks(reply, deltas))


@st.composite
def _chat_deltas(draw: DrawFn, items: tuple[Item, ...], style: Style) -> list[Wire]:
    deltas = draw(_said(items))
    made = [item for item in items if isinstance(item, ToolCall)]
    cut_up = [draw(fragments(call.arguments)) for call in made]
    told = [style.tell(number, call, cut_up[number]) for number, call in enumerate(made)]
    entries = interleave(draw, told) if style.mixes else [one for each in told for one in each]
    nothing: list[Wire] = [{}, {"content": None}, {"content": ""}]
    beside = draw(st.sampled_from(nothing))
    return deltas + [beside | {"tool_calls": [entry]} for entry in entries]


@st.composite
def _said(draw: DrawFn, items: tuple[Item, ...]) -> list[Wire]:
    """Tell a message, its probabilities under a key of our own."""
    deltas: list[Wire] = []
    for part in (part for item in items if isinstance(item, Message) for part in item.content):
        match part:
            case Text():
                found = draw(fragments(part.text)) or [""]
                first: Wire = {"content": found[0]}
                if part.logprobs:
                    first["logprobs"] = {"content": part.logprobs, "refusal": None}
                more: list[Wire] = [{"content": text} for text in found[1:]]
                deltas += [first, *more]
                if part.annotations:
                    deltas.append({"annotations": [_citation(one) for one in part.annotations]})
            case Refusal():
                told: list[Wire] = [{"refusal": text} for text in draw(fragments(part.text))]
                deltas += told
            case _:
                raise AssertionError(part)
    return deltas


def _citation(annotation: Annotation) -> Wire:
    inner = {key: value for key, value in msgspec.to_builtins(annotation).items() if key != "type"}
    return {"type": "url_citation", "url_citation": inner}


@st.composite
def _chunks(draw: DrawFn, reply: Reply, deltas: list[Wire]) -> Telling:
    """Put deltas into chunks: with or without a preamble, an end of its own, usage, `[DONE]`."""
    head: Wire = {"id": reply.id, "created": reply.created, "model": reply.model}
    head |= {"object": "chat.completion.chunk", "service_tier": reply.service_tier}
    role: Wire = {"role": "assistant"}
    deltas = [role | delta for delta in deltas] if draw(st.booleans()) else [role, *deltas]
    (choice,) = reply.choices
    word = choice.finish.raw if choice.finish else ""
    if word in ("tool_calls", "function_call") and draw(st.booleans()):
        word = "stop"
    choices = [_chunk_choice(delta) for delta in deltas]
    if draw(st.booleans()):
        choices.append({"index": 0, "delta": {}})
    choices[-1]["finish_reason"] = word
    chunks: list[Wire] = [head | {"choices": [one]} for one in choices]
    if draw(st.booleans()):
        chunks.insert(0, {"choices": [], "id": "", "prompt_filter_results": []})
    return draw(_rendered(chunks, _write_usage(reply.usage)))


def _chunk_choice(delta: Wire) -> Wire:
    logprobs = delta.pop("logprobs", None)
    return {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": None}


def _write_usage(usage: Usage | None) -> Wire | None:
    if usage is None:
        return None
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


@st.composite
def _rendered(draw: DrawFn, chunks: list[Wire], usage: Wire | None) -> Telling:
    """Write chunks as events; the usage comes before the end or with it."""
    label = draw(st.sampled_from([b"data: ", b"data:"]))
    pause = draw(st.sampled_from([b"", b": ping\n\n", b"\n"]))
    last: list[Wire] = []
    if usage is not None and draw(st.booleans()):
        chunks[-1]["usage"] = usage
    elif usage is not None:
        last.append(chunks[-1] | {"choices": (), "usage": usage})
    rendered = [_event(label, chunk) for chunk in chunks]
    before = pause.join(rendered)
    after = b"".join([*(_event(label, chunk) for chunk in last)])
    after += draw(st.sampled_from([b"", b"data: [DONE]\n\n"]))
    # Without the empty line after it an event is whole all the same.
    return Telling(before + after, len(before) - 2)


def _event(label: bytes, chunk: Wire) -> bytes:
    first, *more = msgspec.json.encode(chunk).split(b"\n")
    return b"".join([label, first, *(b"\ndata: " + line for line in more), b"\n\n"])


# --- tellings of the Responses API ------------------------------------------------------------


class Care(Struct, frozen=True):
    """What a Responses backend troubles itself to tell."""

    deltas: bool = True
    dones: bool = True
    items: bool = True
    snapshot: bool = True
    ids: bool = True
    places: bool = True


CAREFUL = Care()
# Each leaves something out; what is left still says everything.
CARELESS = (
    Care(deltas=False),
    Care(dones=False),
    Care(items=False),
    Care(snapshot=False),
    Care(ids=False),
    Care(places=False),
    Care(deltas=False, dones=False),
    Care(deltas=False, dones=False, items=False),
    Care(dones=False, items=False),
    Care(dones=False, snapshot=False),
)


@st.composite
def responses_streams(draw: DrawFn, whole: bytes, care: Care = CAREFUL) -> Telling:
    """Tell a whole response, as it is written, as a stream."""
    response: Wire = msgspec.json.decode(whole)
    items: list[Wire] = msgspec.convert(response["output"], list[Wire])
    told = overlap(
        draw,
        [draw(_item_events(place, item, care)) for place, item in enumerate(items)],
        [item["type"] != "web_search_call" for item in items],
    )
    begun: Wire = response | {"status": "in_progress", "output": (), "usage": None}
    ended: Wire = response if care.snapshot else response | {"output": ()}
    status = response["status"]
    every: list[Wire] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *told,
        {"type": f"response.{status}", "response": ended},
    ]
    frames = [_named_event(event, number) for number, event in enumerate(every)]
    done = draw(st.sampled_from([b"", b"data: [DONE]\n\n"]))
    stream = b"".join(frames)
    return Telling(stream + done, len(stream) - 2)


def _named_event(event: Wire, number: int) -> bytes:
    data = msgspec.json.encode(event | {"sequence_number": number})
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), data)


@st.composite
def _item_events(draw: DrawFn, place: int, item: Wire, care: Care) -> list[Wire]:
    where: Wire = {"output_index": place} if care.places else {}
    added = item | {"status": "in_progress"}
    for empty in ("content", "summary"):
        if empty in item:
            added[empty] = []
    for text in ("arguments", "input"):
        if text in item:
            added[text] = ""
    told: list[Wire] = [{"type": "response.output_item.added", "item": added, **where}]
    if care.ids:
        where["item_id"] = item["id"]
    for told_part in _parts_of(item):
        told += draw(_part_events(told_part, where, care))
    if care.items:
        told.append({"type": "response.output_item.done", "item": item, **where})
    return told


class ToldPart(Struct, frozen=True):
    """One part of an item, and the words of its events."""

    words: str
    field: str
    text: str
    index: Wire
    part: Wire | None = None
    around: str = "response.content_part"


def _parts_of(item: Wire) -> Iterator[ToldPart]:
    for index, part in enumerate(msgspec.convert(item.get("content", []), list[Wire])):
        words = {"output_text": "output_text", "refusal": "refusal"}.get(
            str(part["type"]), "reasoning_text"
        )
        field = "refusal" if words == "refusal" else "text"
        place: Wire = {"content_index": index}
        yield ToldPart(f"response.{words}", field, str(part[field]), place, part)
    for index, part in enumerate(msgspec.convert(item.get("summary", []), list[Wire])):
        yield ToldPart(
            "response.reasoning_summary_text",
            "text",
            str(part["text"]),
            {"summary_index": index},
            part,
            "response.reasoning_summary_part",
        )
    for field, words in (
        ("arguments", "function_call_arguments"),
        ("input", "custom_tool_call_input"),
    ):
        if field in item:
            yield ToldPart(f"response.{words}", field, str(item[field]), {})


@st.composite
def _part_events(draw: DrawFn, told: ToldPart, where: Wire, care: Care) -> list[Wire]:
    place = where | told.index
    events: list[Wire] = []
    if told.part is not None and (care.deltas or care.dones):
        empty: Wire = told.part | {told.field: "", "annotations": (), "logprobs": ()}
        events.append({"type": f"{told.around}.added", "part": empty, **place})
    if care.deltas:
        deltas: list[Wire] = [
            {"type": f"{told.words}.delta", "delta": text, **place}
            for text in draw(fragments(told.text))
        ]
        events += deltas + _deltas_beside(told.part or {}, deltas, place)
    if care.dones:
        events.append({"type": f"{told.words}.done", told.field: told.text, **place})
        if told.part is not None:
            events.append({"type": f"{told.around}.done", "part": told.part, **place})
    return events


def _deltas_beside(part: Wire, deltas: list[Wire], place: Wire) -> list[Wire]:
    """Put the probabilities of a text with its first delta; give the events of its citations."""
    if part.get("logprobs"):
        deltas[0]["logprobs"] = part["logprobs"]
    kind = "response.output_text.annotation.added"
    found = msgspec.convert(part.get("annotations", []), list[Wire])
    return [
        {"type": kind, "annotation_index": number, "annotation": one, **place}
        for number, one in enumerate(found)
    ]


# --- what nobody meant ------------------------------------------------------------------------

_STRANGERS = st.sampled_from([
    *(b"null", b"true", b"0", b"-1", b"1.5", b"1e999", b"123456789012345678901234567890"),
    *(b'""', b'"x"', b"[]", b"{}", b"[[]]", b"[null]", b'{"type":"x"}', b'[{"type":"x"}]'),
    *(b'"\\ud800"', b'"\\u0000"', b'[{"type":"text","text":null}]', b'{"name":null}', b"[0, {}]"),
])  # fmt: skip
Place = tuple[str | int, ...]


@st.composite
def mangled(draw: DrawFn, data: bytes) -> bytes:
    """Change some bytes: other ones, none, or more of them."""
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(data)))
        gone = draw(st.integers(0, 3))
        come = draw(st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"\\", b"\n\n", b"\xff"]))
        data = data[:place] + come + data[place + gone :]
    return data


@st.composite
def rewritten(draw: DrawFn, body: bytes) -> bytes:
    """Put another JSON value somewhere into a body, or take a field out."""
    value = msgspec.json.decode(body)
    place = draw(st.sampled_from(list(_places(value))))
    return msgspec.json.encode(_changed(value, place, Raw(draw(_STRANGERS))))


def _places(value: object, place: Place = ()) -> Iterator[Place]:
    yield place
    match value:
        case dict():
            for name, inner in cast("Wire", value).items():
                yield from _places(inner, (*place, name))
        case list():
            for number, inner in enumerate(cast("list[object]", value)):
                yield from _places(inner, (*place, number))
        case _:
            return


def _changed(value: object, place: Place, other: Raw) -> object:
    if not place:
        return other
    first, *rest = place
    match value:
        case dict():
            fields = cast("Wire", value)
            return fields | {str(first): _changed(fields[str(first)], tuple(rest), other)}
        case list():
            changed = list(cast("list[object]", value))
            changed[int(first)] = _changed(changed[int(first)], tuple(rest), other)
            return changed
        case _:
            raise AssertionError(place)
