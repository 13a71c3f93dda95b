"""Where the items of conversations are added, listed, shown and taken out.

`include` is not asked about: of an item everything is shown that is kept of it.
"""

from collections.abc import Sequence

from litestar import Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from gateway.api.paths import AnyRequest, versioned
from gateway.api.stored import (
    json_response,
    owner_of,
    read_fields,
    read_page,
    tell_bytes,
    tell_items,
    unknown_after,
)
from gateway.api.stored_conversations import append_items, find_conversation, shown
from gateway.context import AppContext
from gateway.errors import ItemNotFoundError
from gateway.openapi.conversation_operations import (
    CreateItemsOperation,
    DeleteItemOperation,
    ListItemsOperation,
    RetrieveItemOperation,
)

_ALL = versioned("/conversations/{conversation_id:str}/items")
_ONE = versioned("/conversations/{conversation_id:str}/items/{item_id:str}")


def conversation_item_handlers(desk: AppContext) -> Sequence[HTTPRouteHandler]:
    """Give the addresses of the items of conversations."""

    @post(_ALL, status_code=200, operation_class=CreateItemsOperation)
    async def create_items(request: AnyRequest, conversation_id: FromPath[str]) -> Response[bytes]:
        """Add items to the end of a conversation; answer with them."""
        owner = owner_of(desk, request)
        asked = await read_fields(desk, request)
        made = await append_items(desk.store, desk.mint, owner, conversation_id, asked)
        return tell_items(made, more=False)

    @get(_ALL, operation_class=ListItemsOperation)
    async def list_items(request: AnyRequest, conversation_id: FromPath[str]) -> Response[bytes]:
        """List the items of a conversation."""
        owner = owner_of(desk, request)
        page = read_page(request, newest_first=True)
        listing = await desk.store.conversations.list_items(owner, conversation_id, page)
        if listing is None:
            await find_conversation(desk.store, owner, conversation_id)
            raise unknown_after(page)
        return tell_items(listing.data, more=listing.has_more, cursor=listing.cursor)

    @get(_ONE, operation_class=RetrieveItemOperation)
    async def get_item(
        request: AnyRequest, conversation_id: FromPath[str], item_id: FromPath[str]
    ) -> Response[bytes]:
        """Show an item of a conversation."""
        owner = owner_of(desk, request)
        item = await desk.store.conversations.load_item(owner, conversation_id, item_id)
        if item is None:
            await find_conversation(desk.store, owner, conversation_id)
            raise ItemNotFoundError("item_id", item_id)
        return tell_bytes(bytes(item.body))

    @delete(_ONE, status_code=200, operation_class=DeleteItemOperation)
    async def delete_item(
        request: AnyRequest, conversation_id: FromPath[str], item_id: FromPath[str]
    ) -> Response[bytes]:
        """Take an item out of a conversation; answer with the conversation."""
        owner = owner_of(desk, request)
        conversation = await find_conversation(desk.store, owner, conversation_id)
        if not await desk.store.conversations.delete_item(owner, conversation_id, item_id):
            raise ItemNotFoundError("item_id", item_id)
        return json_response(shown(conversation))

    return [create_items, list_items, get_item, delete_item]
