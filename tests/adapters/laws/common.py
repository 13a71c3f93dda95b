"""Reading, writing and comparing for the laws."""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import Raw, Struct
from msgspec.structs import replace

import adapters
from adapters.dialect import BaseStreamReader, ReplyContext, ReplyOptions
from adapters.ir.events import Event
from adapters.ir.normalize import without_paths
from adapters.ir.types import EMPTY_REQUEST, Item, Message, Reply, Request, Text, ToolCall
from adapters.losses import Losses
from adapters.sse import Decoder, encode
from adapters.stages.block_order import BlockSequencer
from tests.corpus import read_chunks
from tests.exchange import Exchange
from tests.strategies import streams
from tests.strategies.values import DIALECT_NAMES, FULL_CAPABILITIES, DialectName

each_dialect = pytest.mark.parametrize("name", DIALECT_NAMES)
each_pair = pytest.mark.parametrize(("client", "backend"), list(product(DIALECT_NAMES, repeat=2)))
each_unequal_pair = pytest.mark.parametrize(
    ("client", "backend"), list(permutations(DIALECT_NAMES, 2))
)

# For laws that are tried for every pair or dialect.
few_examples = settings(max_examples=max(settings().max_examples // 6, 10))


def for_each_pair(test: Callable[..., None]) -> Callable[..., None]:
    """Run a law for every pair of dialects, with a few examples of what it draws."""
    law: Callable[..., None] = each_pair(few_examples(given(data=st.data())(test)))
    return law


def for_each_unequal_pair(test: Callable[..., None]) -> Callable[..., None]:
    law: Callable[..., None] = each_unequal_pair(few_examples(given(data=st.data())(test)))
    return law


# Reasoning is written as text, so that it can be read back as it was.
OPTIONS = ReplyOptions(reasoning_text=True)


def reply_context(request: Request = EMPTY_REQUEST) -> ReplyContext:
    return ReplyContext(request, adapters.deterministic_ids(), Losses(None), OPTIONS)


def exchange(client: str, backend: str) -> Exchange:
    return Exchange(client, backend, reply_options=OPTIONS)


def write_request(name: str, request: Request) -> bytes:
    losses = Losses(None)
    body = adapters.get_dialect(name).write_request(request, FULL_CAPABILITIES, losses)
    # Required fields are added.
    assert [loss for loss in losses if loss.severity != "adapted"] == []
    return body


def read_request(name: str, body: bytes) -> Request:
    return without_paths(
        adapters.get_dialect(name).read_request(adapters.parse_body(body), Losses(None))
    )


def write_reply(name: str, reply: Reply) -> bytes:
    context = reply_context()
    body = adapters.get_dialect(name).write_reply(reply, context)
    assert list(context.losses) == []
    return encode(body)


def read_reply(name: str, body: bytes) -> Reply:
    return adapters.get_dialect(name).read_reply(body, reply_context())


def write_stream(name: str, events: Sequence[Event], request: Request = EMPTY_REQUEST) -> bytes:
    context = reply_context(request)
    writer = adapters.get_dialect(name).write_stream(context)
    ordered = BlockSequencer(request).feed_all(list(events))
    stream = b"".join(frame for event in ordered for frame in writer.feed(event))
    # An empty message or usage may be invented, because a stream must have it.
    assert [loss for loss in context.losses if loss.action != "invented"] == []
    return stream


def read_frames(reader: BaseStreamReader, frames: bytes) -> list[Event]:
    return [event for frame in Decoder().feed(frames) for event in reader.feed(frame)]


def read_stream(name: str, chunks: Sequence[bytes]) -> list[Event]:
    return read_chunks(adapters.get_dialect(name).read_stream(reply_context()), chunks)


def translate_stream(client: str, backend: str, chunks: Sequence[bytes]) -> bytes:
    return exchange(client, backend).translate_stream(chunks)


def payloads(stream: bytes) -> list[dict[str, object]]:
    frames = Decoder().feed(stream)
    return [msgspec.json.decode(frame.data) for frame in frames if frame.data != b"[DONE]"]


def streams_of(
    name: DialectName,
    reply: Reply,
    call_style: streams.CallStyle = streams.STANDARD,
    responses_style: streams.ResponsesStyle = streams.COMPLETE,
) -> SearchStrategy[streams.StreamSample]:
    match name:
        case "chat":
            return streams.chat_streams(reply, call_style)
        case "legacy":
            return streams.legacy_streams(reply)
        case "responses":
            return streams.responses_streams(write_reply(name, reply), responses_style)


def without_annotations(reply: Reply) -> Reply:
    choices = (
        replace(choice, items=tuple(map(_without_annotations, choice.items)))
        for choice in reply.choices
    )
    return replace(reply, choices=tuple(choices))


def _without_annotations(item: Item) -> Item:
    if not isinstance(item, Message):
        return item
    content = (Text(part.text) if isinstance(part, Text) else part for part in item.content)
    return replace(item, content=tuple(content))


def without_final_whitespace(reply: Reply) -> Reply:
    """Strip what may follow complete arguments, which is dropped if another call has begun."""
    [choice] = reply.choices
    items = tuple(
        replace(item, arguments=item.arguments.rstrip(" \t\r\n"))
        if isinstance(item, ToolCall) and item.kind == "function"
        else item
        for item in choice.items
    )
    return replace(reply, choices=(replace(choice, items=items),))


def flat(value: object) -> dict[str, object]:
    """Return all values inside a value by their paths, so that differences are short."""
    return dict(_leaves(value, ""))


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    match value:
        case Raw():
            yield path, bytes(value)
        case Struct():
            yield path, type(value).__name__
            for field in msgspec.structs.fields(value):
                inner = getattr(value, field.name)
                # The path of an item and the reason why a field matters are for people.
                if inner != field.default and field.name not in ("drop_reason", "path"):
                    yield from _leaves(inner, f"{path}.{field.name}")
        case tuple() | list():
            for number, inner in enumerate(cast("Sequence[object]", value)):
                yield from _leaves(inner, f"{path}[{number}]")
        case _:
            yield path, value
