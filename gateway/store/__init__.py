"""The store: responses, conversations, background jobs, chat completions and reasoning."""

from gateway.store.records import (
    JSON_NULL,
    RUNNING,
    ChainLink,
    Completion,
    Conversation,
    Event,
    Item,
    Job,
    JobUpdate,
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
    "JobUpdate",
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
