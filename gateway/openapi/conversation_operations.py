"""What the addresses of conversations take and answer."""

from typing import Final

from gateway.openapi.describing import SENT, STORED, Body, ResponseSpec, operation
from gateway.openapi.stored_operations import PAGING

_TAG: Final = "Conversations"
_CONVERSATION: Final = {"conversation_id": "The id of the conversation."}
_ITEM: Final = _CONVERSATION | {"item_id": "The id of the item."}
_INCLUDE: Final = {"include": "Taken, and without effect: all that is kept of an item is shown."}

CreateConversationOperation = operation(
    _TAG,
    "createConversation",
    "Begin a conversation",
    body=Body("ConversationRequest", "What it begins with."),
    answer=ResponseSpec("The conversation.", "Conversation"),
    wrong=SENT,
)
RetrieveConversationOperation = operation(
    _TAG,
    "getConversation",
    "Show a conversation",
    path=_CONVERSATION,
    answer=ResponseSpec("The conversation.", "Conversation"),
    wrong=STORED,
)
UpdateConversationOperation = operation(
    _TAG,
    "updateConversation",
    "Give a conversation other metadata",
    path=_CONVERSATION,
    body=Body("MetadataRequest", "The metadata."),
    answer=ResponseSpec("The conversation.", "Conversation"),
    wrong=SENT,
)
DeleteConversationOperation = operation(
    _TAG,
    "deleteConversation",
    "Forget a conversation",
    path=_CONVERSATION,
    answer=ResponseSpec("It is forgotten.", "Deleted"),
    wrong=STORED,
)
CreateItemsOperation = operation(
    _TAG,
    "createConversationItems",
    "Add items to a conversation",
    path=_CONVERSATION,
    query=_INCLUDE,
    body=Body("ItemsRequest", "The items."),
    answer=ResponseSpec("The items that were added.", "ItemList"),
    wrong=SENT,
)
ListItemsOperation = operation(
    _TAG,
    "listConversationItems",
    "List the items of a conversation",
    path=_CONVERSATION,
    query=PAGING | _INCLUDE,
    answer=ResponseSpec("A part of the list.", "ItemList"),
    wrong=("400", *STORED),
)
RetrieveItemOperation = operation(
    _TAG,
    "getConversationItem",
    "Show an item of a conversation",
    path=_ITEM,
    query=_INCLUDE,
    answer=ResponseSpec("The item.", "ConversationItem"),
    wrong=STORED,
)
DeleteItemOperation = operation(
    _TAG,
    "deleteConversationItem",
    "Take an item out of a conversation",
    path=_ITEM,
    answer=ResponseSpec("The conversation.", "Conversation"),
    wrong=STORED,
)
