"""The OpenAPI document: Litestar describes the operations, msgspec the types.

Handlers declare their requests and responses with `request_body`, `responses` and the classes of
operations.
"""

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, Final

import msgspec
from litestar import Request, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import NotFoundException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import (
    Components,
    OpenAPIHeader,
    OpenAPIResponse,
    Operation,
    Schema,
    SecurityScheme,
    Server,
    ServerVariable,
)
from litestar.openapi.spec.enums import OpenAPIType
from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition

from gateway.openapi.common import ErrorBody

_DESCRIPTION: Final = """\
A gateway between tool-calling dialects: Chat Completions, the Responses API and legacy functions. \
Clients use their own dialect, whatever the dialect of the backend is.

Every path is served with the prefixes `/v1`, `/openai/v1` and `/openai`, and without a prefix.
"""
# Items whose `type` may be omitted. A Struct cannot declare its tag optional.
_TYPE_OPTIONAL: Final = ("MessageItem", "ReferenceItem")

JsonObject = dict[str, Any]
_ERRORS: Final = {
    400: "The request is invalid or cannot be translated for the backend.",
    401: "The API key is missing or unknown.",
    404: "The object does not exist, or no backend serves the model.",
    413: "The request body is too large.",
    415: "The content encoding of the request body is not supported.",
    429: "The backend limits requests. `Retry-After` is passed on if the backend sends it.",
    500: "The backend or the gateway failed.",
    502: "The backend cannot be reached, or its reply is invalid.",
    503: "The gateway's database is not available.",
    504: "The backend timed out.",
}
# The error statuses of endpoints that read the store, that also read a body, that call a backend.
STORE_ERRORS: Final = (400, 401, 404, 503)
BODY_ERRORS: Final = (*STORE_ERRORS, 413, 415)
BACKEND_ERRORS: Final = tuple(_ERRORS)

# Litestar takes one media type for each status. A stream is declared under this number, and
# `StreamOperation` adds it to the response with status 200.
_STREAM: Final = 0
_PREFIXES: Final = ("/v1", "/openai/v1")
# The paths of Azure, and of the parameter `engine` of old SDKs.
_MODEL_PREFIXES: Final = ("/openai/deployments/{model}", "/v1/engines/{model}")
_PATH_VARIABLES: Final = {
    "model": ServerVariable(default="demo", description="The model of a request without `model`.")
}
_LOSS_HEADER: Final = OpenAPIHeader(
    schema=Schema(type=OpenAPIType.STRING),
    description="Losses of the translation, as a structured-field list (RFC 9651).",
)


class SchemaPlugin(OpenAPISchemaPlugin):
    """Collects the types of operations, whose schemas are written by msgspec.

    Litestar's own schemas of Structs have no docstrings and no discriminators.
    """

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}

    def is_plugin_supported_field(self, field_definition: FieldDefinition) -> bool:
        """Whether the type is a Struct."""
        return field_definition.is_subclass_of(msgspec.Struct)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: Any) -> Schema:
        """Return an empty component, which makes Litestar refer to the type by its name."""
        kind: type = field_definition.annotation
        self._types[kind.__name__] = getattr(kind, "union", kind)
        schema: Schema = schema_creator.create_component_schema(
            field_definition, required=[], property_fields={}
        )
        return schema

    def schemas(self) -> dict[str, JsonObject]:
        """Return the JSON Schemas of the collected types, and of all types in them."""
        roots, components = msgspec.json.schema_components(
            self._types.values(), ref_template="#/components/schemas/{name}"
        )
        for component in components.values():
            component["description"] = cleandoc(component.get("description", ""))
        # A union is not a component of msgspec, because only its members have names.
        components |= {
            name: root for name, root in zip(self._types, roots, strict=True) if "$ref" not in root
        }
        for name in _TYPE_OPTIONAL:
            components[name]["required"].remove("type")
        return {name: _without_null_defaults(components[name]) for name in sorted(components)}


def _without_null_defaults(value: Any) -> Any:
    """Remove `"default": null`, which only repeats that a field is optional."""
    if isinstance(value, list):
        return [_without_null_defaults(one) for one in value]  # pyright: ignore[reportUnknownVariableType] - JSON
    if isinstance(value, dict):
        return {
            name: _without_null_defaults(inner)
            for name, inner in value.items()  # pyright: ignore[reportUnknownVariableType] - JSON
            if not (name == "default" and inner is None)
        }
    return value


class TypeComponents(Components):
    """Components with the schemas of a plugin."""

    def __init__(self, plugin: SchemaPlugin) -> None:
        super().__init__(
            security_schemes={
                "key": SecurityScheme(type="http", scheme="bearer"),
                "api_key": SecurityScheme(
                    type="apiKey",
                    name="api-key",
                    security_scheme_in="header",
                    description="The header of Azure clients.",
                ),
            }
        )
        self._plugin = plugin

    def __deepcopy__(self, _: object) -> "TypeComponents":
        # Not a copy, because Litestar copies the components before any type is collected.
        return self

    def to_schema(self) -> JsonObject:
        """Return the components with the collected schemas."""
        return super().to_schema() | {"schemas": self._plugin.schemas()}


async def _refuse_other_paths(request: Request[object, object, State]) -> None:
    """Raise 404 for paths without a document, for which Litestar would send an HTML page."""
    if request.path_params:
        raise NotFoundException


def openapi_config(plugin: SchemaPlugin) -> OpenAPIConfig:
    """Return the configuration of the document, which is only served as JSON."""
    return OpenAPIConfig(
        title="Dragoman",
        version=importlib.metadata.version("dragoman"),
        description=_DESCRIPTION,
        openapi_router=Router(
            "/schema",
            route_handlers=(),
            include_in_schema=False,
            before_request=_refuse_other_paths,
        ),
        servers=[Server(url=prefix) for prefix in _PREFIXES],
        render_plugins=[JsonRenderPlugin(path=["/", "/openapi.json"])],
        components=TypeComponents(plugin),
        security=[{"key": []}, {"api_key": []}, {}],
    )


def errors(statuses: Sequence[int], body: type = ErrorBody) -> dict[int, ResponseSpec]:
    """Return the error responses with these statuses."""
    return {
        status: ResponseSpec(body, description=_ERRORS[status], generate_examples=False)
        for status in statuses
    }


def responses(
    reply: type,
    description: str,
    statuses: Sequence[int],
    *,
    stream: type | None = None,
    error: type = ErrorBody,
) -> dict[int, ResponseSpec]:
    """Return the reply and the errors of a handler that returns bytes."""
    declared = {200: ResponseSpec(reply, description=description, generate_examples=False)}
    if stream is not None:
        declared[_STREAM] = ResponseSpec(
            stream, media_type="text/event-stream", generate_examples=False
        )
    return declared | errors(statuses, error)


def request_body(model: type) -> dict[str, Provide]:
    """Declare the body of a request that the handler reads itself.

    Litestar documents the `data` of every dependency, and decodes it only for dependencies that the
    handler requests. This one is never requested.
    """

    async def declare_body(data: Any) -> None:
        del data

    declare_body.__annotations__["data"] = model
    return {"request_body": Provide(declare_body)}


@dataclass
class StreamOperation(Operation):
    """An operation whose reply is JSON or a stream."""

    def __post_init__(self) -> None:
        """Add the stream to the response with status 200."""
        declared = self.responses or {}
        reply, stream = declared["200"], declared.pop(str(_STREAM))
        if isinstance(reply, OpenAPIResponse) and isinstance(stream, OpenAPIResponse):
            reply.content = (reply.content or {}) | (stream.content or {})


@dataclass
class TranslatedOperation(Operation):
    """An operation whose response reports losses in a header."""

    def __post_init__(self) -> None:
        """Add the header to the response with status 200."""
        reply = (self.responses or {})["200"]
        if isinstance(reply, OpenAPIResponse):
            reply.headers = {"dragoman-loss": _LOSS_HEADER}


@dataclass
class StoredReplyOperation(StreamOperation, TranslatedOperation):
    """An operation that returns a stored response, with the losses of its exchange."""

    def __post_init__(self) -> None:
        """Add the stream and the header."""
        StreamOperation.__post_init__(self)
        TranslatedOperation.__post_init__(self)


@dataclass
class CreateOperation(StreamOperation, TranslatedOperation):
    """An operation that creates a reply through a backend."""

    def __post_init__(self) -> None:
        """Add the stream, the header and the paths that name the model."""
        StreamOperation.__post_init__(self)
        TranslatedOperation.__post_init__(self)
        self.servers = [
            *(Server(url=prefix) for prefix in _PREFIXES),
            *(Server(url=prefix, variables=_PATH_VARIABLES) for prefix in _MODEL_PREFIXES),
        ]
