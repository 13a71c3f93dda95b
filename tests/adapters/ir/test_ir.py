"""The IR of every case, which shows whether a reader or a writer is wrong."""

from functools import cache
from typing import cast

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

import adapters
from adapters.ir.events import Failed
from adapters.ir.types import Reply
from adapters.losses import Losses
from gateway.pytest_plugin.formats import format_json
from tests import corpus


@pytest.mark.parametrize("case", corpus.case_params([*corpus.REQUESTS, *corpus.REPLIES]))
def test_request_and_reply_ir(
    case: corpus.RequestCase | corpus.ReplyCase, json_snapshot: SnapshotAssertion
) -> None:
    kind = "requests" if isinstance(case, corpus.RequestCase) else "replies"
    try:
        page = to_plain(read(case))
    except adapters.DragomanError as error:
        page = {"refused": {"path": error.path, "why": error.message, "code": error.code}}
    assert format_json(page) == json_snapshot(name=f"{case.dialect}/{kind}/{case.name}")


def read(case: corpus.RequestCase | corpus.ReplyCase) -> adapters.Request | Reply:
    dialect = adapters.get_dialect(case.dialect)
    if isinstance(case, corpus.ReplyCase):
        return dialect.read_reply(corpus.on_wire(case.body), corpus.reply_context(case))
    return dialect.read_request(adapters.parse_body(corpus.on_wire(case.body)), Losses(case.policy))


@pytest.mark.parametrize("case", corpus.case_params(corpus.STREAMS))
def test_stream_ir(case: corpus.StreamCase, json_snapshot: SnapshotAssertion) -> None:
    events = corpus.read_events(case, [case.body])
    lines = ",\n".join(msgspec.json.encode(to_plain(event)).decode() for event in events)
    assert f"[\n{lines}\n]\n" == json_snapshot(name=f"{case.dialect}/streams/{case.name}")
    assert corpus.read_events(case, corpus.single_bytes(case.body)) == events


def to_plain(value: object) -> object:
    """Return an IR value as plain data, without fields that have their default."""
    match value:
        case Failed(origin="gateway"):
            # The files have a flag.
            return _struct_to_plain(replace(value, origin="backend")) | {"found": True}
        case Struct():
            return _struct_to_plain(value)
        case tuple():
            return [to_plain(element) for element in cast("tuple[object, ...]", value)]
        case _:
            return value


def _struct_to_plain(struct: Struct) -> dict[str, object]:
    tag = struct.__struct_config__.tag
    fields: dict[str, object] = {} if tag is None else {"type": tag}
    for field in known_fields(type(struct)):
        value = getattr(struct, field.name)
        # The paths of items are in the losses.
        if value != field.default and field.name != "path":
            fields[field.encode_name] = to_plain(value)
    return fields


known_fields = cache(msgspec.structs.fields)
