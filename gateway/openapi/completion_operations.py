"""What the addresses of stored completions take and answer."""

from typing import Final

from gateway.openapi.describing import SENT, STORED, Body, ResponseSpec, operation
from gateway.openapi.stored_operations import PAGING

_TAG: Final = "Chat Completions"
_COMPLETION: Final = {"completion_id": "The id of the completion."}
_FILTERS: Final = {
    "model": "Only completions of this model, by the name that was asked for.",
    "metadata": "Only completions with this: `metadata[name]=value`, for each name.",
}

ListCompletionsOperation = operation(
    _TAG,
    "listChatCompletions",
    "List stored completions",
    query=PAGING | _FILTERS,
    answer=ResponseSpec("A part of the list.", "CompletionList"),
    wrong=("400", *STORED),
)
RetrieveCompletionOperation = operation(
    _TAG,
    "getChatCompletion",
    "Show a stored completion",
    path=_COMPLETION,
    answer=ResponseSpec("The completion.", "StoredCompletion"),
    wrong=STORED,
)
UpdateCompletionOperation = operation(
    _TAG,
    "updateChatCompletion",
    "Give a stored completion other metadata",
    path=_COMPLETION,
    body=Body("MetadataRequest", "The metadata."),
    answer=ResponseSpec("The completion.", "StoredCompletion"),
    wrong=SENT,
)
DeleteCompletionOperation = operation(
    _TAG,
    "deleteChatCompletion",
    "Forget a stored completion",
    path=_COMPLETION,
    answer=ResponseSpec("It is forgotten.", "Deleted"),
    wrong=STORED,
)
ListMessagesOperation = operation(
    _TAG,
    "listChatCompletionMessages",
    "List the messages that a stored completion answers",
    path=_COMPLETION,
    query=PAGING,
    answer=ResponseSpec("A part of the list.", "MessageList"),
    wrong=("400", *STORED),
)
