"""Named bundles of capabilities, one for each kind of server that we know something of.

A profile says what its server documents, or was seen to do. Servers of open models differ by the
template of the model, too: where most templates want something, the profile does.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from adapters.capabilities import GENERIC, Capabilities

OPENAI = Capabilities(
    # Its models take `developer` before `system`.
    developer_role=True,
    # Its Chat has custom tools, too.
    custom_tools=True,
    compaction=True,
    counting="responses",
)

# What open models behind a Chat server have in common.
_OPEN = replace(
    GENERIC,
    # Templates such as Qwen's refuse a system message that is not the first (P070).
    system_messages="one",
    # Their servers know functions only, and refuse or ignore the rest (P021).
    custom_tools=False,
    tool_types=(),
    allowed_tools=False,
)

VLLM = replace(
    _OPEN,
    # It was `reasoning_content` until 0.11; now only this name is read.
    reasoning_field="reasoning",
    # Its Responses API reads the thoughts of an item.
    reasoning_items="plain",
    # Run by its server, if it was started with tools. Namespaces it refuses, or it answers with
    # flattened names.
    tool_types=("mcp", "code_interpreter", "web_search"),
    # It parses the arguments of a history.
    json_arguments=True,
    # At `/tokenize`, which takes messages and tools.
    counting="vllm",
    # Fields of its own beside those of OpenAI.
    forward=(
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
    # `max_completion_tokens` came late; all versions know this.
    max_tokens=True,
    reasoning_field="reasoning_content",
    # Its Responses API refuses a reasoning item without its thoughts.
    reasoning_items="plain",
    # Arguments of a history that it cannot parse are a 500.
    json_arguments=True,
    # It answers a named choice with a call of any tool. Told "none", the model still sees the
    # tools, and its calls come as text.
    tool_choices=("auto", "required"),
    # At `/apply-template` and `/tokenize`.
    counting="llamacpp",
    forward=("top_k", "min_p", "repeat_penalty", "chat_template_kwargs", "cache_prompt"),
)

LLAMA_CPP_PYTHON = replace(
    _OPEN,
    # Null is refused, and so is a message without content (P071).
    empty_content="empty",
    # The output of a tool must be a string.
    text_parts=False,
    # Tools without a choice are ignored; "required" is an error.
    tool_choice_needed=True,
    tool_choices=("auto", "none", "named"),
    # `max_completion_tokens` is ignored.
    max_tokens=True,
    # A schema of its own is refused.
    json_schema="in_object",
    # With tools to choose from, a stream ends before it begins.
    streaming="never",
    forward=("top_k", "min_p", "repeat_penalty"),
)

OLLAMA = replace(
    _OPEN,
    # Null is refused (P071).
    empty_content="empty",
    # Its documentation has neither `max_completion_tokens`, nor a tool choice, nor
    # `parallel_tool_calls`: they are ignored.
    max_tokens=True,
    tool_choices=("auto",),
    parallel_tool_calls=False,
    reasoning_field="reasoning",
)

LMSTUDIO = replace(
    _OPEN,
    # Null is refused (P071).
    empty_content="empty",
    max_tokens=True,
    # An object is refused: "Supported string values: none, auto, required".
    tool_choices=("auto", "none", "required"),
)

DEEPSEEK = replace(
    GENERIC,
    # It deserialises into functions and strings: anything else is "unknown variant custom",
    # "invalid type: sequence, expected a string".
    custom_tools=False,
    allowed_tools=False,
    text_parts=False,
    # Its documentation has neither `max_completion_tokens` nor `parallel_tool_calls`.
    max_tokens=True,
    parallel_tool_calls=False,
    # "The reasoning_content in the thinking mode must be passed back": on every turn that had it
    # (P075), and empty on a turn with calls where nobody knows it (P074).
    reasoning_field="reasoning_content",
    reasoning_required=True,
    reasoning_items="plain",
    # It has `json_object` only.
    json_schema="never",
    # Thinking is switched here.
    forward=("thinking",),
)

MISTRAL = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # Nine letters or digits, or the history is refused (P055).
    call_ids="nine",
    # "Expected last role User or Tool", "Unexpected role 'system' after role 'tool'" (P048).
    system_messages="one",
    strict_turns=True,
    # Fields that it does not know are "Extra inputs are not permitted". The usage always comes.
    message_names=False,
    max_tokens=True,
    stream_options=False,
    refuses=(
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
    forward=("random_seed", "safe_prompt"),
)

GROQ = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # Each of these is a 400, says its documentation.
    message_names=False,
    refuses=("logit_bias", "logprobs", "top_logprobs"),
)

OPENROUTER = replace(
    GENERIC,
    # It speaks to many servers; what all of them take are functions.
    custom_tools=False,
    tool_types=(),
    allowed_tools=False,
    # Reasoning comes, and is taken back, under this name.
    reasoning_field="reasoning",
    efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
    forward=("top_k", "min_p", "repetition_penalty", "provider", "models", "plugins"),
)

BEDROCK = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # `strict` is "Extra inputs are not permitted" (P007). An empty content is refused (P071), and
    # the default is null.
    strict=False,
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
}
