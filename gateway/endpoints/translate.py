"""Where one can see what would become of a body, without sending it anywhere."""

from collections.abc import Sequence

from litestar import Response, post
from litestar.handlers import HTTPRouteHandler

from gateway import dry_run
from gateway.access import Gatekeeper
from gateway.bodies import read_body
from gateway.endpoints.addresses import AnyRequest, both
from gateway.endpoints.stored import tell
from gateway.headers import read_headers
from gateway.schema import TranslateOperation


def translate_handlers(gatekeeper: Gatekeeper, body_limit: int) -> Sequence[HTTPRouteHandler]:
    """Give the address of the dry run."""

    @post(both("/translate"), status_code=200, operation_class=TranslateOperation)
    async def translate(request: AnyRequest) -> Response[bytes]:
        """Translate a request, a reply, an error or a stream; say what is lost."""
        headers = read_headers(request.scope["headers"])
        gatekeeper.admit(headers)
        result = dry_run.run(await read_body(request.receive, headers, body_limit))
        return tell(result)

    return [translate]
