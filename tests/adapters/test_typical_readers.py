"""The fast paths for typical input read the same as the general readers."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import adapters
from adapters import InputItem
from adapters.chat import message_reader, reply_reader
from adapters.dialect import ReplyContext
from adapters.errors import DragomanError
from adapters.ir.types import EMPTY_REQUEST, Family
from adapters.losses import Losses
from adapters.responses import item_reader
from adapters.wire import tools
from tests.corpus import REPLIES, REQUESTS, ReplyCase, RequestCase


def read(reader: Callable[[Losses], object]) -> tuple[object, object]:
    losses = Losses(None)
    try:
        return reader(losses), list(losses)
    except DragomanError as error:
        return None, str(error)


def read_nothing(*_arguments: object) -> None:
    """Stand in for a fast path that is never taken."""


@contextmanager
def fast_path(owner: str, *, enabled: bool) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not enabled:
            patch.setattr(f"adapters.{owner}._read_typical", read_nothing)
        yield


def read_messages(raws: list[Raw], *, fast: bool) -> tuple[object, object]:
    with fast_path("chat.message_reader", enabled=fast):
        return read(lambda losses: list(message_reader.read_messages(raws, losses)))


def read_items(raws: list[Raw], *, fast: bool) -> tuple[object, object]:
    items = [InputItem(raw, f"input[{number}]") for number, raw in enumerate(raws)]
    with fast_path("responses.item_reader", enabled=fast):
        return read(lambda losses: list(item_reader.read_items(items, losses)))


def read_tools(raws: list[Raw], family: Family, *, fast: bool) -> tuple[object, object]:
    with fast_path("wire.tools", enabled=fast):
        return read(lambda _: tools.read_tools(raws, "tools", family))


def read_reply(body: bytes, *, fast: bool) -> tuple[object, object]:
    def read_body(losses: Losses) -> object:
        context = ReplyContext(EMPTY_REQUEST, adapters.deterministic_ids(), losses)
        return reply_reader.read_reply(body, context)

    with fast_path("chat.reply_reader", enabled=fast):
        return read(read_body)


def translate_request(case: RequestCase, *, fast: bool) -> tuple[object, object]:
    backend = "chat" if case.dialect == "responses" else "responses"

    def translate(_losses: Losses) -> object:
        body = bytes(case.body)
        sent = adapters.translate_request(body, client=case.dialect, backend=backend)
        return sent.body, sent.losses

    with fast_path("tool_emulation.declare._DeclarationReader", enabled=fast):
        return read(translate)


def read_array(case: RequestCase, name: str) -> list[Raw]:
    body = msgspec.json.decode(bytes(case.body), type=dict[str, Raw])
    try:
        return msgspec.json.decode(body.get(name, Raw(b"[]")), type=list[Raw])
    except msgspec.ValidationError:
        return []


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
def test_items_are_the_same_for_every_case(case: RequestCase) -> None:
    if case.dialect == "responses":
        raws = read_array(case, "input")
        assert read_items(raws, fast=True) == read_items(raws, fast=False)
    else:
        raws = read_array(case, "messages")
        assert read_messages(raws, fast=True) == read_messages(raws, fast=False)


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
def test_tools_are_the_same_for_every_case(case: RequestCase) -> None:
    raws = read_array(case, "tools")
    family = adapters.get_dialect(case.dialect).family
    assert read_tools(raws, family, fast=True) == read_tools(raws, family, fast=False)


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
def test_declarations_are_the_same_for_every_case(case: RequestCase) -> None:
    assert translate_request(case, fast=True) == translate_request(case, fast=False)


@pytest.mark.parametrize("case", REPLIES, ids=lambda case: case.name)
def test_replies_are_the_same_for_every_case(case: ReplyCase) -> None:
    body = bytes(case.body)
    assert read_reply(body, fast=True) == read_reply(body, fast=False)


STRINGS = st.sampled_from(("", "f", "Ja.", " ", "{}", '{"a":1}', "call_1"))
ODD: list[object] = [None, 0, 1.5, True, [], {}, [{}], ["x"], {"a": None}]


def objects(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    """Objects with any of these fields, one of which may have an odd value or name."""
    usual: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries({}, optional=fields)
    names = st.sampled_from([*fields, "other"])
    odd = st.dictionaries(names, st.sampled_from(ODD), max_size=1)
    return st.tuples(usual, odd).map(lambda pair: pair[0] | pair[1])


FUNCTIONS = objects(name=STRINGS, arguments=STRINGS)
CALLS = objects(
    id=STRINGS, type=st.sampled_from(("function", "custom")), function=FUNCTIONS, index=st.just(0)
)
MESSAGES = objects(
    role=st.sampled_from(("system", "developer", "user", "tool", "function")),
    content=STRINGS,
    name=STRINGS,
    tool_call_id=STRINGS,
)
ASSISTANT_MESSAGES = objects(
    role=st.just("assistant"),
    content=STRINGS | st.none(),
    tool_calls=st.lists(CALLS, max_size=2),
    function_call=FUNCTIONS | st.none(),
    refusal=st.none(),
    annotations=st.just([]),
    reasoning_content=st.none(),
)
CHOICES = objects(
    index=st.integers(0, 1),
    message=ASSISTANT_MESSAGES,
    finish_reason=st.sampled_from(("stop", "tool_calls", "length")),
    logprobs=st.none(),
)
REPLY: dict[str, object] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Ja."}, "finish_reason": "stop"}
    ],
}
REPLY_CHANGES = objects(
    id=STRINGS,
    choices=st.lists(CHOICES, min_size=1, max_size=2),
    usage=objects(prompt_tokens=st.just(1), prompt_tokens_details=objects(audio_tokens=st.just(1))),
    service_tier=STRINGS,
    system_fingerprint=STRINGS | st.none(),
)


@given(messages=st.lists(MESSAGES | ASSISTANT_MESSAGES, max_size=4))
def test_messages_are_the_same(messages: list[dict[str, object]]) -> None:
    raws = [Raw(msgspec.json.encode(message)) for message in messages]
    assert read_messages(raws, fast=True) == read_messages(raws, fast=False)


@given(changes=REPLY_CHANGES)
def test_replies_are_the_same(changes: dict[str, object]) -> None:
    body = msgspec.json.encode(REPLY | changes)
    assert read_reply(body, fast=True) == read_reply(body, fast=False)


@pytest.mark.parametrize("usage", [b'{"a":"\xff"}', b'{"prompt_tokens":1,"a":"\xc3"}'])
def test_replies_with_invalid_text_are_the_same(usage: bytes) -> None:
    body = msgspec.json.encode(REPLY | {"usage": Raw(usage)})
    assert read_reply(body, fast=True) == read_reply(body, fast=False)


PARTS = objects(
    type=st.sampled_from(("input_text", "output_text", "input_image")),
    text=STRINGS,
    image_url=STRINGS,
    detail=STRINGS,
)
ITEM_FIELDS: dict[str, st.SearchStrategy[object]] = {
    "id": STRINGS,
    "status": st.sampled_from(("completed", "in_progress", "")),
}
ITEMS = (
    objects(
        type=st.just("message"),
        role=st.sampled_from(("user", "assistant")),
        content=STRINGS | st.lists(PARTS, max_size=2),
        **ITEM_FIELDS,
    )
    | objects(
        type=st.just("function_call"),
        call_id=STRINGS,
        name=STRINGS,
        arguments=STRINGS,
        **ITEM_FIELDS,
    )
    | objects(
        type=st.just("function_call_output"),
        call_id=STRINGS,
        output=STRINGS | st.just('[{"type":"input_image"}]'),
        **ITEM_FIELDS,
    )
)


@given(items=st.lists(ITEMS, max_size=4))
def test_items_are_the_same(items: list[dict[str, object]]) -> None:
    raws = [Raw(msgspec.json.encode(item)) for item in items]
    assert read_items(raws, fast=True) == read_items(raws, fast=False)


CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
        {"role": "assistant", "content": None, "function_call": CALL["function"]},
        {"role": "tool", "tool_call_id": "call_1", "content": "7"},
        {"role": "function", "name": "f", "content": "7"},
    ],
)
def test_typical_messages_take_the_fast_path(
    message: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(message_reader, "_read_message")
    read_messages([Raw(msgspec.json.encode(message))], fast=True)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Ja.", "refusal": None, "annotations": [], "reasoning_content": None},
        {"content": None, "tool_calls": [CALL, CALL]},
        {"content": "", "tool_calls": [CALL]},
        {"content": "I look.", "tool_calls": [CALL]},
    ],
)
def test_typical_replies_take_the_fast_path(
    message: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(reply_reader, "_read_any")
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "tool_calls"}
    usage = {"usage": {"prompt_tokens": 1}, "system_fingerprint": "fp_1", "service_tier": "default"}
    read_reply(msgspec.json.encode(REPLY | usage | {"choices": [choice]}), fast=True)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": "Ja."},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "7"},
    ],
)
def test_typical_items_take_the_fast_path(
    item: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(item_reader, "read_item")
    read_items([Raw(msgspec.json.encode(item))], fast=True)
