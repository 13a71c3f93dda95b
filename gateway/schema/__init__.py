"""The types of all requests and answers, for people and programs to read at `/schema`."""

from gateway.schema.document import openapi_config, schemas
from gateway.schema.operations import (
    ChatOperation,
    HealthOperation,
    ModelOperation,
    ModelsOperation,
    ReadyOperation,
    ResponsesOperation,
    TranslateOperation,
)
from gateway.schema.serving import show_schema
from gateway.schema.stored_operations import (
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
