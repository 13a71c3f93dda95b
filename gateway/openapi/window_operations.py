"""What the addresses take and answer that concern the length of a conversation."""

from gateway.openapi.describing import WRONG, Body, ResponseSpec, operation

CompactOperation = operation(
    "Responses",
    "compactResponse",
    "Sum up a conversation",
    body=Body("CompactRequest", "The conversation."),
    answer=ResponseSpec("What to go on from.", "CompactReply", losses=True),
    wrong=WRONG,
)
InputTokensOperation = operation(
    "Responses",
    "countInputTokens",
    "Count the tokens of a request",
    body=Body("InputTokensRequest", "The request."),
    answer=ResponseSpec(
        "How many there are. The header `dragoman-token-count-source` says who counted: "
        "`backend`, `tiktoken` or `estimate`.",
        "InputTokensReply",
    ),
    wrong=("400", "401", "404", "413", "415", "503"),
)
