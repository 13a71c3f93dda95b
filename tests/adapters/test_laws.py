"""The laws: what holds for everything that can be said, however it comes.

Numbers of the laws stand above the tests that keep them. What a law compares, it compares as values
of the hub; where two dialects cannot help to say a thing differently, `canonical` and
`canonical_reply` say which differences do not count, and no other place does.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import permutations, product
from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn, SearchStrategy
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

import adapters
from adapters.chat import wire as chat_wire
from adapters.chat.parts import TEXT_SEPARATOR
from adapters.chat.wire import CallDelta, Chunk, MessageDelta
from adapters.dialect import ReplyContext, ReplyOptions, translate_error_param
from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import (
    Channel,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
    check_order,
)
from adapters.ir.normalize import merge_choices, without_content, without_paths
from adapters.ir.types import (
    EMPTY_REQUEST,
    Annotation,
    CacheOptions,
    Choice,
    Citation,
    Extras,
    Finish,
    FunctionTool,
    Image,
    Item,
    Message,
    NamedToolChoice,
    OpaqueItem,
    Part,
    Reasoning,
    Refusal,
    Reply,
    Request,
    ResponseFormat,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolChoiceMode,
    ToolOutput,
    Usage,
)
from adapters.legacy import wire as legacy_wire
from adapters.losses import Losses
from adapters.responses import wire as responses_wire
from adapters.sse import Decoder, encode
from adapters.translation.pairing import pair_tool_calls
from adapters.wire.json_object import string_or_raw_json
from adapters.wire.json_schema import EMPTY_SCHEMA, is_strict
from tests.corpus import (
    ERRORS,
    REPLIES,
    REQUESTS,
    STREAMS,
    ErrorCase,
    ReplyCase,
    RequestCase,
    StreamCase,
    on_wire,
)
from tests.exchange import Exchange
from tests.strategies import (
    ABLE,
    CAREFUL,
    CARELESS,
    DIALECT_NAMES,
    STYLES,
    Care,
    DialectName,
    Style,
    Telling,
    any_arguments,
    calls,
    calls_told_in,
    chat_items,
    chat_streams,
    cut,
    cuttings,
    events,
    fragments,
    items_of,
    legacy_streams,
    line_ends,
    mangled,
    replies,
    requests,
    responses_streams,
    rewritten,
    some_text,
    with_line_ends,
)

each_dialect = pytest.mark.parametrize("name", DIALECT_NAMES)
each_style = pytest.mark.parametrize("style", list(STYLES.values()), ids=list(STYLES))
each_care = pytest.mark.parametrize(
    "care",
    [CAREFUL, *CARELESS],
    ids=lambda care: " ".join(f"no-{name}" for name, told in asdict(care).items() if not told),
)
# Client and backend, or where something goes first and second: of two dialects, or of any.
each_pair = pytest.mark.parametrize(("first", "second"), list(permutations(DIALECT_NAMES, 2)))
every_pair = pytest.mark.parametrize(("client", "backend"), list(product(DIALECT_NAMES, repeat=2)))

# For what is tried for many a pair.
few = settings(max_examples=25)

# Thoughts are told as thoughts, so that they can come back as what they were.
PLAINLY = ReplyOptions(reasoning_text=True)


# --- reading and writing ----------------------------------------------------------------------


def around(request: Request = EMPTY_REQUEST) -> ReplyContext:
    return ReplyContext(request, adapters.deterministic_ids(), Losses(None), PLAINLY)


def exchange(client: str, backend: str, asked: Request = EMPTY_REQUEST) -> Exchange:
    return Exchange(
        client, backend, ids=adapters.deterministic_ids(), asked=asked, reply_options=PLAINLY
    )


def write_request(name: str, request: Request) -> bytes:
    losses = Losses(None)
    written = adapters.dialect(name).write_request(request, ABLE, losses)
    assert list(losses) == []
    return written


def read_request(name: str, body: bytes) -> Request:
    return without_paths(
        adapters.dialect(name).read_request(adapters.parse_body(body), Losses(None))
    )


def write_reply(name: str, reply: Reply) -> bytes:
    surroundings = around()
    written = adapters.dialect(name).write_reply(reply, surroundings)
    assert list(surroundings.losses) == []
    return encode(written)


def read_reply(name: str, body: bytes) -> Reply:
    return adapters.dialect(name).read_reply(body, around())


def write_stream(name: str, told: Sequence[Event], asked: Request = EMPTY_REQUEST) -> bytes:
    surroundings = around(asked)
    writer = adapters.dialect(name).write_stream(surroundings)
    stream = b"".join(piece for event in told for piece in writer.feed(event))
    # Even an answer that says nothing has to be told.
    assert [loss for loss in surroundings.losses if loss.action != "invented"] == []
    return stream


def read_stream(name: str, pieces: Sequence[bytes]) -> list[Event]:
    """Read a stream, and hold what is read to the grammar."""
    decoder = Decoder()
    reader = adapters.dialect(name).read_stream(around())
    frames = [frame for piece in pieces for frame in decoder.feed(piece)] + decoder.flush()
    events = [event for frame in frames for event in reader.feed(frame)]
    return check_order([*events, *reader.flush()])


def run(machine: adapters.ReplyTranslator, pieces: Sequence[bytes]) -> bytes:
    return b"".join([*(machine.feed(piece) for piece in pieces), machine.finish(started=True).body])


def tellings(
    name: DialectName, reply: Reply, style: Style = STYLES["legal"], care: Care = CAREFUL
) -> SearchStrategy[Telling]:
    """Streams of a dialect that mean a reply."""
    match name:
        case "chat":
            return chat_streams(reply, style)
        case "legacy":
            return legacy_streams(reply)
        case "responses":
            return responses_streams(write_reply(name, reply), care)


# --- comparing --------------------------------------------------------------------------------


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    match value:
        case Raw():
            yield path, bytes(value)
        case Struct():
            yield path, type(value).__name__
            for field in msgspec.structs.fields(value):
                inner = getattr(value, field.name)
                # Why an extra matters is for people to read.
                if inner != field.default and field.name != "drop_reason":
                    yield from leaves(inner, f"{path}.{field.name}")
        case tuple() | list():
            for number, one in enumerate(cast("Sequence[object]", value)):
                yield from leaves(one, f"{path}[{number}]")
        case _:
            yield path, value


def shown(value: object) -> dict[str, object]:
    """Give all that a value says, each under its path, so that a difference is a short one."""
    return dict(leaves(value))


def canonical(request: Request) -> Request:
    """Give a request less what two dialects cannot help to say differently. These do not count:

    - paths, ids and statuses of items, the name of an output, which its call has too, and how an
      output says which call it answers;
    - how a turn is put together. Chat groups: what an assistant thought, said and called before
      anybody spoke is one message, with an empty line between what were several; the answers to
      its calls follow it at once, in the order of the calls;
    - where text is cut into parts, and whether it is a string or a part; empty texts, and
      assistants who say nothing;
    - whether the leading system message is called instructions, and a system a developer;
    - what is in force when nobody speaks: no penalties, one answer, not streamed, a schema without
      properties, a picture of any detail, strict where the schema is;
    - what is asked for as a matter of course (usage), and what says nothing without tools;
    - "some tool", where there is just one;
    - extras that nobody misses.
    """
    request = without_paths(pair_tool_calls(request, Losses(None)))
    said = [Message("system", (Text(request.instructions),))] if request.instructions else []
    names = [tool.name for tool in request.tools if isinstance(tool, FunctionTool)]
    choice: ToolChoice | None = request.tool_choice
    if choice == ToolChoiceMode("required") and len(names) == len(request.tools) == 1:
        choice = NamedToolChoice(names[0])
    return replace(
        request,
        instructions=None,
        items=tuple(grouped([*said, *map(bare_item, request.items)])),
        tools=tuple(map(plain_tool, request.tools)),
        tool_choice=choice if request.tools else None,
        parallel_tool_calls=request.parallel_tool_calls if request.tools else None,
        presence_penalty=request.presence_penalty or None,
        frequency_penalty=request.frequency_penalty or None,
        choices=None if request.choices == 1 else request.choices,
        logprobs=request.logprobs or None,
        top_logprobs=request.top_logprobs or None,
        format=plain_format(request.format),
        stream=request.stream or None,
        include_usage=None,
        include_obfuscation=request.include_obfuscation if request.stream else None,
        store=request.store or None,
        prompt_cache_options=plain_options(request.prompt_cache_options),
        extras=missed(request.extras),
    )


def missed(extras: Extras) -> Extras:
    kept = [extra for extra in extras if extra.severity is not None]
    return tuple(sorted(kept, key=lambda extra: extra.name))


def bare_item(item: Item) -> Item:
    match item:
        case Message():
            role = "system" if item.role == "developer" else item.role
            content = joined(item.content)
            return Message(role, content, item.continues, extras=missed(item.extras))
        case ToolCall():
            return replace(item, item_id=None, status=None, extras=missed(item.extras))
        case ToolOutput():
            parts = (Text(item.output),) if isinstance(item.output, str) else item.output
            return ToolOutput(item.call_id, joined(parts), item.kind, extras=missed(item.extras))
        case Reasoning():
            thought = (*item.summary, *item.content)
            return Reasoning(thought, (), item.encrypted, extras=missed(item.extras))
        case _:
            return item


def joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Join texts that stand side by side, and refusals; leave out what is empty."""
    found: list[Part] = []
    for part in parts:
        match found[-1] if found else None, part:
            case Text() as last, Text() if not last.cache_breakpoint:
                found[-1] = replace(
                    part,
                    text=last.text + part.text,
                    annotations=last.annotations + moved(part.annotations, len(last.text)),
                    logprobs=last.logprobs + part.logprobs,
                    extras=missed(last.extras + part.extras),
                )
            case Refusal(text=text), Refusal():
                found[-1] = Refusal(text + part.text)
            case _, Image():
                found.append(replace(part, detail=part.detail or "auto"))
            case _:
                found.append(part)
    return tuple(part for part in found if part not in (Text(""), Refusal("")))


def moved(annotations: Sequence[Annotation], places: int) -> tuple[Annotation, ...]:
    """Let citations point at the same words of a longer text."""
    return tuple(
        replace(one, start_index=one.start_index + places, end_index=one.end_index + places)
        if isinstance(one, Citation)
        else one
        for one in annotations
    )


def grouped(items: Sequence[Item]) -> Iterator[Item]:
    """Put each turn of the assistant together, and the answers to its calls behind it."""
    outputs = {item.call_id: item for item in items if isinstance(item, ToolOutput)}
    turn: list[Item] = []
    for item in (item for item in [*items, Message("user")] if not isinstance(item, ToolOutput)):
        match item:
            case Message(role="assistant") | ToolCall() | Reasoning() | OpaqueItem():
                turn.append(item)
            case _:
                yield from one_turn(turn)
                made = [one.call_id for one in turn if isinstance(one, ToolCall)]
                yield from (outputs[call_id] for call_id in made if call_id in outputs)
                turn = []
                yield item


def one_turn(items: Sequence[Item]) -> Iterator[Item]:
    """Tell first what was thought, then what was said, then the calls, then the rest."""
    yield from (item for item in items if isinstance(item, Reasoning))
    spoken = [item for item in items if isinstance(item, Message) and joined(item.content)]
    if spoken:
        yield one_message(spoken)
    yield from (item for item in items if isinstance(item, ToolCall))
    yield from (item for item in items if not isinstance(item, Reasoning | Message | ToolCall))


def one_message(messages: Sequence[Message]) -> Message:
    parts: list[Part] = []
    for message in messages:
        speaks = any(isinstance(part, Text) and part.text for part in message.content)
        if speaks and not message.continues and any(isinstance(part, Text) for part in parts):
            parts.append(Text(TEXT_SEPARATOR))
        parts += message.content
    said = [part for part in parts if isinstance(part, Text)]
    declined = [part for part in parts if not isinstance(part, Text)]
    extras = missed(tuple(extra for message in messages for extra in message.extras))
    content = joined([*said, *declined])
    return replace(messages[0], content=content, continues=False, extras=extras)


def plain_tool(tool: Tool) -> Tool:
    if not isinstance(tool, FunctionTool):
        return tool
    strict = is_strict(tool.parameters) if tool.strict is None else tool.strict
    said = tool.parameters is not None and bytes(tool.parameters) != b"{}"
    return replace(tool, parameters=tool.parameters if said else EMPTY_SCHEMA, strict=strict)


def plain_format(form: ResponseFormat | None) -> ResponseFormat | None:
    if form is None or form.kind != "json_schema":
        return form
    return replace(form, name=form.name or "response")


def plain_options(options: CacheOptions | None) -> CacheOptions | None:
    return None if options == CacheOptions() else options


def canonical_reply(reply: Reply) -> Reply:
    """Give a reply less what two dialects cannot help to say differently. These do not count:

    - the prefix of its id, and the ids of its items;
    - how a turn is put together, as for a request, and whether it came as several choices;
    - the word for the finish, and that calls are a reason of their own;
    - the tier that serves whoever asked for none; extras that nobody misses.
    """
    reply = merge_choices(reply)
    tier = None if reply.service_tier in ("default", "auto") else reply.service_tier
    usage = reply.usage and replace(reply.usage, extras=missed(reply.usage.extras))
    return replace(
        reply,
        id=reply.id.removeprefix("chatcmpl-").removeprefix("resp_"),
        choices=tuple(map(canonical_choice, reply.choices)),
        usage=usage,
        service_tier=tier,
        extras=missed(reply.extras),
    )


def canonical_choice(choice: Choice) -> Choice:
    reason = choice.finish.reason if choice.finish else "stop"
    items = tuple(one_turn([bare_item(item) for item in choice.items]))
    return Choice(items, Finish("stop" if reason == "calls" else reason, ""))


# --- 1: what is written is read as it was meant -----------------------------------------------


@each_dialect
@given(data=st.data())
def test_a_request_is_read_as_it_was_written(name: DialectName, data: DataObject) -> None:
    request = data.draw(requests(name))
    assert shown(read_request(name, write_request(name, request))) == shown(request)


@each_dialect
@given(data=st.data())
def test_a_reply_is_read_as_it_was_written(name: DialectName, data: DataObject) -> None:
    reply = data.draw(replies(name))
    assert shown(read_reply(name, write_reply(name, reply))) == shown(reply)


@each_dialect
@given(data=st.data())
def test_a_stream_is_read_as_it_was_written(name: DialectName, data: DataObject) -> None:
    reply = unadorned(data.draw(replies(name)))
    asked = Request(include_usage=reply.usage is not None)
    # Chat has one message, which is told before the calls.
    overlapping = Struct if name == "responses" else ToolCall
    stream = write_stream(name, data.draw(events(reply, overlapping)), asked)
    assert adapters.check(name, stream) == []
    assert shown(accumulate(read_stream(name, [stream]))) == shown(reply)


@pytest.mark.parametrize("name", ["chat", "legacy"])
def test_a_citation_stays_with_its_text(name: DialectName) -> None:
    cited = Text("said", (Citation("https://example.com", "Example", 0, 4),))
    items: tuple[Item, ...] = (
        Message("assistant", (cited, Refusal("no")), status="completed"),
        ToolCall("call_0001", "f", "{}", status="completed"),
    )
    finish = Finish("calls", "function_call" if name == "legacy" else "tool_calls")
    reply = Reply("chatcmpl-1", "m", 0, (Choice(items, finish),))
    stream = write_stream(name, list(to_events(reply)), Request())
    assert shown(accumulate(read_stream(name, [stream]))) == shown(reply)


def unadorned(reply: Reply) -> Reply:
    """Leave out the citations and probabilities of what is said."""
    return replace(
        reply,
        choices=tuple(
            replace(choice, items=tuple(map(unadorned_item, choice.items)))
            for choice in reply.choices
        ),
    )


def unadorned_item(item: Item) -> Item:
    if not isinstance(item, Message):
        return item
    content = (Text(part.text) if isinstance(part, Text) else part for part in item.content)
    return replace(item, content=tuple(content))


@each_dialect
def test_what_stands_for_a_text_may_be_meant(name: DialectName) -> None:
    items: tuple[Item, ...] = (
        Message("assistant", (Text("said"),), item_id="\0", status="completed"),
        ToolCall("call_0001", "\0", "{}", item_id="\0\0", status="completed"),
    )
    word = "completed" if name == "responses" else "stop"
    reply = Reply(
        "", "\0", 0, (Choice(items, Finish("stop", word)),), usage=Usage(1, 1, 2), service_tier="\0"
    )
    exchanged = exchange(name, "responses").reply_as_stream(write_reply("responses", reply)).body
    assert adapters.check(name, exchanged) == []
    read = canonical_reply(accumulate(read_stream(name, [exchanged])))
    assert shown(read) == shown(canonical_reply(replace(reply, id=read.id)))


# --- 2: what is read keeps to the grammar, however it is cut ----------------------------------


@each_style
@few
@given(data=st.data(), cutting=cuttings, ends=line_ends)
def test_chat_calls_are_told_apart(
    style: Style, data: DataObject, cutting: int | list[int], ends: tuple[bytes, ...]
) -> None:
    reply = data.draw(replies("chat", chat_items(calls_told_in(style))))
    told = data.draw(chat_streams(reply, style))
    read = accumulate(read_stream("chat", cut(with_line_ends(told.stream, ends), cutting)))
    meant = [call_told(item, style) for item in reply.choices[0].items]
    assert shown([call_told(item, style) for item in read.choices[0].items]) == shown(meant)


def call_told(item: Item, style: Style) -> Item:
    """Give an item, without its id if it is a call and the style tells none."""
    return replace(item, call_id="") if isinstance(item, ToolCall) and not style.ids else item


@each_care
@few
@given(data=st.data(), cutting=cuttings, ends=line_ends)
def test_what_a_responses_backend_leaves_out_is_not_missed(
    care: Care, data: DataObject, cutting: int | list[int], ends: tuple[bytes, ...]
) -> None:
    items = items_of("responses") if care.items else items_of("responses").map(streamable)
    reply = data.draw(replies("responses", items))
    # What goes with a text goes with its deltas.
    reply = reply if care.deltas else unadorned(reply)
    told = data.draw(responses_streams(write_reply("responses", reply), care))
    read = accumulate(read_stream("responses", cut(with_line_ends(told.stream, ends), cutting)))
    assert shown(read) == shown(reply)


def streamable(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Leave out what can only come whole."""
    return tuple(item for item in items if not isinstance(item, OpaqueItem))


@given(case=st.sampled_from(STREAMS), cutting=cuttings, ends=line_ends)
def test_the_corpus_is_read_the_same_however_it_is_cut(
    case: StreamCase, cutting: int | list[int], ends: tuple[bytes, ...]
) -> None:
    plain = case.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    pieces = cut(with_line_ends(plain, ends), cutting)
    assert shown(read_stream(case.dialect, pieces)) == shown(read_stream(case.dialect, [plain]))


@every_pair
@few
@given(data=st.data(), cutting=cuttings, ends=line_ends)
def test_how_a_stream_is_cut_changes_nothing_of_what_is_told(
    client: str,
    backend: DialectName,
    data: DataObject,
    cutting: int | list[int],
    ends: tuple[bytes, ...],
) -> None:
    told = data.draw(tellings(backend, data.draw(replies(backend))))
    pieces = cut(with_line_ends(told.stream, ends), cutting)
    whole = run(exchange(client, backend).stream(), [told.stream])
    assert run(exchange(client, backend).stream(), pieces) == whole
    if client == backend:
        assert whole == told.stream


# --- 3: a stream and its whole twin are one reply ---------------------------------------------


@each_dialect
@given(data=st.data())
def test_a_stream_folds_to_its_whole_twin(name: DialectName, data: DataObject) -> None:
    reply = data.draw(replies(name))
    told = data.draw(tellings(name, reply))
    streamed = canonical_reply(accumulate(read_stream(name, [told.stream])))
    assert shown(streamed) == shown(canonical_reply(read_reply(name, write_reply(name, reply))))


@every_pair
@few
@given(data=st.data())
def test_a_reply_is_told_as_a_stream(client: str, backend: DialectName, data: DataObject) -> None:
    body = write_reply(backend, unadorned(data.draw(replies(backend))))
    told = exchange(client, backend).reply_as_stream(body)
    assert adapters.check(client, told.body) == []
    heard = canonical_reply(accumulate(read_stream(client, [told.body])))
    whole = exchange(client, backend).reply(body)
    assert shown(heard) == shown(canonical_reply(with_usage(read_reply(client, whole.body), heard)))
    assert set(whole.losses) <= {*told.losses}


@every_pair
@few
@given(data=st.data())
def test_a_stream_is_collected_to_its_whole_twin(
    client: str, backend: DialectName, data: DataObject
) -> None:
    reply = data.draw(replies(backend))
    told = data.draw(tellings(backend, reply))
    exchanged = exchange(client, backend)
    collector = exchanged.collect()
    collector.feed(told.stream)
    collected = collector.finish()
    whole = exchange(client, backend).reply(write_reply(backend, reply))
    assert collected.status == whole.status
    gathered = canonical_reply(read_reply(client, collected.body))
    assert shown(gathered) == shown(canonical_reply(read_reply(client, whole.body)))
    assert set(whole.losses) <= {*collected.losses}


def with_usage(reply: Reply, told: Reply) -> Reply:
    """Let a usage stand that was invented because a stream must have one."""
    return replace(reply, usage=reply.usage or told.usage)


# --- 4: there and back again, or a loss -------------------------------------------------------


@each_pair
@few
@given(data=st.data())
def test_a_request_comes_back_or_says_what_it_lost(
    first: DialectName, second: DialectName, data: DataObject
) -> None:
    assert_comes_back(first, second, write_request(first, data.draw(requests(first))))


@each_pair
@few
@given(data=st.data())
def test_a_reply_comes_back_or_says_what_it_lost(
    first: DialectName, second: DialectName, data: DataObject
) -> None:
    assert_reply_comes_back(first, second, write_reply(first, data.draw(replies(first))))


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
def test_a_request_of_the_corpus_comes_back_or_says_what_it_lost(case: RequestCase) -> None:
    for other in case.others():
        assert_comes_back(case.dialect, other, on_wire(case.body))


@pytest.mark.parametrize("case", REPLIES, ids=lambda case: case.name)
def test_a_reply_of_the_corpus_comes_back_or_says_what_it_lost(case: ReplyCase) -> None:
    for other in case.others():
        assert_reply_comes_back(case.dialect, other, on_wire(case.body))


def assert_comes_back(first: str, second: str, body: bytes) -> None:
    try:
        there = exchange(first, second).request(body)
        back = exchange(second, first).request(there.body)
    except adapters.DragomanError:
        # Refused: nothing was lost in silence.
        return
    meant = canonical(read_request(first, body))
    returned = canonical(read_request(first, back.body))
    if "legacy" in (first, second):
        meant, returned = (
            replace(one, items=tuple(renumbered(one.items))) for one in (meant, returned)
        )
    if second == "legacy" and meant.parallel_tool_calls is None:
        # One call at a time is all that it can do, and all that it says when read.
        returned = replace(returned, parallel_tool_calls=None)
    if shown(meant) != shown(returned):
        assert there.losses + back.losses, difference(meant, returned)


def assert_reply_comes_back(first: str, second: str, body: bytes) -> None:
    try:
        there = exchange(second, first).reply(body)
    except adapters.InvalidReplyError:
        return
    if there.status != 200:
        return
    back = exchange(first, second).reply(there.body)
    meant = canonical_reply(read_reply(first, body))
    returned = canonical_reply(read_reply(first, back.body))
    if "legacy" in (first, second):
        meant, returned = renumbered_reply(meant), renumbered_reply(returned)
    # Who has no name or time of its own gets one.
    meant = replace(meant, id=meant.id or returned.id, created=meant.created or returned.created)
    if shown(meant) != shown(returned):
        assert there.losses + back.losses, difference(meant, returned)


def renumbered(items: Sequence[Item]) -> Iterator[Item]:
    """Name calls by their order, and outputs after them: legacy has no ids."""
    numbers: dict[str | None, str] = {}
    for item in items:
        match item:
            case ToolCall():
                numbers[item.call_id] = f"call {len(numbers)}"
                yield replace(item, call_id=numbers[item.call_id])
            case ToolOutput():
                yield replace(item, call_id=numbers.get(item.call_id))
            case _:
                yield item


def renumbered_reply(reply: Reply) -> Reply:
    choices = (replace(choice, items=tuple(renumbered(choice.items))) for choice in reply.choices)
    return replace(reply, choices=tuple(choices))


def difference(meant: object, returned: object) -> str:
    one, other = shown(meant), shown(returned)
    paths = [path for path in {**one, **other} if one.get(path) != other.get(path)]
    return "\n".join(f"{path}: {one.get(path)!r} -> {other.get(path)!r}" for path in paths)


# --- 5: what is written is legal --------------------------------------------------------------


@each_pair
@few
@given(data=st.data())
def test_every_stream_that_is_told_is_legal(
    first: DialectName, second: DialectName, data: DataObject
) -> None:
    style = data.draw(st.sampled_from(list(STYLES.values())))
    items = chat_items(calls_told_in(style)) if second == "chat" else None
    care = data.draw(st.sampled_from([CAREFUL, *CARELESS]))
    told = data.draw(tellings(second, data.draw(replies(second, items)), style, care))
    stream = run(exchange(first, second).stream(), [told.stream])
    assert adapters.check(first, stream) == []
    if first == "responses":
        assert_numbered(stream)


@each_pair
@few
@given(data=st.data())
def test_every_broken_stream_that_is_told_is_legal(
    first: DialectName, second: DialectName, data: DataObject
) -> None:
    told = data.draw(tellings(second, data.draw(replies(second))))
    broken = data.draw(mangled(told.stream[: data.draw(st.integers(0, len(told.stream)))]))
    stream = run(exchange(first, second).stream(), [broken])
    assert adapters.check(first, stream) == []
    if first == "responses":
        assert_numbered(stream)


@pytest.mark.parametrize("client", DIALECT_NAMES)
@pytest.mark.parametrize(
    "pieces",
    [
        # Two calls, and neither is whole.
        [
            b'"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}',
            b'"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]}',
            b'"index":0,"delta":{},"finish_reason":"length"',
        ],
        # Two answers where one was asked for, and neither is whole.
        [
            b'"index":0,"delta":{"content":"one"},"finish_reason":"length"',
            b'"index":1,"delta":{"content":"two"},"finish_reason":"length"',
        ],
    ],
    ids=["calls", "answers"],
)
def test_an_answer_that_breaks_off_twice_is_legal(client: str, pieces: list[bytes]) -> None:
    stream = b"".join(b'data: {"choices":[{%b}]}\n\n' % piece for piece in pieces)
    for backend in ("chat", "legacy"):
        if client != backend:
            told = run(exchange(client, backend).stream(), [stream])
            assert adapters.check(client, told) == []


def assert_numbered(stream: bytes) -> None:
    """Assert what the checker says too, in fewer words: 0 to n, and what opens closes once."""
    told = payloads(stream)
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    kinds = [str(event["type"]) for event in told]
    added = [str(event["output_index"]) for event in told if event["type"] == _ADDED]
    done = [str(event["output_index"]) for event in told if event["type"] == _DONE]
    assert len(added) == len(set(added))
    assert len(done) == len(set(done))
    assert set(done) <= set(added)
    if kinds[-1] != "response.failed":
        assert set(done) == set(added)


_ADDED, _DONE = "response.output_item.added", "response.output_item.done"


def payloads(stream: bytes) -> list[dict[str, object]]:
    """Give the JSON objects of a stream."""
    frames = Decoder().feed(stream)
    return [msgspec.json.decode(frame.data) for frame in frames if frame.data != b"[DONE]"]


# --- 6: arguments are opaque ------------------------------------------------------------------


@each_pair
@few
@given(data=st.data())
def test_arguments_of_a_request_stay_as_they_are(
    first: DialectName, second: DialectName, data: DataObject
) -> None:
    arguments = data.draw(any_arguments.filter(str.strip))
    items = (ToolCall("call_1", "f", arguments), ToolOutput("call_1", "done"))
    said: tuple[Item, ...] = (Message("user", (Text("go"),)), *items)
    request = Request(model="m", items=said, tools=(FunctionTool("f"),))
    there = exchange(first, second).request(write_request(first, request))
    assert arguments_of(read_request(second, there.body).items) == [arguments]


@each_pair
@few
@given(data=st.data())
def test_arguments_of_a_reply_stay_as_they_are(
    first: DialectName, second: DialectName, data: DataObject
) -> None:
    reply = data.draw(replies(second, one_call(second)))
    body = write_reply(second, reply)
    meant = arguments_of(reply.choices[0].items)
    whole = read_reply(first, exchange(first, second).reply(body).body)
    assert arguments_of(whole.choices[0].items) == meant
    told = data.draw(tellings(second, reply))
    stream = run(exchange(first, second).stream(), [told.stream])
    streamed = accumulate(read_stream(first, [stream]))
    assert arguments_of(streamed.choices[0].items) == meant


def one_call(name: DialectName) -> SearchStrategy[tuple[Item, ...]]:
    made = calls(kinds=("function",)).map(lambda several: several[:1])
    if name == "responses":
        return made.map(lambda several: (replace(several[0], item_id="fc_1"),))
    return made.map(lambda several: several)


def arguments_of(items: Sequence[Item]) -> list[str]:
    return [item.arguments for item in items if isinstance(item, ToolCall)]


# --- 7: nothing breaks ------------------------------------------------------------------------


@every_pair
@few
@given(body=st.binary(max_size=60), status=st.integers(400, 599))
def test_no_bytes_break_an_exchange(client: str, backend: str, body: bytes, status: int) -> None:
    attempt(client, backend, body, status)
    feed_anything(client, backend, [body])


@given(data=st.data(), case=st.sampled_from([*REQUESTS, *REPLIES]))
def test_no_change_of_a_real_body_breaks_an_exchange(
    data: DataObject, case: RequestCase | ReplyCase
) -> None:
    change = data.draw(st.sampled_from([mangled, rewritten]))
    body = data.draw(change(on_wire(case.body)))
    for other in DIALECT_NAMES:
        attempt(case.dialect, other, body, 400)
        attempt(other, case.dialect, body, 500)


@given(data=st.data(), case=st.sampled_from(ERRORS))
def test_no_change_of_a_real_error_breaks_an_exchange(data: DataObject, case: ErrorCase) -> None:
    body = data.draw(mangled(case.answer()))
    if case.body_text is None:
        body = data.draw(st.just(body) | rewritten(case.answer()))
    for other in DIALECT_NAMES:
        told = exchange(other, case.dialect).error(case.status, body)
        if other != case.dialect:
            assert msgspec.json.decode(told.body, type=dict[str, Raw])


@given(data=st.data(), case=st.sampled_from(STREAMS), cutting=cuttings)
def test_no_change_of_a_real_stream_breaks_an_exchange(
    data: DataObject, case: StreamCase, cutting: int | list[int]
) -> None:
    change = data.draw(st.sampled_from([mangled, rewritten_stream]))
    stream = data.draw(change(case.body))
    for other in DIALECT_NAMES:
        told = feed_anything(other, case.dialect, cut(stream, cutting))
        if other != case.dialect:
            assert adapters.check(other, told) == []
    read_stream(case.dialect, cut(stream, cutting))


def rewritten_stream(stream: bytes) -> SearchStrategy[bytes]:
    """Put another JSON value somewhere into one of the events of a stream."""

    @st.composite
    def strategy(draw: DrawFn) -> bytes:
        blocks = stream.replace(b"\r\n", b"\n").split(b"\n\n")
        number = draw(st.integers(0, len(blocks) - 1))
        before, found, data = blocks[number].partition(b"data: ")
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            blocks[number] = before + found + draw(rewritten(data))
        return b"\n\n".join(blocks)

    return strategy()


def attempt(client: str, backend: str, body: bytes, status: int) -> None:
    """Try all that can be done with a body; only an error of ours may be raised."""
    exchanged = exchange(client, backend)
    for use in (exchanged.request, exchanged.reply, exchanged.reply_as_stream):
        with suppress(adapters.DragomanError):
            use(body)
    exchanged.error(status, body)


def feed_anything(client: str, backend: str, pieces: Sequence[bytes]) -> bytes:
    """Feed anything to a stream; nothing may be raised at all."""
    exchanged = exchange(client, backend)
    collector = exchanged.collect()
    for piece in pieces:
        collector.feed(piece)
    collector.finish()
    return run(exchange(client, backend).stream(), pieces)


# --- 8: what is cut is no success -------------------------------------------------------------


@every_pair
@few
@given(data=st.data())
def test_a_stream_is_a_success_only_if_it_said_so(
    client: str, backend: DialectName, data: DataObject
) -> None:
    told = data.draw(tellings(backend, data.draw(replies(backend))))
    place = data.draw(st.integers(0, len(told.stream)))
    stream = run(exchange(client, backend).stream(), [told.stream[:place]])
    read = read_stream(client, [stream])
    assert isinstance(read[-1], Finished if place >= told.finished else Failed)
    if place < told.finished:
        assert not any(payload.get("type") in _SUCCESS for payload in payloads(stream))


_SUCCESS = ("response.completed", "response.incomplete")


# --- 9: nothing is held back ------------------------------------------------------------------


@each_pair
@few
@given(data=st.data(), text=some_text, kind=st.sampled_from(["text", "call"]))
def test_each_delta_is_told_as_it_comes(
    first: DialectName, second: DialectName, data: DataObject, text: str, kind: str
) -> None:
    item: Item = (
        Message("assistant", (Text(text),), status="completed")
        if kind == "text"
        else ToolCall("call_0001", "f", "{" + text, status="completed")
    )
    whole = text if kind == "text" else "{" + text
    found = data.draw(fragments(whole))
    opened = Opened(0, without_content(item))
    channel: Channel = "text" if kind == "text" else "arguments"
    deltas = [Delta(0, channel, piece) for piece in found]
    writer = adapters.dialect(second).write_stream(around())
    machine = exchange(first, second).stream()
    started = b"".join([*writer.feed(Started("x", "m", 0)), *writer.feed(opened)])
    machine.feed(started)
    for delta in deltas:
        (frame,) = (one for one in writer.feed(delta) if b"part.added" not in one)
        told = payloads(machine.feed(frame))
        assert [text_of(payload) for payload in told if text_of(payload)] == [delta.text]


def text_of(payload: dict[str, object]) -> str:
    """Give the text that a frame adds, if it adds any."""
    if str(payload.get("type", "")).endswith(".delta"):
        return str(payload["delta"])
    chunk = msgspec.json.decode(msgspec.json.encode(payload), type=Chunk)
    for choice in chunk.choices or []:
        delta = choice.delta or MessageDelta()
        called = [*(delta.tool_calls or []), CallDelta(function=delta.function_call)]
        arguments = [string_or_raw_json(one.function.arguments) for one in called if one.function]
        return "".join([str(delta.content or ""), *arguments])
    return ""


# --- 10: tables invert ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (chat_wire.READ_FINISH_REASON, chat_wire.WRITE_FINISH_REASON),
        (chat_wire.READ_FINISH_REASON, legacy_wire.WRITE_FINISH_REASON),
        (responses_wire.READ_INCOMPLETE, responses_wire.WRITE_INCOMPLETE),
        (responses_wire.CALL_KINDS, {k: w.item for k, w in responses_wire.CALLS.items()}),
        (responses_wire.OUTPUT_KINDS, {k: w.output for k, w in responses_wire.CALLS.items()}),
    ],
)
def test_what_a_table_writes_it_reads(read: Mapping[str, str], write: Mapping[str, str]) -> None:
    assert {word: read[spelled] for word, spelled in write.items()} == {
        word: word for word in write
    }


@each_pair
def test_a_parameter_is_named_there_and_back(first: str, second: str) -> None:
    one, other = adapters.dialect(first), adapters.dialect(second)
    for name in one.names.keys() & other.names.keys():
        spelled = one.names[name]
        assert (
            translate_error_param(translate_error_param(spelled, one, other), other, one) == spelled
        )


@each_dialect
def test_every_name_of_a_dialect_is_of_one_field(name: DialectName) -> None:
    spelled = list(adapters.dialect(name).names.values())
    assert len(spelled) == len(set(spelled))
