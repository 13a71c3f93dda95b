"""Endpoints for operators: health checks and the OpenAPI document."""

import msgspec
from litestar import Controller, Response, get, head
from litestar.enums import OpenAPIMediaType

from gateway.api.common import AnyRequest
from gateway.openapi.common import Health


class OperationsController(Controller):
    """The endpoints for health checks."""

    tags = ("Operations",)

    @get(
        "/health",
        sync_to_thread=False,
        operation_id="getHealth",
        summary="Check that the process is alive",
        response_description="The process is alive.",
    )
    def health(self) -> Health:
        """Return `ok`: a process that responds is alive."""
        return Health("ok")

    @get(
        "/ready",
        sync_to_thread=False,
        operation_id="getReadiness",
        summary="Check that requests are accepted",
        response_description="Requests are accepted.",
    )
    def ready(self) -> Health:
        """Return `ready`: during shutdown, no connection would be accepted."""
        return Health("ready")

    @head(["/health", "/ready"], sync_to_thread=False, include_in_schema=False)
    def status(self) -> None:
        """Return the status without a body."""


# Only with the prefix `/v1`, because Litestar itself serves the document without it.
@get(["/v1/schema", "/v1/schema/openapi.json"], include_in_schema=False, sync_to_thread=False)
def openapi_document(request: AnyRequest) -> Response[bytes]:
    """Return the OpenAPI document."""
    document = msgspec.json.encode(request.app.openapi_schema.to_schema())
    return Response(document, media_type=OpenAPIMediaType.OPENAPI_JSON)
