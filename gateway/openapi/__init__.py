"""The types of all requests and answers, for people and programs to read at `/schema`."""

from gateway.openapi.document import openapi_config, schemas
from gateway.openapi.operations import (
    ChatOperation,
    HealthOperation,
    ModelOperation,
    ModelsOperation,
    ReadyOperation,
    ResponsesOperation,
    TranslateOperation,
)
from gateway.openapi.serving import show_schema
from gateway.openapi.stored_operations import (
    CancelResponseOperation,
    DeleteResponseOperation,
    InputItemsOperation,
    RetrieveResponseOperation,
)

__all__ = [
    "CancelResponseOperation",
    "ChatOperation",
    "DeleteResponseOperation",
    "HealthOperation",
    "InputItemsOperation",
    "ModelOperation",
    "ModelsOperation",
    "ReadyOperation",
    "ResponsesOperation",
    "RetrieveResponseOperation",
    "TranslateOperation",
    "openapi_config",
    "schemas",
    "show_schema",
]
