"""Fields that may be left out without a loss, each with the reason.

They are also listed in docs/losses.md.
"""

from adapters.conformance import Json

# A field with this value means the same as without the field.
DEFAULTS: dict[str, tuple[Json, ...]] = {
    "allowed_callers": (["direct"],),
    "background": (False,),
    "caller": ({"type": "direct"},),
    "defer_loading": (False,),
    "detail": ("auto",),
    "environment": ({"type": "local"},),
    "execution": ("client", "server"),
    "format": ({"type": "text"},),
    "frequency_penalty": (0.0,),
    "function_call": ("auto",),
    "logprobs": (False,),
    "modalities": (["text"],),
    "output_format": ("png",),
    "output": ({"type": "computer_screenshot"},),
    "parallel_tool_calls": (True,),
    "presence_penalty": (0.0,),
    "store": (False, True),
    "stream": (False,),
    "strict": (False,),
    "tool_choice": ("auto",),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}

# Paths, with `*` for every index, and why nothing is lost without them.
NOT_SENT: dict[str, str] = {
    "input[*].id": "only the Responses API has ids of items, and no model receives them",
    "input[*].status": "the items of a history are complete",
    "input[*].type": "`role` distinguishes messages from other items",
    "input[*].name": "the output of a call has the name of its call",
    "input[*].role": "`additional_tools` have one role",
    "input[*].tools[*].defer_loading": "a loss of the item says that its tools are declared",
    "input[*].tools[*].tools[*].defer_loading": "the same",
    "stream_options.include_usage": "streams of the Responses API always have usage",
}

# The same for backends of the legacy dialect.
NOT_SENT_TO_LEGACY: dict[str, str] = {
    "parallel_tool_calls": "legacy functions are called one at a time",
    "input[*].call_id": "legacy functions have no call ids; outputs follow their calls",
}

# The type of a value, if other fields of the value have the same meaning.
IMPLIED_TYPES: dict[str, str] = {
    "ChatCompletionMessageCustomToolCallParam": "has `custom`",
    "ChatCompletionMessageFunctionToolCallParam": "has `function`",
    "Content": "the only type of `content` of reasoning",
    "CustomFormatText": "the default of `format`",
    "ItemReference": "has only `id`",
    "LocalShellCallAction": "the only action of this tool",
    "Summary": "the only type of `summary`",
    "Text": "the default of `format`",
}
