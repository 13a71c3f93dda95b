"""Where one can see what would become of a body, without sending it anywhere."""

from collections.abc import Sequence

from litestar import Response, post
from litestar.handlers import HTTPRouteHandler

from gateway import dry_run
from gateway.api.paths import AnyRequest, versioned
from gateway.api.stored import json_response
from gateway.http.auth import Authenticator
from gateway.http.headers import read_headers
from gateway.http.request_body import read_body
from gateway.openapi import TranslateOperation


def translate_handlers(gatekeeper: Authenticator, body_limit: int) -> Sequence[HTTPRouteHandler]:
    """Give the address of the dry run."""

    @post(versioned("/translate"), status_code=200, operation_class=TranslateOperation)
    async def translate(request: AnyRequest) -> Response[bytes]:
        """Translate a request, a reply, an error or a stream; say what is lost."""
        headers = read_headers(request.scope["headers"])
        gatekeeper.authenticate(headers)
        result = dry_run.run(await read_body(request.receive, headers, body_limit))
        return json_response(result)

    return [translate]
