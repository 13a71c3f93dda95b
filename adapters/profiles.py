"""Profiles: the capabilities of known servers.

The sources of these profiles are documentation and tests. The capabilities of servers of open
models depend on the template of the model, too: a profile follows the majority of templates.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from adapters.capabilities import GENERIC, Capabilities, ModelRule

OPENAI = Capabilities(
    # Its models prefer `developer` to `system`.
    developer_role=True,
    # Chat accepts custom tools and `allowed_tools`, too.
    custom_tools=True,
    allowed_tools=True,
    newer_fields=True,
    compaction=True,
    count_tokens="responses",
)

# The base of the profiles of servers of open models.
_OPEN = replace(
    GENERIC,
    # Templates such as Qwen's reject a system message that is not the first.
    system_messages="single",
    # They reject or ignore all tools but functions.
    custom_tools=False,
    tool_types=(),
    allowed_tools=False,
)

VLLM = replace(
    _OPEN,
    # Versions up to 0.11 read `reasoning_content`, newer ones only this name.
    reasoning_field="reasoning",
    # Its Responses API reads the text of reasoning items.
    reasoning_items="text",
    # A server that was started with tools runs these. Namespaces are not listed: it rejects them,
    # or flattens the names in its reply.
    tool_types=("mcp", "code_interpreter", "web_search"),
    # Every version reads this; an effort "none" is new.
    thinking_switch="chat_template_kwargs",
    json_arguments_required=True,
    # Its decoder follows the format from the first token on, which excludes calls.
    format_with_tools=False,
    count_tokens="vllm",
    extra_fields=(
        "top_k",
        "min_p",
        "repetition_penalty",
        "chat_template_kwargs",
        "stop_token_ids",
        "structured_outputs",
    ),
)

LLAMACPP = replace(
    _OPEN,
    # Only newer versions have `max_completion_tokens`.
    max_tokens_field="max_tokens",
    reasoning_field="reasoning_content",
    # Its Responses API rejects reasoning items without text.
    reasoning_items="text",
    # Arguments in the history that it cannot parse cause status 500.
    json_arguments_required=True,
    # With a named choice, it may call any tool. With "none", the model still sees the tools and
    # writes calls into its text.
    tool_choices=("auto", "required"),
    count_tokens="llamacpp",
    extra_fields=("top_k", "min_p", "repeat_penalty", "chat_template_kwargs", "cache_prompt"),
)

LLAMA_CPP_PYTHON = replace(
    _OPEN,
    # It rejects null and messages without content.
    empty_content="empty_string",
    # The output of a tool must be a string.
    text_parts=False,
    # Tools without a choice are ignored; "required" is an error.
    explicit_tool_choice=True,
    tool_choices=("auto", "none", "named"),
    # `max_completion_tokens` is ignored.
    max_tokens_field="max_tokens",
    # It ignores fields that it does not know, and rejects `json_schema`.
    newer_fields=True,
    json_schema="json_object",
    # With tools and the choice "auto", it sends an empty stream.
    streaming="never",
    extra_fields=("top_k", "min_p", "repeat_penalty"),
)

OLLAMA = replace(
    _OPEN,
    # It rejects null.
    empty_content="empty_string",
    # It ignores `max_completion_tokens`, tool choices and `parallel_tool_calls`.
    max_tokens_field="max_tokens",
    tool_choices=("auto",),
    parallel_tool_calls=False,
    reasoning_field="reasoning",
    # According to its documentation, it gives one choice.
    unsupported_fields=("n",),
)

LMSTUDIO = replace(
    _OPEN,
    # It rejects null.
    empty_content="empty_string",
    max_tokens_field="max_tokens",
    # It rejects a named choice: "Supported string values: none, auto, required".
    tool_choices=("auto", "none", "required"),
)

DEEPSEEK = replace(
    GENERIC,
    # Its errors for custom tools and text parts are "unknown variant custom" and "invalid type:
    # sequence, expected a string".
    custom_tools=False,
    allowed_tools=False,
    text_parts=False,
    # Its documentation does not mention `max_completion_tokens` and `parallel_tool_calls`.
    max_tokens_field="max_tokens",
    parallel_tool_calls=False,
    # "The reasoning_content in the thinking mode must be passed back": on every turn that had it
    # (https://github.com/diegosouzapw/OmniRoute/issues/3308).
    reasoning_field="reasoning_content",
    reasoning_required=True,
    reasoning_items="text",
    # "Thinking mode does not support this tool_choice". Whether that includes "auto", its default,
    # is disputed.
    thinks_by_default=True,
    thinking_switch="thinking",
    tool_choices_while_thinking=("none",),
    # It accepts only `json_object`.
    json_schema="unsupported",
    extra_fields=("thinking",),
)

MISTRAL = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    call_id_format="alphanumeric_9",
    # Its errors are "Expected last role User or Tool" and "Unexpected role 'system' after role
    # 'tool'".
    system_messages="single",
    alternating_roles=True,
    # It rejects unknown fields ("Extra inputs are not permitted"), and always sends the usage.
    message_names=False,
    max_tokens_field="max_tokens",
    stream_options=False,
    unsupported_fields=(
        "logit_bias",
        "logprobs",
        "metadata",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "seed",
        "service_tier",
        "store",
        "top_logprobs",
        "user",
        "verbosity",
    ),
    extra_fields=("random_seed", "safe_prompt"),
)

GROQ = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # According to its documentation, it rejects names, these fields and several choices.
    message_names=False,
    unsupported_fields=("logit_bias", "logprobs", "n", "top_logprobs"),
)

OPENROUTER = replace(
    GENERIC,
    # It forwards requests to many servers, and only functions work with all of them.
    custom_tools=False,
    tool_types=(),
    allowed_tools=False,
    reasoning_field="reasoning",
    reasoning_efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
    extra_fields=("top_k", "min_p", "repetition_penalty", "provider", "models", "plugins"),
)

BEDROCK = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # It rejects `strict` with "Extra inputs are not permitted".
    strict_tools=False,
)

GEMINI = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    strict_tools=False,
    parallel_tool_calls=False,
    # It rejects all other keywords: 'Unknown name "$schema"'. It accepts `format` only with few
    # values.
    schema_keywords=(
        "anyOf",
        "default",
        "description",
        "enum",
        "example",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "propertyOrdering",
        "required",
        "title",
        "type",
    ),
    reasoning_efforts=("none", "minimal", "low", "medium", "high"),
    # It rejects fields that it does not know.
    message_names=False,
    unsupported_fields=(
        "frequency_penalty",
        "logit_bias",
        "metadata",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        "verbosity",
    ),
    extra_fields=("extra_body",),
)

KIMI = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # The models were trained with these ids, counted over the whole conversation.
    call_id_format="functions_name_number",
    # "thinking is enabled but reasoning_content is missing in assistant tool call message".
    reasoning_field="reasoning_content",
    reasoning_required=True,
    reasoning_items="text",
    thinks_by_default=True,
    thinking_switch="thinking",
    # It rejects other choices while it thinks.
    tool_choices_while_thinking=("auto", "none"),
    # Thinking is on or off.
    reasoning_efforts=(),
    max_tokens_field="max_tokens",
    extra_fields=("thinking",),
)

MINIMAX = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # Thinking is on or off; an effort has no effect.
    reasoning_efforts=(),
    thinks_by_default=True,
    thinking_switch="thinking",
    # Without this field, its reasoning is a part of the text. It is sent back as it was received.
    extra_body={"reasoning_split": True},
    reasoning_field="reasoning_details",
    reasoning_items="text",
    extra_fields=("thinking", "reasoning_split"),
)

GLM = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # According to its documentation, it has no other choice.
    tool_choices=("auto",),
    tool_stream=True,
    # Most models only switch thinking on or off.
    reasoning_efforts=(),
    thinks_by_default=True,
    thinking_switch="thinking",
    reasoning_field="reasoning_content",
    reasoning_items="text",
    max_tokens_field="max_tokens",
    extra_fields=("thinking", "tool_stream", "do_sample"),
)

XAI = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # "Model X does not support parameter reasoningEffort", except some.
    reasoning_efforts=(),
    reasoning_field="reasoning_content",
    # Models that reason reject these.
    unsupported_fields=("frequency_penalty", "presence_penalty", "stop"),
    extra_fields=("search_parameters",),
)

DASHSCOPE = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # "enable_thinking must be set to false for non-streaming calls".
    streaming="only_while_thinking",
    # "The tool_choice parameter does not support being set to required or object in thinking mode".
    tool_choices_while_thinking=("auto", "none"),
    thinks_by_default=True,
    thinking_switch="enable_thinking",
    reasoning_efforts=(),
    reasoning_field="reasoning_content",
    max_tokens_field="max_tokens",
    extra_fields=("enable_thinking", "thinking_budget", "enable_search", "top_k"),
)

PROFILES: Mapping[str, Capabilities] = {
    "generic": GENERIC,
    "openai": OPENAI,
    "vllm": VLLM,
    "llamacpp": LLAMACPP,
    "llama_cpp_python": LLAMA_CPP_PYTHON,
    "ollama": OLLAMA,
    "lmstudio": LMSTUDIO,
    "deepseek": DEEPSEEK,
    "mistral": MISTRAL,
    "groq": GROQ,
    "openrouter": OPENROUTER,
    "bedrock": BEDROCK,
    "gemini": GEMINI,
    "kimi": KIMI,
    "minimax": MINIMAX,
    "glm": GLM,
    "xai": XAI,
    "dashscope": DASHSCOPE,
}

# The models of a profile that differ from its other models.
MODEL_RULES: Mapping[str, tuple[ModelRule, ...]] = {
    # The name of the mode that does not think.
    "deepseek": (ModelRule("*deepseek-chat*", {"thinks_by_default": False}),),
    "kimi": (
        ModelRule("*k3*", {"call_id_format": "name_number"}),
        # The first models do not think.
        *(
            ModelRule(pattern, {"thinks_by_default": False, "reasoning_required": False})
            for pattern in ("*k2-0*", "*k2-instruct*", "*k2-turbo*")
        ),
    ),
    "dashscope": (
        # Models without a thinking mode, and those in which it is off by default.
        *(
            ModelRule(pattern, {"thinks_by_default": False})
            for pattern in (
                "*-instruct*",
                "*-coder*",
                "qwen-flash*",
                "qwen-max*",
                "qwen-plus*",
                "qwen-turbo*",
                "qwen3-max*",
            )
        ),
        ModelRule("*-thinking*", {"thinks_by_default": True}),
    ),
    "glm": (
        ModelRule("*glm-5.2*", {"reasoning_efforts": ("high", "max")}),
        # It always thinks.
        ModelRule(
            "*glm-5.3*",
            {
                "reasoning_efforts": ("low", "high", "max"),
                "thinking_switch": "reasoning_effort",
            },
        ),
    ),
    "xai": (
        ModelRule("*grok-3-mini*", {"reasoning_efforts": ("low", "high")}),
        ModelRule("*grok-4.3*", {"reasoning_efforts": ("none", "low", "medium", "high")}),
        ModelRule("*grok-4.5*", {"reasoning_efforts": ("low", "medium", "high")}),
        ModelRule(
            "*grok-4.20-multi-agent*", {"reasoning_efforts": ("low", "medium", "high", "xhigh")}
        ),
    ),
}
