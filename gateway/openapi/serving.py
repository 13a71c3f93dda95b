"""Where the document is under `/v1`; without it, the framework serves it by itself."""

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.enums import OpenAPIMediaType


@get(["/v1/schema", "/v1/schema/openapi.json"], include_in_schema=False, sync_to_thread=False)
def show_schema(request: Request[object, object, State]) -> Response[bytes]:
    """Show the document."""
    document = msgspec.json.encode(request.app.openapi_schema.to_schema())
    return Response(document, media_type=OpenAPIMediaType.OPENAPI_JSON)
