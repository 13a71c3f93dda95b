"""Conversations and their items."""

from typing import Annotated, Final

import msgspec
from litestar import Controller, Response, delete, get, post
from litestar.di import Provide
from litestar.params import PathParameter
from msgspec import Raw

from adapters import InvalidRequestError
from adapters.wire.json_object import MISSING, JsonObject
from gateway.api.common import (
    AnyRequest,
    Authenticated,
    Context,
    RequestedPage,
    item_list_response,
    json_response,
    newest_first,
    read_fields,
    unknown_cursor,
)
from gateway.context import AppContext
from gateway.errors import ConversationNotFoundError, ItemNotFoundError
from gateway.openapi import objects
from gateway.openapi.document import BODY_ERRORS, STORE_ERRORS, errors, request_body, responses
from gateway.store import Conversation, Item
from gateway.turns.history import resolve_item_references
from gateway.turns.items import to_stored_item
from gateway.turns.metadata import read_metadata, read_metadata_update, reject_unknown_fields

# OpenAI's limit: "You may add up to 20 items at a time".
_MAX_NEW_ITEMS: Final = 20
_INCLUDE_NOTE: Final = "`include` is accepted and ignored: items are always returned in full."

_METADATA: Final = msgspec.json.Decoder(dict[str, str])
_ENCODER: Final = msgspec.json.Encoder()

ConversationId = Annotated[str, PathParameter(description="The id of the conversation.")]
ItemId = Annotated[str, PathParameter(description="The id of the item.")]


class ConversationController(Controller):
    """The endpoints of conversations, without their items."""

    path = "/conversations"
    tags = ("Conversations",)

    @post(
        status_code=200,
        operation_id="createConversation",
        summary="Create a conversation",
        dependencies=request_body(objects.ConversationRequest),
        response_description="The conversation.",
        responses=errors(BODY_ERRORS),
    )
    async def create(
        self, request: AnyRequest, context: Context, principal: Authenticated
    ) -> objects.Conversation:
        """Create a conversation."""
        fields = await read_fields(request, context)
        metadata = read_metadata(fields.raw("metadata") or MISSING)
        items = await _new_items(context, principal.owner, fields)
        reject_unknown_fields(fields)
        ids = context.ids
        conversation = Conversation(
            ids.id("conv_"), principal.owner, ids.now(), _encode_metadata(metadata)
        )
        await context.store.conversations.create(conversation, items)
        return _to_object(conversation)

    @get(
        "/{conversation_id:str}",
        operation_id="getConversation",
        summary="Return a conversation",
        response_description="The conversation.",
        responses=errors(STORE_ERRORS),
    )
    async def retrieve(
        self, context: Context, principal: Authenticated, conversation_id: ConversationId
    ) -> objects.Conversation:
        """Return a conversation; its items are listed separately."""
        return _to_object(await _find(context, principal.owner, conversation_id))

    @post(
        "/{conversation_id:str}",
        status_code=200,
        operation_id="updateConversation",
        summary="Replace the metadata of a conversation",
        dependencies=request_body(objects.MetadataRequest),
        response_description="The conversation.",
        responses=errors(BODY_ERRORS),
    )
    async def update(
        self,
        request: AnyRequest,
        context: Context,
        principal: Authenticated,
        conversation_id: ConversationId,
    ) -> objects.Conversation:
        """Replace the metadata of a conversation."""
        metadata = _encode_metadata(read_metadata_update(await read_fields(request, context)))
        owner = principal.owner
        if not await context.store.conversations.update_metadata(owner, conversation_id, metadata):
            raise _not_found(conversation_id)
        return _to_object(await _find(context, owner, conversation_id))

    @delete(
        "/{conversation_id:str}",
        status_code=200,
        operation_id="deleteConversation",
        summary="Delete a conversation",
        description="Responses of the conversation are not deleted.",
        response_description="The conversation is deleted.",
        responses=errors(STORE_ERRORS),
    )
    async def remove(
        self, context: Context, principal: Authenticated, conversation_id: ConversationId
    ) -> objects.Deleted:
        """Delete a conversation; its responses are kept."""
        if not await context.store.conversations.delete(principal.owner, conversation_id):
            raise _not_found(conversation_id)
        return objects.Deleted(conversation_id, "conversation.deleted", deleted=True)


class ConversationItemController(Controller):
    """The endpoints of the items of a conversation."""

    path = "/conversations/{conversation_id:str}/items"
    tags = ("Conversations",)

    @post(
        status_code=200,
        operation_id="createConversationItems",
        summary="Add items to a conversation",
        description=_INCLUDE_NOTE,
        dependencies=request_body(objects.ItemsRequest),
        responses=responses(objects.ItemList, "The added items.", BODY_ERRORS),
    )
    async def create(
        self,
        request: AnyRequest,
        context: Context,
        principal: Authenticated,
        conversation_id: ConversationId,
    ) -> Response[bytes]:
        """Append all items of a request to a conversation, or none if one is invalid."""
        fields = await read_fields(request, context)
        owner = principal.owner
        # An unknown conversation is reported before errors in the items.
        await _find(context, owner, conversation_id)
        items = await _new_items(context, owner, fields)
        if not items:
            raise InvalidRequestError("items", "must not be empty")
        reject_unknown_fields(fields)
        if not await context.store.conversations.append_items(owner, conversation_id, items):
            raise _not_found(conversation_id)
        return item_list_response(items, has_more=False)

    @get(
        operation_id="listConversationItems",
        summary="List the items of a conversation",
        description=_INCLUDE_NOTE,
        dependencies={"page": Provide(newest_first, sync_to_thread=False)},
        responses=responses(objects.ItemList, "One page of the list.", STORE_ERRORS),
    )
    async def list_items(
        self,
        context: Context,
        principal: Authenticated,
        conversation_id: ConversationId,
        page: RequestedPage,
    ) -> Response[bytes]:
        """Return one page of the items of a conversation."""
        owner = principal.owner
        listing = await context.store.conversations.list_items(owner, conversation_id, page)
        if listing is None:
            await _find(context, owner, conversation_id)
            raise unknown_cursor(page)
        return item_list_response(listing.data, has_more=listing.has_more, cursor=listing.cursor)

    @get(
        "/{item_id:str}",
        operation_id="getConversationItem",
        summary="Return an item of a conversation",
        description=_INCLUDE_NOTE,
        responses=responses(objects.ConversationItem, "The item.", STORE_ERRORS),
    )
    async def retrieve(
        self,
        context: Context,
        principal: Authenticated,
        conversation_id: ConversationId,
        item_id: ItemId,
    ) -> Response[bytes]:
        """Return an item of a conversation."""
        owner = principal.owner
        item = await context.store.conversations.load_item(owner, conversation_id, item_id)
        if item is None:
            await _find(context, owner, conversation_id)
            raise ItemNotFoundError("item_id", item_id)
        return json_response(item.body)

    @delete(
        "/{item_id:str}",
        status_code=200,
        operation_id="deleteConversationItem",
        summary="Remove an item from a conversation",
        response_description="The conversation.",
        responses=errors(STORE_ERRORS),
    )
    async def remove(
        self,
        context: Context,
        principal: Authenticated,
        conversation_id: ConversationId,
        item_id: ItemId,
    ) -> objects.Conversation:
        """Remove an item from a conversation and return the conversation."""
        owner = principal.owner
        conversation = await _find(context, owner, conversation_id)
        if not await context.store.conversations.delete_items(owner, conversation_id, item_id):
            raise ItemNotFoundError("item_id", item_id)
        return _to_object(conversation)


async def _find(context: AppContext, owner: str, conversation_id: str) -> Conversation:
    """Load a conversation of an owner; raise `ConversationNotFoundError` if it does not exist."""
    conversation = await context.store.conversations.load(owner, conversation_id)
    if conversation is None:
        raise _not_found(conversation_id)
    return conversation


def _not_found(conversation_id: str) -> ConversationNotFoundError:
    return ConversationNotFoundError(conversation_id, "conversation_id")


def _to_object(conversation: Conversation) -> objects.Conversation:
    metadata = _METADATA.decode(conversation.metadata)
    return objects.Conversation(conversation.id, "conversation", conversation.created, metadata)


def _encode_metadata(metadata: dict[str, str]) -> Raw:
    return Raw(_ENCODER.encode(metadata))


async def _new_items(context: AppContext, owner: str, fields: JsonObject) -> tuple[Item, ...]:
    """Read the items of a request, and resolve references to stored items."""
    given = fields.array("items")
    if len(given) > _MAX_NEW_ITEMS:
        raise InvalidRequestError("items", f"must have at most {_MAX_NEW_ITEMS} items")
    resolved = await resolve_item_references(context.store, owner, given, (), "items")
    return tuple(
        one if isinstance(one, Item) else to_stored_item(one, context.ids, f"items[{index}]")
        for index, one in enumerate(resolved)
    )
