"""What the addresses of stored things take and answer."""

from typing import Final

from gateway.openapi.describing import STORED, ResponseSpec, operation

# How a part of a list is asked for.
PAGING: Final = {
    "limit": "How many to give at the most: from 1 to 100, 20 by default.",
    "order": "`asc` or `desc`: from the oldest on, or from the newest back.",
    "after": "The id behind which to go on.",
}

RetrieveResponseOperation = operation(
    "Responses",
    "getResponse",
    "Show a response, or tell its events",
    path={"response_id": "The id of the response."},
    query={
        "stream": "`true`: tell the events of a response that was made in the background.",
        "starting_after": "The number of an event: those after it are told.",
        "include": "What else to show; what there is is always shown.",
        "include_obfuscation": "Whether to pad events; they are not padded.",
    },
    answer=ResponseSpec(
        "The response; with `stream`, event by event.", "ResponsesReply", "ResponsesEvent"
    ),
    wrong=("400", *STORED),
)
CancelResponseOperation = operation(
    "Responses",
    "cancelResponse",
    "End a response that is made in the background",
    path={"response_id": "The id of the response."},
    answer=ResponseSpec("The response, which is cancelled.", "ResponsesReply"),
    wrong=("400", *STORED),
)
DeleteResponseOperation = operation(
    "Responses",
    "deleteResponse",
    "Forget a response",
    path={"response_id": "The id of the response."},
    answer=ResponseSpec("It is forgotten.", "Deleted"),
    wrong=STORED,
)
InputItemsOperation = operation(
    "Responses",
    "listInputItems",
    "List what a response was made from",
    path={"response_id": "The id of the response."},
    query=PAGING,
    answer=ResponseSpec("A part of the list.", "ItemList"),
    wrong=("400", *STORED),
)
