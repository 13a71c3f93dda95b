"""Items that are held: their order, and when other items wait for them."""

from adapters import ItemTransform
from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.types import Error, Finish, Item, Message, Text, ToolCall


class Calls(ItemTransform):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Item] = []

    def holds(self, item: Item) -> bool:
        return isinstance(item, ToolCall)

    def item(self, item: Item) -> list[Item]:
        self.seen.append(item)
        return [item]


CALL = Opened(0, ToolCall("c", "f"))
MESSAGE = Opened(1, Message("assistant"))
PIECE = Delta(0, "arguments", "{}")
TEXT = Delta(1, "text", "Hi")


def test_held_item_is_complete() -> None:
    transform = Calls()
    passing = [transform.passes_deltas]
    for event in (CALL, PIECE):
        assert transform.feed(event) == []
        passing.append(transform.passes_deltas)
    assert transform.feed(Closed(0)) == [CALL, PIECE, Closed(0)]
    assert transform.seen == [ToolCall("c", "f", "{}", status="completed")]
    assert [*passing, transform.passes_deltas] == [True, False, False, True]


def test_item_that_is_not_held_is_streamed() -> None:
    transform = Calls()
    for event in (MESSAGE, TEXT, Closed(1)):
        assert transform.feed(event) == [event]


def test_later_item_waits_for_a_held_one() -> None:
    transform = Calls()
    for event in (CALL, MESSAGE, TEXT):
        assert transform.feed(event) == []
    assert transform.feed(Closed(0)) == [CALL, Delta(0, "arguments", ""), Closed(0), MESSAGE, TEXT]
    # From here on the message is streamed.
    assert transform.feed(TEXT) == [TEXT]


def test_item_of_another_choice_does_not_wait() -> None:
    transform, other = Calls(), Opened(1, Message("assistant"), choice=1)
    assert transform.feed(CALL) == []
    assert transform.feed(other) == [other]


def test_held_item_of_a_failed_reply_is_incomplete() -> None:
    transform = Calls()
    for event in (CALL, PIECE, MESSAGE, TEXT):
        transform.feed(event)
    failed = Failed(Error("cut"))
    end = [CALL, PIECE, Closed(0, "incomplete"), MESSAGE, TEXT]
    assert [*transform.flush(), *transform.feed(failed)] == [*end, failed]


def test_dropped_and_added_items_keep_their_choice() -> None:
    class Twice(ItemTransform):
        def item(self, item: Item) -> list[Item]:
            if isinstance(item, ToolCall):
                return []
            return [item, Message("assistant", (Text("more"),))]

    transform, told = Twice(), list[Event]()
    message = Opened(1, Message("assistant"), choice=1)
    for event in (Started(), CALL, message, TEXT, Closed(0), Closed(1)):
        told += transform.feed(event)
    finished = Finished((Finish("stop", "stop"),) * 2)
    told += [*transform.flush(), *transform.feed(finished)]
    added = Opened("1.1", Message("assistant"), choice=1)
    more = Delta("1.1", "text", "more")
    assert told == [Started(), message, TEXT, Closed(1), added, more, Closed("1.1"), finished]
