"""What the gateway remembers: responses, conversations, background work, stored completions."""

from gateway.store.records import (
    JSON_NULL,
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
from gateway.store.store import Store, open_store

__all__ = [
    "JSON_NULL",
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
