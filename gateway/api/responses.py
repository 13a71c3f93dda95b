"""Stored responses: retrieval, repetition of events, cancellation and deletion."""

from contextlib import suppress
from typing import Annotated

from litestar import Controller, Response, delete, get, post
from litestar.di import Provide
from litestar.params import PathParameter, QueryParameter
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.api.common import (
    JSON,
    Authenticated,
    Context,
    RequestedPage,
    item_list_response,
    json_response,
    newest_first,
    paginate,
)
from gateway.background import worker
from gateway.background.events import EventReplay
from gateway.context import AppContext
from gateway.errors import ClientDisconnectedError, NotStreamableError, ResponseNotFoundError
from gateway.http.headers import read_headers
from gateway.http.sinks import AsgiSink
from gateway.observability.record import ExchangeRecord
from gateway.openapi import objects
from gateway.openapi.document import STORE_ERRORS, StoredReplyOperation, errors, responses
from gateway.openapi.responses_reply import ResponsesEvent, ResponsesReply
from gateway.store import Response as StoredResponse
from gateway.turns.history import load_full_input, load_turn, read_settings, response_body

ResponseId = Annotated[str, PathParameter(description="The id of the response.")]
StreamFlag = Annotated[
    bool, QueryParameter(description="Send the events of a background response as a stream.")
]
StartingAfter = Annotated[
    int | None, QueryParameter(ge=0, description="Send only events after this `sequence_number`.")
]


class ResponseController(Controller):
    """The endpoints of stored responses."""

    path = "/responses/{response_id:str}"
    tags = ("Responses",)

    @get(
        operation_id="getResponse",
        summary="Return a response or its events",
        description="`include` and `include_obfuscation` are accepted and ignored: responses are "
        "always returned in full, and events are not padded.",
        operation_class=StoredReplyOperation,
        responses=responses(
            ResponsesReply,
            "The response, or a stream of its events with `stream=true`.",
            STORE_ERRORS,
            stream=ResponsesEvent,
        ),
    )
    async def retrieve(
        self,
        context: Context,
        principal: Authenticated,
        response_id: ResponseId,
        *,
        stream: StreamFlag = False,
        starting_after: StartingAfter = None,
    ) -> ASGIApp:
        """Return a response, or the events of a background response."""
        turn = await load_turn(context.store, principal.owner, response_id)
        if not stream:
            losses = read_settings(turn.response).losses
            headers = {"dragoman-loss": losses} if losses else {}
            return ASGIResponse(body=response_body(turn), media_type=JSON, headers=headers)
        if not worker.is_background(turn.response):
            raise NotStreamableError
        return _replay(context, turn.response, -1 if starting_after is None else starting_after)

    @post(
        "/cancel",
        status_code=200,
        operation_id="cancelResponse",
        summary="Cancel a background response",
        responses=responses(ResponsesReply, "The cancelled response.", STORE_ERRORS),
    )
    async def cancel(
        self, context: Context, principal: Authenticated, response_id: ResponseId
    ) -> Response[bytes]:
        """Cancel a background response."""
        lease = context.config.background.lease_duration
        turn = await worker.cancel_response(context.store, principal.owner, response_id, lease)
        return json_response(response_body(turn))

    @delete(
        status_code=200,
        operation_id="deleteResponse",
        summary="Delete a response",
        description="Responses that continue it keep their history.",
        response_description="The response is deleted.",
        responses=errors(STORE_ERRORS),
    )
    async def remove(
        self, context: Context, principal: Authenticated, response_id: ResponseId
    ) -> objects.Deleted:
        """Delete a response; responses that continue it keep their history."""
        # Wake the node that runs the response, so that it stops.
        await context.store.jobs.request_cancel(principal.owner, response_id)
        if not await context.store.responses.delete(principal.owner, response_id):
            raise ResponseNotFoundError(response_id)
        return objects.Deleted(response_id, "response", deleted=True)

    @get(
        "/input_items",
        operation_id="listInputItems",
        summary="List the input items of a response",
        dependencies={"page": Provide(newest_first, sync_to_thread=False)},
        responses=responses(objects.ItemList, "One page of the list.", STORE_ERRORS),
    )
    async def list_input_items(
        self,
        context: Context,
        principal: Authenticated,
        response_id: ResponseId,
        page: RequestedPage,
    ) -> Response[bytes]:
        """Return one page of the input of a response, including earlier turns."""
        items = await load_full_input(context.store, principal.owner, response_id)
        indexes, more = paginate([item.id for item in items], page)
        return item_list_response([items[index] for index in indexes], has_more=more)


def _replay(context: AppContext, response: StoredResponse, after: int) -> ASGIApp:
    """Return an ASGI application that sends the events after a sequence number."""

    async def send_events(scope: Scope, receive: Receive, send: Send) -> None:
        record = ExchangeRecord(scope["path"])
        client = AsgiSink(read_headers(scope["headers"]), receive, send, record)
        interval = context.config.server.heartbeat_interval
        with suppress(ClientDisconnectedError):
            await EventReplay(context.store, response, after, client).run(interval)

    return send_events
