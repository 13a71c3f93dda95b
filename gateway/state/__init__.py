"""What the gateway remembers: responses, conversations, background work, stored completions."""

from gateway.state.opening import open_store
from gateway.state.problems import NewerSchemaError, StoreError, StoreUnavailableError
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
    ChainLink,
    StoredTurn,
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
    "NewerSchemaError",
    "Page",
    "Response",
    "StoreError",
    "Status",
    "ChainLink",
    "Store",
    "StoredTurn",
    "StoreUnavailableError",
    "open_store",
]
