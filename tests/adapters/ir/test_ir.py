"""The hub's view of every case: tells which half of a translation is wrong."""

from functools import cache
from typing import cast

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import FieldInfo
from syrupy.assertion import SnapshotAssertion

import adapters
from adapters.losses import Losses
from tests.corpus import (
    REPLIES,
    REQUESTS,
    STREAMS,
    ReplyCase,
    RequestCase,
    StreamCase,
    alone,
    in_bytes,
    on_wire,
    read_events,
    surroundings,
)
from tests.snapshots import json_page


@pytest.mark.parametrize("case", alone(REQUESTS))
def test_request_as_it_is_read(case: RequestCase, json_pages: SnapshotAssertion) -> None:
    read = adapters.dialect(case.dialect).read_request
    try:
        page = json_page(plain(read(on_wire(case.body), Losses(case.policy))))
    except adapters.DragomanError as problem:
        page = json_page(refusal(problem))
    assert page == json_pages(name=f"{case.dialect}/requests/{case.name}")


@pytest.mark.parametrize("case", alone(REPLIES))
def test_reply_as_it_is_read(case: ReplyCase, json_pages: SnapshotAssertion) -> None:
    read = adapters.dialect(case.dialect).read_reply
    try:
        page = json_page(plain(read(on_wire(case.body), surroundings(case))))
    except adapters.DragomanError as problem:
        page = json_page(refusal(problem))
    assert page == json_pages(name=f"{case.dialect}/replies/{case.name}")


@pytest.mark.parametrize("case", alone(STREAMS))
def test_stream_as_it_is_read(case: StreamCase, json_pages: SnapshotAssertion) -> None:
    events = read_events(case, [case.body])
    lines = ",\n".join(msgspec.json.encode(plain(event)).decode() for event in events)
    assert f"[\n{lines}\n]\n" == json_pages(name=f"{case.dialect}/streams/{case.name}")
    assert read_events(case, in_bytes(case.body)) == events


def refusal(problem: adapters.DragomanError) -> dict[str, object]:
    return {"refused": {"path": problem.path, "why": problem.why, "code": problem.code}}


def plain(value: object) -> object:
    """Give a value of the hub as JSON, less what nobody said."""
    match value:
        case Struct():
            return _plain_struct(value)
        case tuple():
            return [plain(element) for element in cast("tuple[object, ...]", value)]
        case _:
            return value


def _plain_struct(struct: Struct) -> dict[str, object]:
    tag = struct.__struct_config__.tag
    said: dict[str, object] = {} if tag is None else {"type": tag}
    for field in known_fields(type(struct)):
        value = getattr(struct, field.name)
        if value != field.default:
            said[field.name] = plain(value)
    return said


@cache
def known_fields(form: type[Struct]) -> tuple[FieldInfo, ...]:
    return msgspec.structs.fields(form)
