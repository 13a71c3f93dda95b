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
    "service_tier": ("auto", "default"),
    "store": (False, True),
    "stream": (False,),
    "strict": (False,),
    "tool_choice": ("auto",),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}

# The same for token counts that a backend does not report.
COUNTS = ("cache_write_tokens", "cached_tokens", "reasoning_tokens")

# Paths, with `*` for every index, and why nothing is lost without them.
NOT_SENT: dict[str, str] = {
    "input[*].id": "only the Responses API has ids of items, and no model receives them",
    "input[*].status": "the items of a history are complete",
    "input[*].type": "`role` distinguishes messages from other items",
    "input[*].name": "the output of a call has the name of its call",
    "input[*].role": "`additional_tools` have one role",
    "input[*].tools[*].defer_loading": "a loss of the item says that its tools are declared",
    "input[*].tools[*].tools[*].defer_loading": "a loss of the item says so",
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
    "ChatCompletionMessageCustomToolCall": "has `custom`",
    "ChatCompletionMessageFunctionToolCall": "has `function`",
    "ChoiceDeltaToolCall": "has `function`",
    "Content": "the only type of `content` of reasoning",
    "CustomFormatText": "the default of `format`",
    "ItemReference": "has only `id`",
    "LocalShellCallAction": "the only action of this tool",
    "Summary": "the only type of `summary`",
    "Text": "the default of `format`",
}

# Fields of a response that repeat its request.
REPEATED_FIELDS = frozenset(
    (
        "access_programs",
        "background",
        "conversation",
        "image",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    )
)

# Paths in replies and in events.
NOT_RECEIVED: dict[str, str] = {
    "choices": "a chunk with an empty delta is as empty as one without choices",
    "choices[*].delta.role": "the author of a reply is the assistant",
    "choices[*].delta.tool_calls[*].index": "calls are distinguished by ids as well",
    "choices[*].index": "there is one choice",
    "choices[*].message": "a reply with an empty message is as empty as one without a message",
    "choices[*].message.role": "the author of a reply is the assistant",
    "completed_at": "a completion has only the time of its start",
    "incomplete_details.reason": "without a reason, the reply counts as too long",
    "logprobs": "the end of a text repeats them",
    "metadata": "repeats the request",
    "object": "there is one kind of reply",
    "obfuscation": "hides the lengths of events in the network, and is not part of the reply",
    "status": "a response without a status is complete",
    "type": "the type of an event without one follows from its fields",
    "output[*].id": "only the Responses API has ids of items",
    "output[*].status": "the status of the response counts",
}
# Fields of events that place them in a stream.
PLACES = frozenset(
    (
        "annotation_index",
        "content_index",
        "item_id",
        "output_index",
        "sequence_number",
        "summary_index",
    )
)
