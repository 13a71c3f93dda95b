"""What the gateway remembers: responses, conversations, background work, stored completions."""

from gateway.state.opening import open_store
from gateway.state.problems import NewerSchema, StateError, Unavailable
from gateway.state.store import Store
from gateway.state.values import (
    NOTHING,
    RUNNING,
    Completion,
    Conversation,
    Event,
    Item,
    Job,
    Listing,
    Page,
    Response,
    Status,
    Step,
    Turn,
)

__all__ = [
    "NOTHING",
    "RUNNING",
    "Completion",
    "Conversation",
    "Event",
    "Item",
    "Job",
    "Listing",
    "NewerSchema",
    "Page",
    "Response",
    "StateError",
    "Status",
    "Step",
    "Store",
    "Turn",
    "Unavailable",
    "open_store",
]
