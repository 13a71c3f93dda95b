"""What each address takes and answers, but for those of stored things."""

from gateway.openapi.describing import WRONG, Body, ResponseSpec, operation

ChatOperation = operation(
    "Chat Completions",
    "createChatCompletion",
    "Continue a conversation",
    body=Body("ChatRequest", "A request of a Chat client or a legacy client."),
    answer=ResponseSpec(
        "The answer; with `stream`, chunk by chunk.", "ChatReply", "ChatChunk", losses=True
    ),
    wrong=WRONG,
)
ResponsesOperation = operation(
    "Responses",
    "createResponse",
    "Make a response",
    body=Body("ResponsesRequest", "A request of a Responses client."),
    answer=ResponseSpec(
        "The response; with `stream`, event by event.",
        "ResponsesReply",
        "ResponsesEvent",
        losses=True,
    ),
    wrong=WRONG,
)
ModelsOperation = operation(
    "Models",
    "listModels",
    "List the models of all backends",
    answer=ResponseSpec("The models.", "Models"),
    wrong=("401",),
)
ModelOperation = operation(
    "Models",
    "getModel",
    "Describe one model",
    path={"name": "The name of the model; it may have slashes in it."},
    answer=ResponseSpec("The model.", "Model"),
    wrong=("401", "404"),
)
TranslateOperation = operation(
    "Translation",
    "translate",
    "Translate without asking a backend",
    body=Body("TranslateRequest", "What to translate, and how."),
    answer=ResponseSpec("The translation.", "TranslateReply"),
    wrong=("400", "401", "413", "415"),
)
HealthOperation = operation(
    "Operations",
    "getHealth",
    "Tell that the process is alive",
    answer=ResponseSpec("It is.", "Health"),
)
ReadyOperation = operation(
    "Operations",
    "getReadiness",
    "Tell whether requests are taken",
    answer=ResponseSpec("They are.", "Health"),
)
