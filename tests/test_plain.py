"""The short way of reading plain messages gives what the long way gives."""

import msgspec
import pytest
from msgspec import Raw

from adapters.chat.messages import read_messages
from adapters.errors import DragomanError
from adapters.loss import Loss, Losses
from adapters.responses.items import read_items
from tests.corpus import REQUESTS, RequestCase

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
