"""What a backend can take. Translation asks these; it never asks for a vendor's name.

Each capability has the default that serves a backend of which nothing is known but its dialect.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

Place = Literal["anywhere", "merge_leading", "single"]
ToolChoiceWord = Literal["auto", "none", "required", "named"]
CallIdForm = Literal["any", "alphanumeric_9"]
Counting = Literal["none", "responses", "vllm", "llamacpp"]
TextFormat = Literal["hermes", "qwen3_coder", "mistral", "llama", "json", "fenced_json"]


class Capabilities(Struct, frozen=True):
    """One named switch for each way in which backends of one dialect differ."""

    # Messages

    # Takes the role `developer`. Many Chat servers and templates know only `system` (P068).
    developer_role: bool = False
    # Where system messages may stand. "merged": those at the beginning are put together, because a
    # template knows just one. "one": later ones join them, because a template refuses them (P070);
    # then an instruction holds from the start, which is not what was said: by default none moves.
    system_messages: Place = "anywhere"
    # What stands for the content of an assistant message that has none, only calls (P071): servers
    # that refuse an empty string and servers that refuse null are about as many.
    empty_content: Literal["null", "empty_string", "omit"] = "null"
    # Refuses two messages of one role in a row, a user who speaks right after a tool, and an
    # assistant who speaks last, as Mistral's template does (P048).
    alternating_roles: bool = False
    # Takes text as a list of parts; where it does not, the texts become one string.
    text_parts: bool = True
    # Takes the `name` of who speaks.
    message_names: bool = True
    # Takes pictures and files in the output of a tool. Where it does not, they follow the output in
    # a user message (P051). The Responses API always takes them.
    multimodal_tool_outputs: bool = False
    # Wants a status on every item of the Responses API that can have one (P046).
    item_status_required: bool = False

    # Reasoning

    # The field of an assistant message in which reasoning is replayed; None: nowhere. A server that
    # does not know the field may refuse it.
    reasoning_field: str | None = None
    # Which turns get it: none, those that made calls, or all that had it (P073, P075).
    reasoning_replay: Literal["never", "tool_calls", "always"] = "always"
    # Refuses a turn that made calls without the field: where nobody knows the reasoning, it is
    # empty (P074).
    reasoning_required: bool = False
    # Which reasoning the Responses API takes back: OpenAI what it sealed (P080), servers of open
    # models also plain thoughts, some of them before each call of a turn (P076).
    reasoning_items: Literal["encrypted", "text", "text_per_call"] = "encrypted"
    # The efforts that it takes; None: any word. One that it does not take becomes the nearest; a
    # word that nobody knows passes, because tables age (P092). None at all: nothing is said.
    reasoning_efforts: tuple[str, ...] | None = None

    # Tools and calls

    # Knows tools. Where it knows none at all ("prompted"), they are described to it in words, and
    # its calls are read from its text.
    tools: Literal["native", "prompted"] = "native"
    # How its model writes calls into the text, where its server leaves them there: tags around JSON
    # (Hermes, Qwen), a tag for each parameter (Qwen3-Coder), the markers of Mistral or Llama, JSON
    # as the whole answer or in a fence. Only where somebody says so: elsewhere it may be meant.
    text_calls: tuple[TextFormat, ...] = ()
    # Takes `strict` on functions (P007).
    strict_tools: bool = True
    # Makes schemas of functions strict that say so and are not: all properties required, those that
    # were optional nullable, no others. OpenAI refuses them as they are.
    enforce_strict_schemas: bool = False
    # Takes custom (freeform) tools; elsewhere they are functions. None: as is usual in its dialect.
    # The Responses API has them, most Chat servers refuse them (P021).
    custom_tools: bool | None = None
    # The types of tools that it takes on the Responses API besides functions and custom tools. What
    # else the client runs becomes functions, what else a server runs is left out. None: all types.
    tool_types: tuple[str, ...] | None = None
    # How many tools with `defer_loading` it is told of, where it has no search for them: those that
    # fit best what the user says. None: all of them.
    max_deferred_tools: Annotated[int, Meta(ge=0)] | None = None
    # Says so if the input of a custom tool does not keep to its grammar.
    check_grammars: bool = False
    # Takes `allowed_tools` as a tool choice; otherwise only the listed tools are declared.
    allowed_tools: bool = True
    # The other tool choices that it takes. Servers of open models often cannot force a call.
    tool_choices: tuple[ToolChoiceWord, ...] = ("auto", "none", "required", "named")
    # Does nothing with tools unless the choice is said, be it just "auto".
    explicit_tool_choice: bool = False
    # Takes `parallel_tool_calls` (P018).
    parallel_tool_calls: bool = True
    # What ids of calls look like. "nine": nine letters or digits, as Mistral's template wants
    # (P055).
    call_id_format: CallIdForm = "any"
    # Parses the arguments of calls in a history and fails on what is no JSON object, in every later
    # turn too (P053): such arguments are wrapped in one.
    json_arguments_required: bool = False
    # Takes `web_search_options`, the one hosted tool that Chat has.
    web_search_options: bool = False

    # The whole conversation

    # Sums up a conversation by itself: a Responses server that knows compaction (P169, P170).
    # Elsewhere it is asked for a summary in words.
    compaction: bool = False
    # How it counts the tokens of a request before it is sent: as the Responses API does, as vLLM
    # does, as the server of llama.cpp does. "none": not at all.
    count_tokens: Counting = "none"

    # Settings

    # Names the limit `max_tokens` instead of `max_completion_tokens`.
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    # Takes the sampling penalties on the Responses API, as Open Responses does.
    penalties: bool = False
    # How it takes a schema for the answer: as such, inside `json_object`, or not at all.
    json_schema: Literal["native", "json_object", "unsupported"] = "native"
    # Names of request fields that it refuses, though its dialect has them: they are left out.
    unsupported_fields: tuple[str, ...] = ()
    # Names of request fields that it knows though its dialect does not: they are forwarded from
    # other dialects (`top_k`, `chat_template_kwargs`).
    extra_fields: tuple[str, ...] = ()

    # The answer

    # Whether it answers whole, in a stream, or as it is asked; a client gets what it asked for.
    streaming: Literal["both", "only", "never"] = "both"
    # Takes `stream_options`.
    stream_options: bool = True
    # Thinks aloud: what stands in `<think>` at the beginning of its text is reasoning. Only where
    # somebody says so: elsewhere the tag may be meant.
    think_tags: bool = False


GENERIC = Capabilities()


# Named bundles of capabilities, one for each kind of server that we know something of.
#
# A profile says what its server documents, or was seen to do. Servers of open models differ by the
# template of the model, too: where most templates want something, the profile does.


OPENAI = Capabilities(
    # Its models take `developer` before `system`.
    developer_role=True,
    # Its Chat has custom tools, too.
    custom_tools=True,
    compaction=True,
    count_tokens="responses",
)

# What open models behind a Chat server have in common.
_OPEN = replace(
    GENERIC,
    # Templates such as Qwen's refuse a system message that is not the first (P070).
    system_messages="single",
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
    reasoning_items="text",
    # Run by its server, if it was started with tools. Namespaces it refuses, or it answers with
    # flattened names.
    tool_types=("mcp", "code_interpreter", "web_search"),
    # It parses the arguments of a history.
    json_arguments_required=True,
    # At `/tokenize`, which takes messages and tools.
    count_tokens="vllm",
    # Fields of its own beside those of OpenAI.
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
    # `max_completion_tokens` came late; all versions know this.
    max_tokens_field="max_tokens",
    reasoning_field="reasoning_content",
    # Its Responses API refuses a reasoning item without its thoughts.
    reasoning_items="text",
    # Arguments of a history that it cannot parse are a 500.
    json_arguments_required=True,
    # It answers a named choice with a call of any tool. Told "none", the model still sees the
    # tools, and its calls come as text.
    tool_choices=("auto", "required"),
    # At `/apply-template` and `/tokenize`.
    count_tokens="llamacpp",
    extra_fields=("top_k", "min_p", "repeat_penalty", "chat_template_kwargs", "cache_prompt"),
)

LLAMA_CPP_PYTHON = replace(
    _OPEN,
    # Null is refused, and so is a message without content (P071).
    empty_content="empty_string",
    # The output of a tool must be a string.
    text_parts=False,
    # Tools without a choice are ignored; "required" is an error.
    explicit_tool_choice=True,
    tool_choices=("auto", "none", "named"),
    # `max_completion_tokens` is ignored.
    max_tokens_field="max_tokens",
    # A schema of its own is refused.
    json_schema="json_object",
    # With tools to choose from, a stream ends before it begins.
    streaming="never",
    extra_fields=("top_k", "min_p", "repeat_penalty"),
)

OLLAMA = replace(
    _OPEN,
    # Null is refused (P071).
    empty_content="empty_string",
    # Its documentation has neither `max_completion_tokens`, nor a tool choice, nor
    # `parallel_tool_calls`: they are ignored.
    max_tokens_field="max_tokens",
    tool_choices=("auto",),
    parallel_tool_calls=False,
    reasoning_field="reasoning",
)

LMSTUDIO = replace(
    _OPEN,
    # Null is refused (P071).
    empty_content="empty_string",
    max_tokens_field="max_tokens",
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
    max_tokens_field="max_tokens",
    parallel_tool_calls=False,
    # "The reasoning_content in the thinking mode must be passed back": on every turn that had it
    # (P075), and empty on a turn with calls where nobody knows it (P074).
    reasoning_field="reasoning_content",
    reasoning_required=True,
    reasoning_items="text",
    # It has `json_object` only.
    json_schema="unsupported",
    # Thinking is switched here.
    extra_fields=("thinking",),
)

MISTRAL = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # Nine letters or digits, or the history is refused (P055).
    call_id_format="alphanumeric_9",
    # "Expected last role User or Tool", "Unexpected role 'system' after role 'tool'" (P048).
    system_messages="single",
    alternating_roles=True,
    # Fields that it does not know are "Extra inputs are not permitted". The usage always comes.
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
    # Each of these is a 400, says its documentation.
    message_names=False,
    unsupported_fields=("logit_bias", "logprobs", "top_logprobs"),
)

OPENROUTER = replace(
    GENERIC,
    # It speaks to many servers; what all of them take are functions.
    custom_tools=False,
    tool_types=(),
    allowed_tools=False,
    # Reasoning comes, and is taken back, under this name.
    reasoning_field="reasoning",
    reasoning_efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
    extra_fields=("top_k", "min_p", "repetition_penalty", "provider", "models", "plugins"),
)

BEDROCK = replace(
    GENERIC,
    custom_tools=False,
    allowed_tools=False,
    # `strict` is "Extra inputs are not permitted" (P007). An empty content is refused (P071), and
    # the default is null.
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
