"""Where clients post their requests."""

from collections.abc import Mapping, Sequence

from litestar import get, post, websocket
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler
from litestar.types import ASGIApp

from gateway.api.paths import AnyRequest, AnySocket, versioned
from gateway.context import AppContext
from gateway.errors import NotFoundError, UpgradeRequiredError
from gateway.openapi import ChatOperation, ResponsesOperation
from gateway.pipeline.handler import Front
from gateway.websocket.connection import open_socket

_COMPLETIONS = versioned("/chat/completions")
_RESPONSES = versioned("/responses")


def fronts(desk: AppContext) -> dict[str, Front]:
    """Give who answers Chat, legacy and Responses clients, by the addresses that they post to."""
    completions, responses = Front("completions", desk), Front("responses", desk)
    return dict.fromkeys(_COMPLETIONS, completions) | dict.fromkeys(_RESPONSES, responses)


def exchange_handlers(
    desk: AppContext, fronts: Mapping[str, ASGIApp]
) -> Sequence[HTTPRouteHandler | WebsocketRouteHandler]:
    """Give the addresses of Chat, legacy and Responses clients."""

    @post(_COMPLETIONS, status_code=200, operation_class=ChatOperation)
    async def create_completion() -> ASGIApp:
        """Answer a Chat or a legacy request, in kind."""
        return fronts[_COMPLETIONS[0]]

    @post(_RESPONSES, status_code=200, operation_class=ResponsesOperation)
    async def create_response() -> ASGIApp:
        """Answer a Responses request."""
        return fronts[_RESPONSES[0]]

    @get(_RESPONSES, include_in_schema=False, sync_to_thread=False)
    def refuse_socket(request: AnyRequest) -> None:
        """Refuse a WebSocket so that Codex at once does without: only 426 does that (P171)."""
        if request.headers.get("upgrade", "").lower() == "websocket":
            raise UpgradeRequiredError(
                None, "no WebSocket is opened for this; POST to this address"
            )
        raise NotFoundError(None, "responses are made with POST; each has an address of its own")

    @websocket(_RESPONSES)
    async def serve_socket(socket: AnySocket) -> None:
        """Answer turn after turn over a WebSocket."""
        await open_socket(desk, socket.scope, socket.receive, socket.send)

    return [create_completion, create_response, refuse_socket, serve_socket]
