"""Where stored responses are read, ended and deleted."""

from collections.abc import Sequence

from litestar import Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.types import ASGIApp

from gateway.api.paths import AnyRequest, versioned
from gateway.api.stored import (
    Deleted,
    json_response,
    owner_of,
    paginate,
    read_page,
    tell_bytes,
    tell_items,
)
from gateway.api.streaming import read_stream, tell_stream, tell_whole
from gateway.background.worker import cancel, is_background
from gateway.context import AppContext
from gateway.errors import NotStreamableError, ResponseNotFoundError
from gateway.openapi import (
    CancelResponseOperation,
    DeleteResponseOperation,
    InputItemsOperation,
    RetrieveResponseOperation,
)
from gateway.turns.history import find_turn, input_of, response_body


def response_handlers(desk: AppContext) -> Sequence[HTTPRouteHandler]:
    """Give the addresses of stored responses."""

    @get(versioned("/responses/{response_id:str}"), operation_class=RetrieveResponseOperation)
    async def get_response(request: AnyRequest, response_id: FromPath[str]) -> ASGIApp:
        """Show a response, or tell its events."""
        owner = owner_of(desk, request)
        after = read_stream(request)
        turn = await find_turn(desk.store, owner, response_id)
        if after is None:
            return tell_whole(response_body(turn))
        if not is_background(turn.response):
            raise NotStreamableError
        return tell_stream(desk, turn.response, after)

    @post(
        versioned("/responses/{response_id:str}/cancel"),
        status_code=200,
        operation_class=CancelResponseOperation,
    )
    async def cancel_response(request: AnyRequest, response_id: FromPath[str]) -> Response[bytes]:
        """End a response that is made in the background."""
        owner = owner_of(desk, request)
        lease = desk.config.background.lease_duration
        return tell_bytes(response_body(await cancel(desk.store, owner, response_id, lease)))

    @delete(
        versioned("/responses/{response_id:str}"),
        status_code=200,
        operation_class=DeleteResponseOperation,
    )
    async def delete_response(request: AnyRequest, response_id: FromPath[str]) -> Response[bytes]:
        """Forget a response; those that continue it keep what they stand on."""
        owner = owner_of(desk, request)
        # Whoever works at it is called by this, and then finds that there is nothing left to do.
        await desk.store.jobs.request_cancel(owner, response_id)
        if not await desk.store.responses.delete(owner, response_id):
            raise ResponseNotFoundError(response_id)
        return json_response(Deleted(response_id, "response"))

    @get(versioned("/responses/{response_id:str}/input_items"), operation_class=InputItemsOperation)
    async def list_input_items(request: AnyRequest, response_id: FromPath[str]) -> Response[bytes]:
        """List what a response was made from, the turns before it included."""
        owner = owner_of(desk, request)
        page = read_page(request, newest_first=True)
        items = await input_of(desk.store, owner, response_id)
        places, more = paginate([item.id for item in items], page)
        return tell_items([items[place] for place in places], more=more)

    return [get_response, cancel_response, delete_response, list_input_items]
