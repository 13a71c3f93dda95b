"""The dry run of a translation."""

import msgspec
from litestar import Controller, Response, post

from gateway import dry_run
from gateway.api.common import AnyRequest, Authenticated, Context, json_response
from gateway.http.headers import read_headers
from gateway.http.request_body import read_body
from gateway.openapi.document import request_body, responses
from gateway.openapi.objects import TranslateReply, TranslateRequest


class TranslateController(Controller):
    """The endpoint of the dry run."""

    path = "/translate"
    tags = ("Translation",)

    @post(
        status_code=200,
        operation_id="translate",
        summary="Translate without calling a backend",
        dependencies=request_body(TranslateRequest),
        responses=responses(TranslateReply, "The translation.", (400, 401, 413, 415)),
    )
    async def translate(
        self, request: AnyRequest, context: Context, principal: Authenticated
    ) -> Response[bytes]:
        """Translate a request, a reply, an error or a stream, and report the losses."""
        del principal  # Requested only so that the client is authenticated.
        headers = read_headers(request.scope["headers"])
        limit = context.config.server.max_body_bytes
        transforms = {backend.name: backend.transforms for backend in context.router.backends}
        body = await read_body(request.receive, headers, limit)
        result = dry_run.run(body, transforms)
        return json_response(msgspec.json.encode(result))
