"""Where clients learn which models there are."""

from collections.abc import Sequence

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from gateway.api.paths import AnyRequest, versioned
from gateway.api.stored import tell_bytes
from gateway.backends.models import ModelList
from gateway.http.auth import Authenticator
from gateway.http.headers import read_headers
from gateway.openapi import ModelOperation, ModelsOperation


def model_handlers(gatekeeper: Authenticator, models: ModelList) -> Sequence[HTTPRouteHandler]:
    """Give the addresses of the models."""

    @get(versioned("/models"), operation_class=ModelsOperation)
    async def list_models(request: AnyRequest) -> Response[bytes]:
        """List the models of all backends, for OpenAI's clients and for Codex at once."""
        caller = gatekeeper.authenticate(read_headers(request.scope["headers"]))
        return tell_bytes(await models.get(caller.authorization))

    @get(versioned("/models/{name:path}"), operation_class=ModelOperation)
    async def get_model(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        """Show one model."""
        caller = gatekeeper.authenticate(read_headers(request.scope["headers"]))
        return tell_bytes(await models.find(caller.authorization, name.removeprefix("/")))

    return [list_models, get_model]
