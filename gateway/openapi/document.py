"""The OpenAPI document: the addresses come from the handlers, the types from here."""

import importlib.metadata
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from typing import Any

import msgspec
from litestar import Request, Router
from litestar.datastructures import State
from litestar.exceptions import NotFoundException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, OpenAPI, SecurityScheme, Server

from gateway.backends.models import Model, Models
from gateway.openapi.chat_reply import ChatChunk, ChatReply
from gateway.openapi.chat_request import ChatRequest
from gateway.openapi.common import ErrorEnvelope, Health
from gateway.openapi.objects import (
    CompactReply,
    CompactRequest,
    CompletionList,
    Conversation,
    ConversationRequest,
    Deleted,
    InputTokensReply,
    InputTokensRequest,
    ItemList,
    ItemsRequest,
    MessageList,
    MetadataRequest,
    StoredCompletion,
    TranslateReply,
    TranslateRequest,
)
from gateway.openapi.responses_reply import AnyEvent, ResponsesReply
from gateway.openapi.responses_request import AnyItem, ResponsesRequest

_DESCRIPTION = """\
A gateway between tool-calling dialects: Chat Completions, the Responses API and legacy functions. \
A client speaks its own dialect, whatever the backend speaks.

Every path works with `/v1` before it and without.
"""

_TYPES: tuple[type, ...] = (
    ChatRequest,
    ChatReply,
    ChatChunk,
    ResponsesRequest,
    ResponsesReply,
    Deleted,
    ItemList,
    Conversation,
    ConversationRequest,
    ItemsRequest,
    MetadataRequest,
    StoredCompletion,
    CompletionList,
    MessageList,
    CompactRequest,
    CompactReply,
    InputTokensRequest,
    InputTokensReply,
    Models,
    Model,
    TranslateRequest,
    TranslateReply,
    Health,
    ErrorEnvelope,
)

# Types whose tag may be left out on the wire; a Struct cannot say that of its tag.
_UNTAGGED = ("MessageItem", "ReferenceItem")

_SERVER = "/v1"
_VERSION = f"{_SERVER}/"

JsonObject = dict[str, Any]


@cache
def schemas() -> dict[str, JsonObject]:
    """Write the types of all requests and answers as JSON Schema, by their names."""
    kinds: tuple[Any, ...] = (*_TYPES, AnyItem, AnyEvent)
    written, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    for name in _UNTAGGED:
        components[name]["required"].remove("type")
    for component in components.values():
        component["description"] = cleandoc(component.get("description", ""))
    components["ResponsesEvent"] = written[-1]
    components["ConversationItem"] = written[-2]
    return {name: _without_null_defaults(components[name]) for name in sorted(components)}


def _without_null_defaults(value: Any) -> Any:
    """Leave out what `null` by default says: that a field may be missing, as is said already."""
    if isinstance(value, list):
        return [_without_null_defaults(one) for one in value]  # pyright: ignore[reportUnknownVariableType] - JSON
    if isinstance(value, dict):
        return {
            name: _without_null_defaults(inner)
            for name, inner in value.items()  # pyright: ignore[reportUnknownVariableType] - JSON
            if not (name == "default" and inner is None)
        }
    return value


@dataclass
class Document(OpenAPI):
    """A document with our types, and with each address once: the server's address has the rest."""

    def to_schema(self) -> JsonObject:
        """Write the whole document."""
        document = super().to_schema()
        paths: JsonObject = document["paths"]
        document["paths"] = {
            path: item for path, item in sorted(paths.items()) if not path.startswith(_VERSION)
        }
        document["components"]["schemas"] = schemas()
        return document


@dataclass
class DocumentConfig(OpenAPIConfig):
    """Makes such a document."""

    def to_openapi_schema(self) -> OpenAPI:
        """Begin the document; the framework adds the addresses."""
        plain = super().to_openapi_schema()
        return Document(**{name: getattr(plain, name) for name in plain.__dataclass_fields__})


async def _refuse_others(request: Request[object, object, State]) -> None:
    """Say in our own words that nothing else is there; the framework has a page of HTML for it."""
    if request.path_params:
        raise NotFoundException


def openapi_config() -> OpenAPIConfig:
    """Configure the document, served as JSON at `/schema` and at `/schema/openapi.json`."""
    return DocumentConfig(
        title="Dragoman",
        version=importlib.metadata.version("dragoman"),
        description=_DESCRIPTION,
        openapi_router=Router(
            "/schema", route_handlers=(), include_in_schema=False, before_request=_refuse_others
        ),
        servers=[Server(url=_SERVER)],
        render_plugins=[JsonRenderPlugin(path=["/", "/openapi.json"])],
        components=Components(
            security_schemes={"key": SecurityScheme(type="http", scheme="bearer")}
        ),
        security=[{"key": []}, {}],
    )
