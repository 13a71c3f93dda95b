"""What the gateway remembers: responses, conversations, background work, stored completions."""

from gateway.store.opening import open_store
from gateway.store.records import (
    NOTHING,
    RUNNING,
    ChainLink,
    Completion,
    Conversation,
    Event,
    Item,
    Job,
    Listing,
    NewerSchemaError,
    Page,
    Response,
    Status,
    StoredTurn,
    StoreError,
    StoreUnavailableError,
)
from gateway.store.store import Store

__all__ = [
    "NOTHING",
    "RUNNING",
    "ChainLink",
    "Completion",
    "Conversation",
    "Event",
    "Item",
    "Job",
    "Listing",
    "NewerSchemaError",
    "Page",
    "Response",
    "Status",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "StoredTurn",
    "open_store",
]
