"""The OpenAPI document: operations by Litestar, types by msgspec."""

import importlib.metadata
from inspect import cleandoc
from typing import Any, Final

import msgspec
from litestar import Request, Router
from litestar.datastructures import State
from litestar.exceptions import NotFoundException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, Schema, SecurityScheme, Server
from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition

_DESCRIPTION: Final = """\
A gateway between tool-calling dialects: Chat Completions, the Responses API and legacy functions. \
Clients use their own dialect, whatever the dialect of the backend is.

Every path is served with and without the prefix `/v1`.
"""
# Items whose `type` may be omitted. A Struct cannot declare its tag optional.
_TYPE_OPTIONAL: Final = ("MessageItem", "ReferenceItem")

JsonObject = dict[str, Any]


class SchemaPlugin(OpenAPISchemaPlugin):
    """Collects the types that operations name, to be described by msgspec.

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
        # Unions have no name of their own, so msgspec returns them in place.
        components |= {
            name: root for name, root in zip(self._types, roots, strict=True) if "$ref" not in root
        }
        for name in _TYPE_OPTIONAL:
            components[name]["required"].remove("type")
        return {name: _without_null_defaults(components[name]) for name in sorted(components)}


def _without_null_defaults(value: Any) -> Any:
    """Remove `"default": null`, which says no more than that a field is optional."""
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
        super().__init__(security_schemes={"key": SecurityScheme(type="http", scheme="bearer")})
        self._plugin = plugin

    def __deepcopy__(self, _: object) -> "TypeComponents":
        # Litestar copies the components before the plugin has collected any type.
        return self

    def to_schema(self) -> JsonObject:
        """Return the components as they stand in the document."""
        return super().to_schema() | {"schemas": self._plugin.schemas()}


async def _refuse_other_paths(request: Request[object, object, State]) -> None:
    """Raise 404 for other paths, for which Litestar would send an HTML page."""
    if request.path_params:
        raise NotFoundException


def openapi_config(plugin: SchemaPlugin) -> OpenAPIConfig:
    """Return the configuration of the document, which is served as JSON."""
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
        servers=[Server(url="/v1")],
        render_plugins=[JsonRenderPlugin(path=["/", "/openapi.json"])],
        components=TypeComponents(plugin),
        security=[{"key": []}, {}],
    )
