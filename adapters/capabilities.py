"""What a backend accepts, and profiles of the servers that are known.

Translation depends only on these capabilities, never on the name of a vendor. The defaults suit a
backend of which only the dialect is known.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

ToolChoiceWord = Literal["auto", "none", "required", "named"]
CallIdFormat = Literal["any", "alphanumeric_9"]
TextFormat = Literal["hermes", "qwen3_coder", "mistral", "llama", "json", "fenced_json"]


class Capabilities(Struct, frozen=True):
    """One option for each difference between backends of the same dialect."""

    # Messages

    # Accepts the role `developer`. Many Chat servers and templates have only `system`
    # (https://github.com/farion1231/cc-switch/issues/2981).
    developer_role: bool = False
    # Where system messages are accepted. "merge_leading": those at the beginning are merged, for
    # templates that take only one. "single": later ones are merged into it, too, for templates that
    # reject them (https://github.com/BerriAI/litellm/issues/39282). A merged instruction applies
    # from the start, which changes its meaning, so by default none is moved.
    system_messages: Literal["anywhere", "merge_leading", "single"] = "anywhere"
    # The content of an assistant message that has only calls. About as many servers reject an empty
    # string as null (https://github.com/vercel/ai/issues/13505).
    empty_content: Literal["null", "empty_string", "omit"] = "null"
    # Rejects two messages of one role in a row, a user's message after a tool's, and an assistant's
    # message at the end, as Mistral's template does
    # (https://github.com/mistralai/mistral-common/issues/169).
    alternating_roles: bool = False
    # Accepts text as a list of parts; otherwise the texts are joined.
    text_parts: bool = True
    # Accepts `name` in messages.
    message_names: bool = True
    # Accepts images and files in the output of a tool; otherwise they follow the output in a user
    # message (https://github.com/router-for-me/CLIProxyAPI/issues/5039). The Responses API always
    # accepts them.
    multimodal_tool_outputs: bool = False
    # Requires a status on every Responses item that can have one
    # (https://github.com/vllm-project/vllm/issues/45273).
    item_status_required: bool = False

    # Reasoning

    # The field of an assistant message in which reasoning is sent back; None if it is not. A server
    # that does not know the field may reject it.
    reasoning_field: str | None = None
    # The turns whose reasoning is sent back: none, those with calls, or all
    # (https://github.com/diegosouzapw/OmniRoute/issues/3308).
    reasoning_replay: Literal["never", "tool_calls", "always"] = "always"
    # Rejects a turn with calls that lacks the field; it is empty if the reasoning is not known
    # (https://github.com/esengine/DeepSeek-Reasonix/issues/6217).
    reasoning_required: bool = False
    # The reasoning items that its Responses API accepts: OpenAI only what it encrypted, servers of
    # open models also text, some of them before each call of a turn
    # (https://github.com/rikkahub/rikkahub/issues/1690).
    reasoning_items: Literal["encrypted", "text", "text_per_call"] = "encrypted"
    # The reasoning efforts that it accepts; None for all, an empty tuple if the field is dropped. A
    # known effort that is not listed becomes the nearest one. An unknown one is passed on, because
    # it may be newer than this code.
    reasoning_efforts: tuple[str, ...] | None = None

    # Tools and calls

    # Whether it has tools. With "prompted", tools are described in the prompt, and calls are parsed
    # from the text of the reply.
    tools: Literal["native", "prompted"] = "native"
    # The formats in which its model writes calls into the text, if its server does not parse them:
    # tags with JSON (Hermes, Qwen), a tag for each parameter (Qwen3-Coder), the markers of Mistral
    # or Llama, JSON as the whole reply or in a fence. Without it, such text stays text.
    text_calls: tuple[TextFormat, ...] = ()
    # Accepts `strict` on functions (https://github.com/farion1231/cc-switch/issues/6118).
    strict_tools: bool = True
    # Makes the schemas of strict functions strict: all properties required, optional ones nullable,
    # and no others allowed. OpenAI rejects schemas that are not.
    enforce_strict_schemas: bool = False
    # Accepts custom (freeform) tools; otherwise they become functions. None: the default of the
    # dialect. The Responses API has them, most Chat servers reject them
    # (https://github.com/ggml-org/llama.cpp/issues/20156).
    custom_tools: bool | None = None
    # The types of tools, besides functions and custom tools, that its Responses API accepts; None
    # for all. Others become functions if the client runs them, or are dropped.
    tool_types: tuple[str, ...] | None = None
    # The maximum number of tools with `defer_loading` to declare if it has no tool search: those
    # that fit the user's text best. None: all of them.
    max_deferred_tools: Annotated[int, Meta(ge=0)] | None = None
    # Report input of a custom tool that does not conform to its grammar.
    check_grammars: bool = False
    # Accepts `allowed_tools` as a tool choice; otherwise only the listed tools are declared.
    allowed_tools: bool = True
    # The other tool choices that it accepts. Servers of open models often cannot force a call.
    tool_choices: tuple[ToolChoiceWord, ...] = ("auto", "none", "required", "named")
    # Ignores tools unless there is a tool choice, even if it is "auto".
    explicit_tool_choice: bool = False
    # Accepts `parallel_tool_calls` (https://github.com/evalstate/fast-agent/issues/279).
    parallel_tool_calls: bool = True
    # The format of call ids. "alphanumeric_9": nine letters or digits, as Mistral's template
    # requires (https://github.com/langchain-ai/langchain/issues/24668).
    call_id_format: CallIdFormat = "any"
    # Parses the arguments of calls in the history and fails if they are not a JSON object, also in
    # all later turns (https://github.com/BerriAI/litellm/issues/33678): they are wrapped in one.
    json_arguments_required: bool = False
    # Accepts `web_search_options`, the only hosted tool of Chat.
    web_search_options: bool = False

    # The conversation

    # Compacts conversations itself, as a Responses server; otherwise it is asked for a summary.
    compaction: bool = False
    # The API by which it counts the tokens of a request: that of the Responses API, of vLLM, or of
    # the server of llama.cpp.
    count_tokens: Literal["none", "responses", "vllm", "llamacpp"] = "none"

    # Settings

    # The name of the token limit.
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    # Accepts the sampling penalties on the Responses API, as Open Responses does.
    penalties: bool = False
    # How it accepts a schema for the reply: as `json_schema`, within `json_object`, or not at all.
    json_schema: Literal["native", "json_object", "unsupported"] = "native"
    # Request fields of its dialect that it rejects; they are dropped.
    unsupported_fields: tuple[str, ...] = ()
    # Request fields of other dialects, or of none, that it accepts (`top_k`,
    # `chat_template_kwargs`); they are passed on.
    extra_fields: tuple[str, ...] = ()

    # The reply

    # Whether it streams on request, always or never; clients get what they requested.
    streaming: Literal["both", "only", "never"] = "both"
    # Accepts `stream_options`.
    stream_options: bool = True
    # Writes its reasoning in `<think>` at the start of the text. Without it, the tag stays text.
    think_tags: bool = False


GENERIC = Capabilities()


# Profiles of servers, from their documentation or from tests. What servers of open models accept
# depends also on the template of the model: a profile follows the majority of templates.


OPENAI = Capabilities(
    # Its models prefer `developer` to `system`.
    developer_role=True,
    # Its Chat has custom tools, too.
    custom_tools=True,
    compaction=True,
    count_tokens="responses",
)

# Common to servers of open models.
_OPEN = replace(
    GENERIC,
    # Templates such as Qwen's reject a system message that is not the first.
    system_messages="single",
    # They have only functions, and reject or ignore other tools.
    custom_tools=False,
    tool_types=(),
    allowed_tools=False,
)

VLLM = replace(
    _OPEN,
    # It was `reasoning_content` until 0.11; newer versions read only this name.
    reasoning_field="reasoning",
    # Its Responses API reads the text of reasoning items.
    reasoning_items="text",
    # These run on its server, if it was started with tools. It rejects namespaces, or flattens the
    # names in its reply.
    tool_types=("mcp", "code_interpreter", "web_search"),
    # It parses the arguments in the history.
    json_arguments_required=True,
    # At `/tokenize`, which accepts messages and tools.
    count_tokens="vllm",
    # Its own fields besides those of OpenAI.
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
    # It replies with status 500 to arguments in the history that it cannot parse.
    json_arguments_required=True,
    # With a named choice, it may call any tool. With "none", the model still sees the tools, and
    # its calls come as text.
    tool_choices=("auto", "required"),
    # At `/apply-template` and `/tokenize`.
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
    # With tools and the choice "auto", its stream ends before it begins.
    streaming="never",
    extra_fields=("top_k", "min_p", "repeat_penalty"),
)

OLLAMA = replace(
    _OPEN,
    # It rejects null.
    empty_content="empty_string",
    # It ignores `max_completion_tokens`, the tool choice and `parallel_tool_calls`, which are not
    # in its documentation.
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
    # It rejects an object: "Supported string values: none, auto, required".
    tool_choices=("auto", "none", "required"),
)

DEEPSEEK = replace(
    GENERIC,
    # It accepts only functions and strings; its errors are "unknown variant custom" and "invalid
    # type: sequence, expected a string".
    custom_tools=False,
    allowed_tools=False,
    text_parts=False,
    # Its documentation has neither `max_completion_tokens` nor `parallel_tool_calls`.
    max_tokens_field="max_tokens",
    parallel_tool_calls=False,
    # "The reasoning_content in the thinking mode must be passed back": on every turn that had it
    # (https://github.com/diegosouzapw/OmniRoute/issues/3308).
    reasoning_field="reasoning_content",
    reasoning_required=True,
    reasoning_items="text",
    # It has only `json_object`.
    json_schema="unsupported",
    # Switches reasoning on and off.
    extra_fields=("thinking",),
)

MISTRAL = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # It rejects a history with other call ids.
    call_id_format="alphanumeric_9",
    # Its errors are "Expected last role User or Tool" and "Unexpected role 'system' after role
    # 'tool'".
    system_messages="single",
    alternating_roles=True,
    # It rejects unknown fields with "Extra inputs are not permitted", and always sends the usage.
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
    # It rejects each of these, according to its documentation.
    message_names=False,
    unsupported_fields=("logit_bias", "logprobs", "top_logprobs"),
)

OPENROUTER = replace(
    GENERIC,
    # It forwards to many servers, all of which accept functions.
    custom_tools=False,
    tool_types=(),
    allowed_tools=False,
    # It sends reasoning under this name and accepts it back.
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
