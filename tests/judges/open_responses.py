"""The rules of the Open Responses specification (release 2026-04-24) for what a server sends.

They are our own wording of what its compliance suite validates, and of what its prose demands
without a test. What our output rightly has beyond it is named by an `Allowance`; without one the
judges here are strict.
"""

from collections.abc import Collection

from tests.judges.open_responses_shapes import COMPACTION, EVENTS, RESPONSE
from tests.judges.reading import JsonObject, object_in, objects_in, read_object, text_in
from tests.judges.shapes import EVERYTHING, Allowance, tagged
from tests.judges.stream_order import StreamOrder

__all__ = [
    "EVERYTHING",
    "Allowance",
    "assert_compaction",
    "assert_event",
    "assert_response",
    "assert_stream",
]

EVENT = tagged(**EVENTS)
DONE = "data: [DONE]"
# The final statuses of a response.
ENDED = frozenset({"completed", "incomplete", "failed"})


def assert_response(body: JsonObject, *, allow: Collection[Allowance] = ()) -> None:
    """Assert that a response object is one that Open Responses clients can read."""
    RESPONSE(body, "response", frozenset(allow))
    status = body["status"]
    assert (body["error"] is not None) == (status == "failed"), (
        f"response.error: {body['error']!r} in a response that is {status}"
    )
    if status == "incomplete":
        assert body["incomplete_details"] is not None, "response.incomplete_details: is null"
    if status == "completed":
        assert body["completed_at"] is not None, "response.completed_at: is null"
    _assert_incomplete_item_last(body)


def assert_compaction(body: JsonObject, *, allow: Collection[Allowance] = ()) -> None:
    """Assert that a conversation in short is one: it ends with the one item that sums it up."""
    COMPACTION(body, "compaction", frozenset(allow))
    kinds = [text_in(item, "type") for item in objects_in(body, "output")]
    assert kinds.index("compaction") == len(kinds) - 1, f"output: {kinds}"


def _assert_incomplete_item_last(body: JsonObject) -> None:
    statuses = [item.get("status", "completed") for item in objects_in(body, "output")]
    # Several may break off at once, where a server interleaves; behind them nothing is whole.
    broken = statuses.index("incomplete") if "incomplete" in statuses else len(statuses)
    assert "completed" not in statuses[broken:], f"an incomplete item is not the last: {statuses}"
    if body["status"] in ENDED:
        assert "in_progress" not in statuses, f"an ended response has open items: {statuses}"


def assert_event(event: JsonObject, *, allow: Collection[Allowance] = ()) -> None:
    """Assert that one event of a stream holds what its type demands."""
    EVENT(event, text_in(event, "type"), frozenset(allow))
    if "response" in event:
        assert_response(object_in(event, "response"), allow=allow)


def assert_stream(data: bytes, *, allow: Collection[Allowance] = ()) -> None:
    """Assert that a whole stream is framed, filled and ordered as it must be."""
    order = StreamOrder()
    for number, block in enumerate(_blocks(data)):
        try:
            event = _read_event(block)
            assert_event(event, allow=allow)
            order.feed(event)
        except AssertionError as error:
            raise AssertionError(f"event {number}: {error}\n{block}") from error
    order.finish()


def _blocks(data: bytes) -> list[str]:
    """Split a stream into events; the suite's reader knows no line ending but LF."""
    assert b"\r" not in data, "the stream has a CR: line ends must be LF"
    assert data.endswith(b"\n\n"), f"the last event is not ended by a blank line: {data[-80:]!r}"
    blocks = data.decode().removesuffix("\n\n").split("\n\n")
    assert blocks[-1] == DONE, f"the stream ends with {blocks[-1]!r}, not with [DONE]"
    return blocks[:-1]


def _read_event(block: str) -> JsonObject:
    """Read an event: exactly one event line and one data line, so no id, comment or retry."""
    lines = block.split("\n")
    starts = [line.partition(": ")[0] for line in lines]
    assert starts == ["event", "data"], f"expected an event line and a data line, got {starts}"
    event = read_object(lines[1].removeprefix("data: "))
    name = lines[0].removeprefix("event: ")
    assert name == event.get("type"), (
        f"the event line says {name!r}, the type {event.get('type')!r}"
    )
    return event
