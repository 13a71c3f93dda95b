"""Strategies for streams that encode a given reply.

Servers leave out, repeat and reorder what they like. These streams do the same, as long as only one
reading remains.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
from typing import Literal, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.ir import types as ir
from adapters.ir.accumulator import to_events
from adapters.ir.events import BlockId, Closed, Delta, Event, Opened
from tests.strategies.replies import calls
from tests.strategies.values import Json, fragments, json_arguments

T = TypeVar("T")
_DONE = st.sampled_from([b"", b"data: [DONE]\n\n"])


class StreamSample(Struct, frozen=True):
    """A stream, and the offset after which the reply in it is complete."""

    stream: bytes
    complete_at: int


def interleave(draw: DrawFn, queues: Sequence[Sequence[T]]) -> list[T]:
    """Merge queues that begin one after the other, each in its own order."""
    merged: list[T] = []
    rest = [list(queue) for queue in queues]
    begun = 0
    while any(rest):
        ready = [number for number, queue in enumerate(rest[: begun + 1]) if queue]
        chosen = draw(st.sampled_from(ready)) if ready else begun
        begun = max(begun, chosen + 1)
        merged += rest[chosen][:1]
        del rest[chosen][:1]
    return merged


def _overlap(draw: DrawFn, queues: Sequence[Sequence[T]], may_overlap: Sequence[bool]) -> list[T]:
    """Concatenate queues, and interleave neighbors that may overlap."""
    merged: list[T] = []
    for overlaps, group in groupby(zip(may_overlap, queues, strict=True), key=lambda pair: pair[0]):
        run = [queue for _, queue in group]
        merged += interleave(draw, run) if overlaps else chain.from_iterable(run)
    return merged


@st.composite
def events(draw: DrawFn, reply: ir.Reply, overlapping: type[Struct] = Struct) -> list[Event]:
    """Draw legal events of a reply: texts in fragments, blocks of one item type overlapping.

    An opaque item is written when it closes, so its position is only certain without overlap.
    """
    first, *middle, last = to_events(reply)
    blocks: dict[BlockId, list[Event]] = {}
    for event in middle:
        match event:
            case Opened():
                blocks[event.index] = [event]
            case Delta():
                blocks[event.index] += draw(_split_delta(event))
            case Closed():
                blocks[event.index].append(event)
            case _:
                raise AssertionError(event)
    items = [item for choice in reply.choices for item in choice.items]
    may_overlap = [
        isinstance(item, overlapping) and not isinstance(item, ir.OpaqueItem) for item in items
    ]
    return [first, *_overlap(draw, list(blocks.values()), may_overlap), last]


@st.composite
def _split_delta(draw: DrawFn, delta: Delta) -> list[Event]:
    """Split a delta; its logprobs and annotations stay with the first fragment."""
    first, *rest = draw(fragments(delta.text)) or [""]
    others = [replace(delta, text=text, logprobs=(), annotations=()) for text in rest]
    return [replace(delta, text=first), *others]


# Returns the entries of `tool_calls` for one call, one for each chunk.
Encode = Callable[[int, ir.ToolCall, list[str]], list[Json]]


class CallStyle(Struct, frozen=True):
    """One way in which servers stream tool calls."""

    encode: Encode
    # Whether fragments of several calls may alternate.
    interleaved: bool = False
    # Whether the stream has the ids of the calls.
    has_ids: bool = True
    # Whether it is only unambiguous for JSON objects as arguments and for different names.
    needs_distinct_calls: bool = True


def _entry(
    call: ir.ToolCall, fragment: object = None, *, named: bool = False, **fields: object
) -> Json:
    inner: Json = {"name": call.name} if named else {}
    if fragment is not None:
        inner["input" if call.kind == "custom" else "arguments"] = fragment
    return {**fields, call.kind: inner}


def _identity(number: int, call: ir.ToolCall) -> Json:
    return {"index": number, "id": call.call_id, "type": call.kind}


def _encoder(
    first: Sequence[str],
    rest: Sequence[str] = (),
    start: Literal["fragment", "empty", "none"] = "fragment",
) -> Encode:
    """Encode a call as an entry with its name and others, which have these fields.

    The arguments in the first entry are the first fragment, an empty string or none.
    """

    def encode(number: int, call: ir.ToolCall, texts: list[str]) -> list[Json]:
        known = {name: (name, value) for name, value in _identity(number, call).items()}
        known |= {"one index": ("index", 0), "other index": ("index", 100 + number)}
        starts = {"fragment": "".join(texts[:1]), "empty": "", "none": None}
        others = texts[1:] if start == "fragment" else texts
        repeated = dict(known[name] for name in rest)
        return [
            {**dict(known[name] for name in first), **_entry(call, starts[start], named=True)},
            *({**repeated, **_entry(call, text)} for text in others),
        ]

    return encode


def _all_repeated(number: int, call: ir.ToolCall, texts: list[str]) -> list[Json]:
    return [_entry(call, text, named=True, **_identity(number, call)) for text in texts or [""]]


def _arguments_repeated(number: int, call: ir.ToolCall, texts: list[str]) -> list[Json]:
    repeat = _entry(call, call.arguments, named=True, **_identity(number, call))
    return [*STANDARD.encode(number, call, texts), repeat]


def _empty_fields(number: int, call: ir.ToolCall, texts: list[str]) -> list[Json]:
    """Send empty strings and nulls on continuations, as DashScope, GLM and vLLM do."""
    empty: Json = {"index": number, "id": "", "type": None}
    rest = [{**empty, call.kind: {"name": "", "arguments": text}} for text in texts]
    return [_entry(call, None, named=True, **_identity(number, call)), *rest]


def _late_name(number: int, call: ir.ToolCall, texts: list[str]) -> list[Json]:
    early = [_entry(call, text, index=number, id=call.call_id) for text in texts[:-1]]
    return [*early, _entry(call, "".join(texts[-1:]), named=True, **_identity(number, call))]


def _arguments_as_object(number: int, call: ir.ToolCall, _: list[str]) -> list[Json]:
    return [_entry(call, Raw(call.arguments.encode()), named=True, **_identity(number, call))]


_ALL = ("index", "id", "type")
_AT_ONE_INDEX = _encoder(["one index", "id", "type"], ["one index"], "empty")
STANDARD = CallStyle(_encoder(_ALL, ["index"], "empty"), needs_distinct_calls=False)
CALL_STYLES: dict[str, CallStyle] = {
    "standard": STANDARD,
    "arguments in first entry": CallStyle(_encoder(_ALL, ["index"]), needs_distinct_calls=False),
    "without index": CallStyle(_encoder(["id", "type"]), needs_distinct_calls=False),
    "one index": CallStyle(_AT_ONE_INDEX, needs_distinct_calls=False),
    "standard, interleaved": CallStyle(STANDARD.encode, interleaved=True),
    "only ids": CallStyle(_encoder(["id"], ["id"], "none"), interleaved=True),
    "all repeated": CallStyle(_all_repeated, interleaved=True),
    "empty fields": CallStyle(_empty_fields, interleaved=True),
    "continued under other index": CallStyle(_encoder(_ALL, ["other index"], "empty")),
    "arguments repeated": CallStyle(_arguments_repeated),
    "late name": CallStyle(_late_name),
    "one index, no ids": CallStyle(_encoder(["one index"], ["one index"]), has_ids=False),
    "only names": CallStyle(_encoder([]), has_ids=False),
    "arguments as object": CallStyle(_arguments_as_object),
}


def calls_for(style: CallStyle) -> SearchStrategy[tuple[ir.ToolCall, ...]]:
    """Return a strategy for calls that a style encodes without ambiguity."""
    if not style.needs_distinct_calls:
        return calls()
    arguments = json_arguments
    if style.encode is _arguments_as_object:
        # A carriage return would end the line of the event.
        arguments = arguments.map(lambda text: text.replace("\r", ""))
    return calls(arguments, kinds=("function",), distinct_names=True)


@st.composite
def chat_streams(draw: DrawFn, reply: ir.Reply, style: CallStyle = STANDARD) -> StreamSample:
    """Draw a stream of a Chat backend."""
    (choice,) = reply.choices
    tool_calls = [item for item in choice.items if isinstance(item, ir.ToolCall)]
    queues = [
        style.encode(number, call, draw(fragments(call.arguments)))
        for number, call in enumerate(tool_calls)
    ]
    entries = interleave(draw, queues) if style.interleaved else chain.from_iterable(queues)
    empty: list[Json] = [{}, {"content": None}, {"content": ""}]
    beside = draw(st.sampled_from(empty))
    deltas = draw(_message_deltas(choice.items))
    return draw(_chunks(reply, deltas + [beside | {"tool_calls": [entry]} for entry in entries]))


@st.composite
def legacy_streams(draw: DrawFn, reply: ir.Reply) -> StreamSample:
    """Draw a stream of a legacy backend."""
    (choice,) = reply.choices
    deltas = draw(_message_deltas(choice.items))
    for call in (item for item in choice.items if isinstance(item, ir.ToolCall)):
        deltas.append({"function_call": {"name": call.name, "arguments": ""}})
        for text in draw(fragments(call.arguments)):
            deltas.append({"function_call": {"arguments": text}})
    return draw(_chunks(reply, deltas))


@st.composite
def _message_deltas(draw: DrawFn, items: tuple[ir.Item, ...]) -> list[Json]:
    """Draw the deltas of a message; `_choice` moves its logprobs beside the delta."""
    deltas: list[Json] = []
    for part in (part for item in items if isinstance(item, ir.Message) for part in item.content):
        match part:
            case ir.Text():
                first, *rest = draw(fragments(part.text)) or [""]
                logprobs = {"content": part.logprobs, "refusal": None} if part.logprobs else None
                deltas.append({"content": first, "logprobs": logprobs})
                deltas.extend({"content": text} for text in rest)
                if part.annotations:
                    deltas.append({"annotations": [_citation(one) for one in part.annotations]})
            case ir.Refusal():
                deltas.extend({"refusal": text} for text in draw(fragments(part.text)))
            case _:
                raise AssertionError(part)
    return deltas


def _citation(annotation: ir.Annotation) -> Json:
    fields = {key: value for key, value in msgspec.to_builtins(annotation).items() if key != "type"}
    return {"type": "url_citation", "url_citation": fields}


@st.composite
def _chunks(draw: DrawFn, reply: ir.Reply, deltas: list[Json]) -> StreamSample:
    """Draw chunks, with or without a preamble, a separate finish, usage and `[DONE]`."""
    head: Json = {"id": reply.id, "created": reply.created, "model": reply.model}
    head |= {"object": "chat.completion.chunk", "service_tier": reply.service_tier}
    role: Json = {"role": "assistant"}
    deltas = [role | delta for delta in deltas] if draw(st.booleans()) else [role, *deltas]
    (choice,) = reply.choices
    reason = choice.finish.raw if choice.finish else ""
    if reason in ("tool_calls", "function_call") and draw(st.booleans()):
        reason = "stop"
    choices = [_choice(delta) for delta in deltas]
    if draw(st.booleans()):
        choices.append({"index": 0, "delta": {}})
    choices[-1]["finish_reason"] = reason
    chunks: list[Json] = [head | {"choices": [one]} for one in choices]
    if draw(st.booleans()):
        chunks.insert(0, {"choices": [], "id": "", "prompt_filter_results": []})
    return draw(_encode_chunks(chunks, _usage(reply.usage)))


def _choice(delta: Json) -> Json:
    logprobs = delta.pop("logprobs", None)
    return {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": None}


def _usage(usage: ir.Usage | None) -> Json | None:
    if usage is None:
        return None
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


@st.composite
def _encode_chunks(draw: DrawFn, chunks: list[Json], usage: Json | None) -> StreamSample:
    """Encode chunks as events, with the usage in the last one or in one of its own."""
    label = draw(st.sampled_from([b"data: ", b"data:"]))
    separator = draw(st.sampled_from([b"", b": ping\n\n", b"\n"]))
    after = b""
    if usage is not None and draw(st.booleans()):
        chunks[-1]["usage"] = usage
    elif usage is not None:
        after = _encode_event(label, chunks[-1] | {"choices": (), "usage": usage})
    stream = separator.join(_encode_event(label, chunk) for chunk in chunks)
    # An event counts as complete even without the empty line after it.
    return StreamSample(stream + after + draw(_DONE), len(stream) - 2)


def _encode_event(label: bytes, chunk: Json) -> bytes:
    first, *rest = msgspec.json.encode(chunk).split(b"\n")
    return b"".join([label, first, *(b"\ndata: " + line for line in rest), b"\n\n"])


class ResponsesStyle(Struct, frozen=True):
    """Which events and fields a Responses backend sends."""

    deltas: bool = True
    dones: bool = True
    items: bool = True
    snapshot: bool = True
    ids: bool = True
    indices: bool = True


COMPLETE = ResponsesStyle()
# Each leaves something out; the rest still determines the whole reply.
PARTIAL = (
    ResponsesStyle(deltas=False),
    ResponsesStyle(dones=False),
    ResponsesStyle(items=False),
    ResponsesStyle(snapshot=False),
    ResponsesStyle(ids=False),
    ResponsesStyle(indices=False),
    ResponsesStyle(deltas=False, dones=False),
    ResponsesStyle(deltas=False, dones=False, items=False),
    ResponsesStyle(dones=False, items=False),
    ResponsesStyle(dones=False, snapshot=False),
)


# How servers identify items wrongly; the event is numbered in its stream.
Identity = Callable[[Json, int], Json]


def _with_id(event: Json, new_id: str) -> Json:
    """Return an event with another id of its item, but not without an id."""
    changed = dict(event)
    if "item_id" in event:
        changed["item_id"] = new_id
    if "item" in event:
        changed["item"] = msgspec.convert(event["item"], Json) | {"id": new_id}
    if "response" in event:
        response = msgspec.convert(event["response"], Json)
        items = msgspec.convert(response["output"], list[Json])
        output = [item | {"id": f"{new_id}_{number}"} for number, item in enumerate(items)]
        changed["response"] = response | {"output": output}
    return changed


def _with_index(event: Json, index: int) -> Json:
    return event | {"output_index": index} if "output_index" in event else event


IDENTITIES: dict[str, Identity] = {
    "ids change with every event": lambda event, number: _with_id(event, f"item_{number:04}"),
    "one id for all items": lambda event, _: _with_id(event, "item_0"),
    "one index for all items": lambda event, _: _with_index(event, 0),
    "another index in every event": _with_index,
}


@st.composite
def responses_streams(
    draw: DrawFn,
    body: bytes,
    style: ResponsesStyle = COMPLETE,
    identity: Identity = lambda event, _: event,
) -> StreamSample:
    """Draw a stream of the response in this body."""
    response: Json = msgspec.json.decode(body)
    items: list[Json] = msgspec.convert(response["output"], list[Json])
    item_events = _overlap(
        draw,
        [draw(_item_events(index, item, style)) for index, item in enumerate(items)],
        [item["type"] != "web_search_call" for item in items],
    )
    started: Json = response | {"status": "in_progress", "output": (), "usage": None}
    ended: Json = response if style.snapshot else response | {"output": ()}
    all_events: list[Json] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
        *item_events,
        {"type": f"response.{response['status']}", "response": ended},
    ]
    stream = b"".join(
        _encode_named_event(identity(event, number), number)
        for number, event in enumerate(all_events)
    )
    return StreamSample(stream + draw(_DONE), len(stream) - 2)


def _encode_named_event(event: Json, number: int) -> bytes:
    data = msgspec.json.encode(event | {"sequence_number": number})
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), data)


_EMPTY_FIELDS: Json = {"content": [], "summary": [], "arguments": "", "input": ""}


@st.composite
def _item_events(draw: DrawFn, index: int, item: Json, style: ResponsesStyle) -> list[Json]:
    place: Json = {"output_index": index} if style.indices else {}
    empty = {name: value for name, value in _EMPTY_FIELDS.items() if name in item}
    added = item | {"status": "in_progress"} | empty
    item_events: list[Json] = [{"type": "response.output_item.added", "item": added, **place}]
    if style.ids:
        place["item_id"] = item["id"]
    for part in _streamed_parts(item):
        item_events += draw(_part_events(part, place, style))
    if style.items:
        item_events.append({"type": "response.output_item.done", "item": item, **place})
    return item_events


class StreamedPart(Struct, frozen=True):
    """A text of an item, and the names of its events."""

    event: str
    field: str
    text: str
    index: Json
    part: Json | None = None
    part_event: str = ""


_PARTS = {"content": "response.content_part", "summary": "response.reasoning_summary_part"}
_INPUTS = {"arguments": "function_call_arguments", "input": "custom_tool_call_input"}


def _streamed_parts(item: Json) -> Iterator[StreamedPart]:
    for name, part_event in _PARTS.items():
        for index, part in enumerate(msgspec.convert(item.get(name, []), list[Json])):
            kind = str(part["type"])
            event = "reasoning_summary_text" if kind == "summary_text" else kind
            text_field = "refusal" if kind == "refusal" else "text"
            place: Json = {f"{name}_index": index}
            text = str(part[text_field])
            yield StreamedPart(f"response.{event}", text_field, text, place, part, part_event)
    for name, event in _INPUTS.items():
        if name in item:
            yield StreamedPart(f"response.{event}", name, str(item[name]), {})


@st.composite
def _part_events(
    draw: DrawFn, streamed: StreamedPart, item_place: Json, style: ResponsesStyle
) -> list[Json]:
    place = item_place | streamed.index
    part = streamed.part
    part_events: list[Json] = []
    if part is not None and (style.deltas or style.dones):
        empty: Json = part | {streamed.field: "", "annotations": (), "logprobs": ()}
        part_events.append({"type": f"{streamed.part_event}.added", "part": empty, **place})
    if style.deltas:
        deltas: list[Json] = [
            {"type": f"{streamed.event}.delta", "delta": text, **place, **_logprobs(streamed)}
            for text in draw(fragments(streamed.text))
        ]
        part_events += deltas + _annotation_events(part or {}, deltas, place)
    if style.dones:
        done: Json = {"type": f"{streamed.event}.done", streamed.field: streamed.text}
        part_events.append(done | place | _logprobs(streamed))
        if part is not None:
            part_events.append({"type": f"{streamed.part_event}.done", "part": part, **place})
    return part_events


def _logprobs(streamed: StreamedPart) -> Json:
    return {"logprobs": []} if streamed.event == "response.output_text" else {}


def _annotation_events(part: Json, deltas: list[Json], place: Json) -> list[Json]:
    """Add the logprobs of a text to its first delta; return the events of its citations."""
    if part.get("logprobs"):
        deltas[0]["logprobs"] = part["logprobs"]
    annotations = msgspec.convert(part.get("annotations", []), list[Json])
    kind = "response.output_text.annotation.added"
    return [
        {"type": kind, "annotation_index": number, "annotation": annotation, **place}
        for number, annotation in enumerate(annotations)
    ]
