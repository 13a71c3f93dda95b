"""Check the order of events, between every reader and writer."""

from collections.abc import Iterable

from adapters.ir.event_order import EventOrder, EventOrderError
from adapters.ir.events import Event


def check_order(events: Iterable[Event]) -> list[Event]:
    """Return the events of a stream; raise `EventOrderError` if they are out of order."""
    order = EventOrder()
    checked = list(events)
    for event in checked:
        order.check(event)
    if order.phase != "ended":
        raise EventOrderError("the stream ends without Finished or Failed")
    return checked
