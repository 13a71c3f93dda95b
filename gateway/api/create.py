"""The endpoints that create replies: one for each path of a dialect, and the WebSocket."""

from collections.abc import Sequence
from typing import Any

from litestar import get, post, websocket
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler
from litestar.types import ASGIApp

from adapters import dialects_by_path
from adapters.chat import CHAT
from adapters.responses import RESPONSES
from gateway.api.common import AnyRequest, AnySocket, pipeline_app
from gateway.context import CurrentContext
from gateway.errors import NotFoundError, UpgradeRequiredError
from gateway.openapi.chat_reply import ChatChunk, ChatReply
from gateway.openapi.chat_request import ChatRequest
from gateway.openapi.document import (
    BACKEND_ERRORS,
    CreateOperation,
    JsonObject,
    request_body,
    responses,
)
from gateway.openapi.responses_reply import ResponsesEvent, ResponsesReply
from gateway.openapi.responses_request import ResponsesRequest
from gateway.pipeline.handler import create
from gateway.websocket.connection import handle_websocket

# The descriptions of the endpoints in the OpenAPI document, and that of all other dialects.
_DOCUMENTATION: dict[str, dict[str, Any]] = {
    CHAT.path: {
        "tags": ("Chat Completions",),
        "operation_id": "createChatCompletion",
        "summary": "Create a chat completion",
        "description": "The reply has the dialect of the request, Chat Completions or legacy.",
        "dependencies": request_body(ChatRequest),
        "responses": responses(
            ChatReply,
            "The completion, or a stream of chunks with `stream`.",
            BACKEND_ERRORS,
            stream=ChatChunk,
        ),
    },
    RESPONSES.path: {
        "tags": ("Responses",),
        "operation_id": "createResponse",
        "summary": "Create a response",
        "description": "The reply is a response object or a stream of events.",
        "dependencies": request_body(ResponsesRequest),
        "responses": responses(
            ResponsesReply,
            "The response, or a stream of events with `stream`.",
            BACKEND_ERRORS,
            stream=ResponsesEvent,
        ),
    },
}
_OTHER_DOCUMENTATION: dict[str, Any] = {
    "tags": ("Other dialects",),
    "summary": "Create a reply",
    "dependencies": request_body(JsonObject),
    "responses": responses(
        JsonObject,
        "The reply, or a stream of events with `stream`.",
        BACKEND_ERRORS,
        stream=JsonObject,
        error=JsonObject,
    ),
}


def create_handlers(current: CurrentContext) -> Sequence[HTTPRouteHandler | WebsocketRouteHandler]:
    """Return the handlers of the endpoints that create replies."""
    # The first dialect of a path writes errors, because all dialects of a path write the same.
    handlers = [
        _create_handler(path, pipeline_app(current, create, dialects[0]))
        for path, dialects in dialects_by_path().items()
    ]
    return [*handlers, *_websocket_handlers(current)]


def _create_handler(path: str, reply: ASGIApp) -> HTTPRouteHandler:
    documentation = _DOCUMENTATION.get(path, _OTHER_DOCUMENTATION)

    @post(path, status_code=200, operation_class=CreateOperation, **documentation)
    async def create_reply() -> ASGIApp:
        """Create a reply."""
        # The pipeline reads the body itself, within its own limits.
        return reply

    return create_reply


def _websocket_handlers(
    current: CurrentContext,
) -> Sequence[HTTPRouteHandler | WebsocketRouteHandler]:
    @get(RESPONSES.path, include_in_schema=False, sync_to_thread=False)
    def refuse_upgrade(request: AnyRequest) -> None:
        """Refuse a WebSocket with status 426, after which Codex continues with POST at once."""
        if request.headers.get("upgrade", "").lower() == "websocket":
            raise UpgradeRequiredError(
                None, "WebSocket connections are not available for this request; use POST"
            )
        raise NotFoundError(None, "to create a response use POST; to load one, GET /responses/{id}")

    @websocket(RESPONSES.path)
    async def serve_websocket(socket: AnySocket) -> None:
        """Serve the turns of a WebSocket."""
        await handle_websocket(current, socket.scope, socket.receive, socket.send)

    return [refuse_upgrade, serve_websocket]
