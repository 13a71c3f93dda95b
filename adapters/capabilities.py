"""The capabilities of backends, and profiles of known servers.

Translation depends only on capabilities, never on the name of a vendor. The defaults suit a server
of which only the dialect is known.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

ToolChoiceWord = Literal["auto", "none", "required", "named"]
CallIdFormat = Literal["any", "alphanumeric_9"]
TextFormat = Literal["hermes", "qwen3_coder", "mistral", "llama", "json", "fenced_json"]


class Capabilities(Struct, frozen=True):
    """The differences between backends of the same dialect, with one field for each."""

    # Messages

    # Accepts the role `developer`. Many Chat servers and templates know only `system`
    # (https://github.com/farion1231/cc-switch/issues/2981).
    developer_role: bool = False
    # Where system messages are accepted. "merge_leading": only one at the start, so those at the
    # start are merged. "single": also none after the start, so all are merged
    # (https://github.com/BerriAI/litellm/issues/39282). That changes the meaning of later messages,
    # which then apply from the start, so it is not the default.
    system_messages: Literal["anywhere", "merge_leading", "single"] = "anywhere"
    # The content of an assistant message that has only calls. Some servers reject null, about as
    # many reject an empty string (https://github.com/vercel/ai/issues/13505).
    empty_content: Literal["null", "empty_string", "omit"] = "null"
    # Rejects consecutive messages of the same role, a user message after a tool message, and an
    # assistant message at the end (https://github.com/mistralai/mistral-common/issues/169).
    alternating_roles: bool = False
    # Accepts text as a list of parts; otherwise the parts are joined.
    text_parts: bool = True
    # Accepts `name` in messages.
    message_names: bool = True
    # Accepts images and files in tool outputs, as the Responses API always does; otherwise they are
    # sent in a user message after the output
    # (https://github.com/router-for-me/CLIProxyAPI/issues/5039).
    multimodal_tool_outputs: bool = False
    # Requires a status on every Responses item that can have one
    # (https://github.com/vllm-project/vllm/issues/45273).
    item_status_required: bool = False

    # Reasoning

    # The field of an assistant message in which earlier reasoning is sent. None: it is not sent,
    # because a server may reject a field that it does not know.
    reasoning_field: str | None = None
    # The turns whose reasoning is sent: none, those with calls, or all
    # (https://github.com/diegosouzapw/OmniRoute/issues/3308).
    reasoning_replay: Literal["never", "tool_calls", "always"] = "always"
    # Rejects a turn with calls without the reasoning field. If the reasoning is unknown, the field
    # is sent empty (https://github.com/esengine/DeepSeek-Reasonix/issues/6217).
    reasoning_required: bool = False
    # The reasoning items that its Responses API accepts: only its own encrypted ones, also text, or
    # text that is repeated before each call (https://github.com/rikkahub/rikkahub/issues/1690).
    reasoning_items: Literal["encrypted", "text", "text_per_call"] = "encrypted"
    # The reasoning efforts that it accepts; None for all. A known effort that is not listed becomes
    # the nearest one, or is dropped if the list is empty. An unknown effort is passed on: it may be
    # newer than this code.
    reasoning_efforts: tuple[str, ...] | None = None

    # Tools and calls

    # Whether it accepts tools. "prompted": tools are described in the prompt, and calls are parsed
    # from the text of the reply.
    tools: Literal["native", "prompted"] = "native"
    # The formats in which its model writes calls into the text, if its server does not parse them:
    # tags with JSON (Hermes, Qwen), a tag for each parameter (Qwen3-Coder), the markers of Mistral
    # or Llama, JSON as the whole reply or in a fenced block.
    text_calls: tuple[TextFormat, ...] = ()
    # Accepts `strict` on functions (https://github.com/farion1231/cc-switch/issues/6118).
    strict_tools: bool = True
    # Rejects schemas of strict functions that break OpenAI's rules, so schemas are rewritten: all
    # properties are required, optional ones may be null, and no other properties are allowed.
    enforce_strict_schemas: bool = False
    # Accepts custom (freeform) tools; otherwise they become functions. None: only on the Responses
    # API, because most Chat servers reject them
    # (https://github.com/ggml-org/llama.cpp/issues/20156).
    custom_tools: bool | None = None
    # The types of tools, besides functions and custom tools, that its Responses API accepts; None
    # for all. Tools of other types become functions if the client runs them, or are dropped.
    tool_types: tuple[str, ...] | None = None
    # The maximum number of tools with `defer_loading` to declare if it has no tool search: the ones
    # that fit the user's text best. None: all.
    max_deferred_tools: Annotated[int, Meta(ge=0)] | None = None
    # Report input of a custom tool that does not conform to its grammar.
    check_grammars: bool = False
    # Accepts `allowed_tools` as a tool choice; otherwise only the listed tools are declared.
    allowed_tools: bool = True
    # The tool choices besides `allowed_tools` that it accepts. Servers of open models often cannot
    # force a call.
    tool_choices: tuple[ToolChoiceWord, ...] = ("auto", "none", "required", "named")
    # Ignores tools if the request has no tool choice, so "auto" is sent.
    explicit_tool_choice: bool = False
    # Accepts `parallel_tool_calls` (https://github.com/evalstate/fast-agent/issues/279).
    parallel_tool_calls: bool = True
    # The format of call ids. "alphanumeric_9": nine letters or digits, as Mistral's template
    # requires (https://github.com/langchain-ai/langchain/issues/24668).
    call_id_format: CallIdFormat = "any"
    # Fails if arguments in the history are not a JSON object, in that turn and all later ones
    # (https://github.com/BerriAI/litellm/issues/33678). Such arguments are wrapped in an object.
    json_arguments_required: bool = False
    # Accepts `web_search_options`, the only hosted tool of Chat.
    web_search_options: bool = False

    # The conversation

    # Supports compaction on the Responses API; otherwise its model is prompted for a summary.
    compaction: bool = False
    # The API that counts the tokens of a request: OpenAI's, vLLM's or that of llama.cpp's server.
    count_tokens: Literal["none", "responses", "vllm", "llamacpp"] = "none"

    # Settings

    # The name of the token limit on Chat.
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    # Accepts sampling penalties on the Responses API, as Open Responses requires.
    penalties: bool = False
    # How it accepts a schema for the reply: as `json_schema`, within `json_object`, or not at all.
    json_schema: Literal["native", "json_object", "unsupported"] = "native"
    # Request fields of its dialect that it rejects; they are dropped.
    unsupported_fields: tuple[str, ...] = ()
    # Request fields outside its dialect that it accepts; they are passed on.
    extra_fields: tuple[str, ...] = ()

    # The reply

    # Whether it streams on request, always or never. Clients receive what they requested.
    streaming: Literal["both", "only", "never"] = "both"
    # Accepts `stream_options`.
    stream_options: bool = True
    # Writes its reasoning in `<think>` at the start of the text.
    think_tags: bool = False


GENERIC = Capabilities()


# The sources of these profiles are documentation and tests. The capabilities of servers of open
# models depend on the template of the model, too: a profile follows the majority of templates.

OPENAI = Capabilities(
    # Its models prefer `developer` to `system`.
    developer_role=True,
    # Chat accepts custom tools, too.
    custom_tools=True,
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
    json_arguments_required=True,
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
    # It rejects `json_schema`.
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
    # According to its documentation, it rejects names and these fields.
    message_names=False,
    unsupported_fields=("logit_bias", "logprobs", "top_logprobs"),
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
