"""Where clients post their requests."""

from collections.abc import Mapping, Sequence

from litestar import get, post, websocket
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler
from litestar.types import ASGIApp

from gateway.api.common import AnyRequest, AnySocket
from gateway.context import AppContext
from gateway.errors import NotFoundError, UpgradeRequiredError
from gateway.openapi.chat_reply import ChatChunk, ChatReply
from gateway.openapi.chat_request import ChatRequest
from gateway.openapi.operations import BACKEND_ERRORS, CreateOperation, request_body, responses
from gateway.openapi.responses_reply import ResponsesEvent, ResponsesReply
from gateway.openapi.responses_request import ResponsesRequest
from gateway.pipeline.handler import Front
from gateway.websocket.connection import open_socket

_COMPLETIONS = "/chat/completions"
_RESPONSES = "/responses"


def fronts(desk: AppContext) -> dict[str, Front]:
    """Give who answers Chat, legacy and Responses clients, by the addresses that they post to."""
    completions, responses = Front("completions", desk), Front("responses", desk)
    by_path = {_COMPLETIONS: completions, _RESPONSES: responses}
    return by_path | {f"/v1{path}": front for path, front in by_path.items()}


def exchange_handlers(
    desk: AppContext, fronts: Mapping[str, ASGIApp]
) -> Sequence[HTTPRouteHandler | WebsocketRouteHandler]:
    """Give the addresses of Chat, legacy and Responses clients."""

    @post(
        _COMPLETIONS,
        status_code=200,
        tags=("Chat Completions",),
        operation_id="createChatCompletion",
        summary="Create a chat completion",
        operation_class=CreateOperation,
        dependencies=request_body(ChatRequest),
        responses=responses(
            ChatReply,
            "The completion, or a stream of chunks with `stream`.",
            BACKEND_ERRORS,
            stream=ChatChunk,
        ),
    )
    async def create_completion() -> ASGIApp:
        """Answer a Chat or a legacy request, in kind."""
        return fronts[_COMPLETIONS]

    @post(
        _RESPONSES,
        status_code=200,
        tags=("Responses",),
        operation_id="createResponse",
        summary="Create a response",
        operation_class=CreateOperation,
        dependencies=request_body(ResponsesRequest),
        responses=responses(
            ResponsesReply,
            "The response, or a stream of events with `stream`.",
            BACKEND_ERRORS,
            stream=ResponsesEvent,
        ),
    )
    async def create_response() -> ASGIApp:
        """Answer a Responses request."""
        return fronts[_RESPONSES]

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
