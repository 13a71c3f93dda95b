"""Where stored chat completions are listed, shown, labelled and forgotten."""

import re
from collections.abc import Sequence
from typing import Final

from litestar import Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from gateway.api.paths import AnyRequest, versioned
from gateway.api.stored import (
    Deleted,
    json_response,
    list_response,
    owner_of,
    paginate,
    read_fields,
    read_page,
    tell_bytes,
    unknown_after,
)
from gateway.api.stored_completions import find_completion, shown_completion, shown_messages
from gateway.context import AppContext
from gateway.errors import CompletionNotFoundError
from gateway.openapi.completion_operations import (
    DeleteCompletionOperation,
    ListCompletionsOperation,
    ListMessagesOperation,
    RetrieveCompletionOperation,
    UpdateCompletionOperation,
)
from gateway.turns.items import check_metadata, take_new_metadata

_ONE = versioned("/chat/completions/{completion_id:str}")
# How a query names what the metadata are to hold.
_LABEL: Final = re.compile(r"metadata\[(.*)\]", re.DOTALL)


def completion_handlers(desk: AppContext) -> Sequence[HTTPRouteHandler]:
    """Give the addresses of stored completions."""
    return [*_list_handlers(desk), *_single_handlers(desk)]


def _list_handlers(desk: AppContext) -> Sequence[HTTPRouteHandler]:
    @get(versioned("/chat/completions"), operation_class=ListCompletionsOperation)
    async def list_completions(request: AnyRequest) -> Response[bytes]:
        """List completions, the oldest first."""
        owner = owner_of(desk, request)
        page = read_page(request, newest_first=False)
        model = request.query_params.get("model")
        listing = await desk.store.completions.list(owner, page, model, _labels(request))
        if listing is None:
            raise unknown_after(page)
        bodies = [shown_completion(one) for one in listing.data]
        return list_response([one.id for one in listing.data], bodies, more=listing.has_more)

    @get(
        versioned("/chat/completions/{completion_id:str}/messages"),
        operation_class=ListMessagesOperation,
    )
    async def list_messages(request: AnyRequest, completion_id: FromPath[str]) -> Response[bytes]:
        """List the messages that a completion answers, the oldest first."""
        owner = owner_of(desk, request)
        page = read_page(request, newest_first=False)
        messages = shown_messages(await find_completion(desk.store, owner, completion_id))
        names = [*messages]
        places, more = paginate(names, page)
        part = [names[place] for place in places]
        return list_response(part, [messages[name] for name in part], more=more)

    return [list_completions, list_messages]


def _single_handlers(desk: AppContext) -> Sequence[HTTPRouteHandler]:
    @get(_ONE, operation_class=RetrieveCompletionOperation)
    async def get_completion(request: AnyRequest, completion_id: FromPath[str]) -> Response[bytes]:
        """Show a completion."""
        owner = owner_of(desk, request)
        found = await find_completion(desk.store, owner, completion_id)
        return tell_bytes(bytes(shown_completion(found)))

    @post(_ONE, status_code=200, operation_class=UpdateCompletionOperation)
    async def update_completion(
        request: AnyRequest, completion_id: FromPath[str]
    ) -> Response[bytes]:
        """Give a completion other metadata."""
        owner = owner_of(desk, request)
        metadata = take_new_metadata(await read_fields(desk, request))
        if not await desk.store.completions.update_metadata(owner, completion_id, metadata):
            raise CompletionNotFoundError(completion_id)
        found = await find_completion(desk.store, owner, completion_id)
        return tell_bytes(bytes(shown_completion(found)))

    @delete(_ONE, status_code=200, operation_class=DeleteCompletionOperation)
    async def delete_completion(
        request: AnyRequest, completion_id: FromPath[str]
    ) -> Response[bytes]:
        """Forget a completion."""
        owner = owner_of(desk, request)
        if not await desk.store.completions.delete(owner, completion_id):
            raise CompletionNotFoundError(completion_id)
        return json_response(Deleted(completion_id, "chat.completion.deleted"))

    return [get_completion, update_completion, delete_completion]


def _labels(request: AnyRequest) -> dict[str, str]:
    """Read which metadata are asked for."""
    given = ((_LABEL.fullmatch(name), value) for name, value in request.query_params.items())
    return check_metadata({name[1]: value for name, value in given if name})
