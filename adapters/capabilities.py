"""The capabilities of backends.

Translation depends only on capabilities, never on the name of a vendor. The defaults suit a server
of which only the dialect is known.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from msgspec import Meta, Struct

ToolChoiceWord = Literal["auto", "none", "required", "named"]
CallIdFormat = Literal["any", "alphanumeric_9", "functions_name_number", "name_number"]
TextFormat = Literal[
    "hermes",
    "qwen3_coder",
    "mistral",
    "llama",
    "json",
    "fenced_json",
    "harmony",
    "kimi",
    "glm",
    "dsml",
]


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
    # Accepts text as a list of parts; otherwise the parts are joined. None: only from clients of
    # its own dialect, because many servers accept only strings.
    text_parts: bool | None = None
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

    # The field of an assistant message in which earlier reasoning is sent. None: the field in which
    # the backend sent it, because a server may reject a field that it does not know.
    reasoning_field: str | None = None
    # The turns whose reasoning is sent: none, those with calls, or all
    # (https://github.com/diegosouzapw/OmniRoute/issues/3308). None: all if `reasoning_field` is
    # set, else those with calls.
    reasoning_replay: Literal["never", "tool_calls", "always"] | None = None
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
    # Thinks, unless that is switched off.
    thinks_by_default: bool = False
    # The field of Chat that switches thinking off, for the effort "none"
    # (https://github.com/BerriAI/litellm/issues/10938). Other efforts do not set it.
    thinking_switch: Literal[
        "reasoning_effort", "thinking", "enable_thinking", "chat_template_kwargs"
    ] = "reasoning_effort"

    # Tools and calls

    # Whether it accepts tools. "prompted": tools are described in the prompt, and calls are parsed
    # from the text of the reply.
    tools: Literal["native", "prompted"] = "native"
    # The formats in which its model writes calls into the text, if its server does not parse them:
    # tags with JSON (Hermes, Qwen), a tag for each parameter (Qwen3-Coder), the markers of Mistral
    # or Llama, JSON as the whole reply or in a fenced block, the channels of Harmony (gpt-oss), the
    # sections of Kimi, the tags of GLM, or DSML (DeepSeek).
    text_calls: tuple[TextFormat, ...] = ()
    # Return a call in one of these formats at the end of the reasoning, if the reply has nothing
    # else. Otherwise it is only reported, because a model may also draft calls while it thinks.
    calls_in_reasoning: bool = False
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
    # Accepts `allowed_tools` as a tool choice; otherwise only the listed tools are declared. None:
    # only on the Responses API, because few Chat servers know it.
    allowed_tools: bool | None = None
    # The tool choices besides `allowed_tools` that it accepts. Servers of open models often cannot
    # force a call.
    tool_choices: tuple[ToolChoiceWord, ...] = ("auto", "none", "required", "named")
    # The tool choices that it accepts while its model thinks; None if thinking makes no difference
    # (https://github.com/deepseek-ai/DeepSeek-V3/issues/1376).
    tool_choices_while_thinking: tuple[ToolChoiceWord, ...] | None = None
    # Switch thinking off for a request that forces a call, instead of giving up the choice.
    forced_choice_disables_thinking: bool = False
    # Ignores tools if the request has no tool choice, so "auto" is sent.
    explicit_tool_choice: bool = False
    # Accepts `parallel_tool_calls` (https://github.com/evalstate/fast-agent/issues/279).
    parallel_tool_calls: bool = True
    # The format of call ids. "alphanumeric_9": nine letters or digits, as Mistral's template
    # requires (https://github.com/langchain-ai/langchain/issues/24668). The other two count the
    # calls of the conversation from 0, `functions.get_time:0` or `get_time_0`: models that were
    # trained with such ids write broken calls after others
    # (https://github.com/vybestack/llxprt-code/issues/712).
    call_id_format: CallIdFormat = "any"
    # The minimum length of call ids (https://github.com/farion1231/cc-switch/issues/7156). Shorter
    # ones in the history are hashed.
    min_call_id_length: Annotated[int, Meta(ge=0, le=32)] = 0
    # Fails if arguments in the history are not a JSON object, in that turn and all later ones
    # (https://github.com/BerriAI/litellm/issues/33678). Such arguments are wrapped in an object.
    json_arguments_required: bool = False
    # The keywords that it accepts in JSON schemas; None for all. Others are rewritten or removed
    # (https://github.com/zed-industries/zed/issues/44875).
    schema_keywords: tuple[str, ...] | None = None
    # Sends the arguments of calls in pieces only if the request has `tool_stream`
    # (https://github.com/zai-org/GLM-4/issues/800).
    tool_stream: bool = False
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
    # Can still call tools if the reply must have a format; otherwise the format is described in the
    # instructions while a call is possible (https://github.com/vllm-project/vllm/issues/39929).
    format_with_tools: bool = True
    # Accepts request fields that are newer than legacy functions, on the legacy API; otherwise they
    # are dropped, except those in `extra_fields`. None: only from clients of its own dialect.
    newer_fields: bool | None = None
    # Request fields of its dialect that it rejects; they are dropped. Without `stop`, replies are
    # cut at stop sequences; without `n`, the gateway sends a request once for each choice.
    unsupported_fields: tuple[str, ...] = ()
    # Request fields outside its dialect that it accepts; they are passed on.
    extra_fields: tuple[str, ...] = ()
    # Fields that are added to each request, unless it has them already.
    extra_body: dict[str, object] = {}

    # The reply

    # Whether it streams on request, always or never. "only_while_thinking": it rejects requests for
    # whole replies while its model thinks
    # (https://github.com/musistudio/claude-code-router/issues/948). Clients receive what they
    # requested.
    streaming: Literal["both", "only", "never", "only_while_thinking"] = "both"
    # Accepts `stream_options`.
    stream_options: bool = True
    # Writes its reasoning in `<think>` at the start of the text.
    think_tags: bool = False


GENERIC = Capabilities()


class ModelRule(Struct, frozen=True):
    """The differences between the models that match a pattern and the other ones of a backend."""

    # With `*` and `?`; the case of letters does not matter.
    pattern: str
    capabilities: Mapping[str, object] = {}
    # The profile to use instead of that of the backend.
    profile: str | None = None

    def matches(self, model: str) -> bool:
        """Whether the rule applies to a model."""
        return fnmatchcase(model.casefold(), self.pattern.casefold())
