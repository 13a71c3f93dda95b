"""Where conversations are begun, shown, labelled and forgotten."""

from collections.abc import Sequence

from litestar import Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from gateway.api.paths import AnyRequest, versioned
from gateway.api.stored import Deleted, json_response, owner_of, read_fields
from gateway.api.stored_conversations import (
    begin_conversation,
    find_conversation,
    not_there,
    shown,
    written,
)
from gateway.context import AppContext
from gateway.openapi.conversation_operations import (
    CreateConversationOperation,
    DeleteConversationOperation,
    RetrieveConversationOperation,
    UpdateConversationOperation,
)
from gateway.turns.items import take_new_metadata

_ONE = versioned("/conversations/{conversation_id:str}")


def conversation_handlers(desk: AppContext) -> Sequence[HTTPRouteHandler]:
    """Give the addresses of conversations."""

    @post(versioned("/conversations"), status_code=200, operation_class=CreateConversationOperation)
    async def create_conversation(request: AnyRequest) -> Response[bytes]:
        """Begin a conversation."""
        owner = owner_of(desk, request)
        asked = await read_fields(desk, request)
        return json_response(shown(await begin_conversation(desk.store, desk.mint, owner, asked)))

    @get(_ONE, operation_class=RetrieveConversationOperation)
    async def get_conversation(
        request: AnyRequest, conversation_id: FromPath[str]
    ) -> Response[bytes]:
        """Show a conversation."""
        owner = owner_of(desk, request)
        return json_response(shown(await find_conversation(desk.store, owner, conversation_id)))

    @post(_ONE, status_code=200, operation_class=UpdateConversationOperation)
    async def update_conversation(
        request: AnyRequest, conversation_id: FromPath[str]
    ) -> Response[bytes]:
        """Give a conversation other metadata."""
        owner = owner_of(desk, request)
        metadata = written(take_new_metadata(await read_fields(desk, request)))
        if not await desk.store.conversations.update_metadata(owner, conversation_id, metadata):
            raise not_there(conversation_id)
        return json_response(shown(await find_conversation(desk.store, owner, conversation_id)))

    @delete(_ONE, status_code=200, operation_class=DeleteConversationOperation)
    async def delete_conversation(
        request: AnyRequest, conversation_id: FromPath[str]
    ) -> Response[bytes]:
        """Forget a conversation; responses that were made in it stay."""
        owner = owner_of(desk, request)
        if not await desk.store.conversations.delete(owner, conversation_id):
            raise not_there(conversation_id)
        return json_response(Deleted(conversation_id, "conversation.deleted"))

    return [create_conversation, get_conversation, update_conversation, delete_conversation]
