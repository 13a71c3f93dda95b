"""The short way of reading what is plain gives what the long way gives."""

import msgspec
import pytest
from msgspec import Raw

import adapters
from adapters.chat.message_reader import read_messages
from adapters.chat.reply import read_any_reply
from adapters.chat.typical_reply import read_plain_reply
from adapters.dialect import ReplyContext
from adapters.errors import DragomanError
from adapters.losses import Loss, Losses
from adapters.responses.item_reader import read_items
from adapters.translation.reply_stages import UNKNOWN_REQUEST
from adapters.wire.tools import read_tools
from tests.corpus import REPLIES, REQUESTS, ReplyCase, RequestCase

READERS = {
    "chat": (read_messages, "messages"),
    "legacy": (read_messages, "messages"),
    "responses": (read_items, "input"),
}


def read(case: RequestCase, *, short_way: bool) -> tuple[object, list[Loss] | str]:
    reader, name = READERS[case.dialect]
    body = msgspec.json.decode(bytes(case.body), type=dict[str, Raw])
    try:
        raws = msgspec.json.decode(body.get(name, Raw(b"[]")), type=list[Raw])
    except msgspec.ValidationError:
        raws = []
    losses = Losses(None)
    try:
        return list(reader(raws, losses, short_way=short_way)), list(losses)
    except DragomanError as problem:
        return None, str(problem)


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
def test_short_way_is_the_long_way(case: RequestCase) -> None:
    assert read(case, short_way=True) == read(case, short_way=False)


def read_declared(case: RequestCase, *, short_way: bool) -> object:
    body = msgspec.json.decode(bytes(case.body), type=dict[str, Raw])
    try:
        raws = msgspec.json.decode(body.get("tools", Raw(b"[]")), type=list[Raw])
    except msgspec.ValidationError:
        raws = []
    family = adapters.dialect(case.dialect).family
    try:
        return read_tools(raws, "tools", family, short_way=short_way)
    except DragomanError as problem:
        return str(problem)


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
def test_short_way_of_tools_is_the_long_way(case: RequestCase) -> None:
    assert read_declared(case, short_way=True) == read_declared(case, short_way=False)


def around() -> ReplyContext:
    return ReplyContext(UNKNOWN_REQUEST, adapters.deterministic_ids(), Losses(None))


def choice(message: dict[str, object]) -> dict[str, object]:
    return {"message": {"role": "assistant", **message}, "finish_reason": "tool_calls"}


PLAIN: dict[str, object] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Ja."}, "finish_reason": "stop"}
    ],
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
EMPTY = {"id": "call_1", "type": "function", "function": {"name": "g", "arguments": ""}}
BESIDE: tuple[dict[str, object], ...] = (
    {"service_tier": "default", "system_fingerprint": "fp_1", "usage": {"prompt_tokens": 1}},
    {"usage": {"prompt_tokens_details": {"audio_tokens": 1, "cached_tokens": 2}}},
    {"system_fingerprint": None, "prompt_logprobs": None, "usage": None},
)
SAID: tuple[dict[str, object], ...] = (
    {"content": "Ja.", "refusal": None, "annotations": [], "reasoning_content": None},
    {"content": None, "tool_calls": [CALL, EMPTY]},
    {"content": "", "tool_calls": [CALL]},
    {"content": "I look.", "tool_calls": [CALL]},
)
PLAIN_REPLIES = [
    *(PLAIN | beside for beside in BESIDE),
    *(PLAIN | {"choices": [choice(message)]} for message in SAID),
]


@pytest.mark.parametrize("reply", PLAIN_REPLIES, ids=str)
def test_short_way_of_replies_is_taken_and_is_the_long_way(reply: dict[str, object]) -> None:
    body = msgspec.json.encode(reply)
    short, long = around(), around()
    plain = read_plain_reply(body, short.losses)
    assert plain is not None
    assert plain == read_any_reply(body, long)
    assert [*short.losses] == [*long.losses]


@pytest.mark.parametrize("case", REPLIES, ids=lambda case: case.name)
def test_short_way_of_any_reply_is_the_long_way(case: ReplyCase) -> None:
    body = bytes(case.body)
    short, long = around(), around()
    plain = read_plain_reply(body, short.losses)
    if plain is not None:
        assert plain == read_any_reply(body, long)
        assert [*short.losses] == [*long.losses]


@pytest.mark.parametrize("said", [b'{"a":"\xff"}', b'{"prompt_tokens":1,"a":"\xc3"}'])
def test_bytes_that_are_no_text_are_not_plain(said: bytes) -> None:
    body = msgspec.json.encode(PLAIN | {"usage": Raw(said)})
    assert read_plain_reply(body, Losses(None)) is None
