"""Reader of requests to `/chat/completions`, with tools or legacy functions."""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.chat.message_reader import read_messages
from adapters.chat.wire import CHAT_ONLY_FIELDS, FAMILY
from adapters.errors import InvalidRequestError, UnsupportedRequestError, missing_field
from adapters.ir.normalize import split_paths
from adapters.ir.types import (
    AllowedToolsChoice,
    FunctionTool,
    HostedTool,
    Request,
    Tool,
    ToolChoice,
)
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.wire.extra_fields import read_cache_options, unread_fields
from adapters.wire.json_object import MISSING, NULL, JsonObject, RequestBody, decode, is_present
from adapters.wire.tools import read_format, read_tool_choice, read_tools

_SEARCH_OPTIONS = "web_search_options"
# The entry for a web search in a list of allowed tools.
_ALLOWED_SEARCH = Raw(b'{"type":"web_search"}')
_STOP = msgspec.json.Decoder(str | list[str])


def read_request(body: RequestBody, losses: Losses) -> Request:
    """Read a request."""
    fields = body.reader()
    _check_fields(fields)
    items, paths = split_paths(list(read_messages(fields.array("messages"), losses)))
    tools, tool_paths = _read_tools(fields, losses)
    options = fields.nested("stream_options") or JsonObject({})
    return Request(
        model=fields.string("model"),
        items=items,
        paths=paths,
        tools=tools,
        tool_paths=tool_paths,
        tool_choice=_read_tool_choice(fields, tools, tool_paths, losses),
        parallel_tool_calls=fields.boolean("parallel_tool_calls"),
        max_output_tokens=_read_limit(fields, losses),
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        presence_penalty=fields.number("presence_penalty"),
        frequency_penalty=fields.number("frequency_penalty"),
        stop=_read_stop(fields),
        choices=fields.integer("n"),
        logprobs=fields.boolean("logprobs"),
        top_logprobs=fields.integer("top_logprobs"),
        format=read_format(fields.nested("response_format"), FAMILY),
        verbosity=fields.string("verbosity"),
        effort=fields.string("reasoning_effort"),
        stream=fields.boolean("stream"),
        include_usage=options.boolean("include_usage"),
        include_obfuscation=options.boolean("include_obfuscation"),
        store=fields.boolean("store"),
        metadata=fields.raw("metadata"),
        user=fields.string("user"),
        safety_identifier=fields.string("safety_identifier"),
        prompt_cache_key=fields.string("prompt_cache_key"),
        prompt_cache_retention=fields.string("prompt_cache_retention"),
        prompt_cache_options=read_cache_options(fields, FAMILY),
        service_tier=fields.string("service_tier"),
        moderation=fields.raw("moderation"),
        extras=unread_fields(fields, FAMILY, CHAT_ONLY_FIELDS)
        + unread_fields(options, FAMILY, prefix="stream_options."),
    )


def _check_fields(fields: JsonObject) -> None:
    """Reject a request that combines tools and legacy functions, or has no messages."""
    for legacy, modern in (("functions", "tools"), ("function_call", "tool_choice")):
        if fields.has(legacy) and fields.has(modern):
            error = f"`{legacy}` and `{modern}` cannot be combined"
            raise UnsupportedRequestError(legacy, error)
    if fields.has("messages"):
        return
    if fields.has("input"):
        # Cursor sends Responses requests (https://github.com/BerriAI/litellm/issues/34029).
        error = "is required; a body with `input` is a Responses API request"
        raise InvalidRequestError("messages", error)
    raise missing_field("messages")


def _read_tools(fields: JsonObject, losses: Losses) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Read the tools and their paths; `web_search_options` are read as a tool."""
    name = "functions" if fields.has("functions") else "tools"
    tools = tuple(map(_with_strict, read_tools(fields.array(name), name, FAMILY, losses)))
    paths = tuple(f"{name}[{number}]" for number in range(len(tools)))
    search = fields.nested(_SEARCH_OPTIONS)
    if search is None:
        return tools, paths
    return (*tools, _read_web_search(search)), (*paths, _SEARCH_OPTIONS)


def _with_strict(tool: Tool) -> Tool:
    """Set `strict` to its default in Chat, because the Responses API has another default."""
    if isinstance(tool, FunctionTool) and tool.strict is None:
        return replace(tool, strict=False)
    return tool


def _read_web_search(fields: JsonObject) -> HostedTool:
    """Read the search options as a tool; in Chat, the location is in one more object."""
    search: dict[str, object] = {"type": "web_search"}
    if (location := fields.nested("user_location")) is not None:
        inner = location.nested("approximate") or location
        approximate: dict[str, object] = {"type": "approximate"}
        search["user_location"] = approximate | location.take_remaining() | inner.take_remaining()
    search.update(fields.take_remaining())
    return HostedTool("web_search", Raw(msgspec.json.encode(search)))


def _read_tool_choice(
    fields: JsonObject, tools: tuple[Tool, ...], paths: tuple[str, ...], losses: Losses
) -> ToolChoice | None:
    name = "tool_choice" if fields.has("tool_choice") else "function_call"
    choice = read_tool_choice(fields.raw(name), name, tools, losses)
    if isinstance(choice, AllowedToolsChoice) and _SEARCH_OPTIONS in paths:
        # In Chat, a list of allowed tools does not restrict the web search.
        return replace(choice, others=(*choice.others, _ALLOWED_SEARCH))
    return choice


def _read_limit(fields: JsonObject, losses: Losses) -> int | None:
    """Read the token limit: `max_completion_tokens` or, in older clients, `max_tokens`."""
    limit = fields.integer("max_completion_tokens")
    old_limit = fields.integer("max_tokens")
    if limit is not None and old_limit is not None and limit != old_limit:
        error = "`max_tokens` and `max_completion_tokens` must be equal"
        raise UnsupportedRequestError("max_tokens", error)
    if limit is None and old_limit is None:
        return None
    name = "max_tokens" if limit is None else "max_completion_tokens"
    losses.rename({"max_output_tokens": name})
    return old_limit if limit is None else limit


def _read_stop(fields: JsonObject) -> tuple[str, ...]:
    raw = fields.raw("stop")
    stop = () if raw is None else decode(raw, _STOP, "stop")
    return tuple(text for text in ((stop,) if isinstance(stop, str) else stop) if text)


# The fields of a message by which legacy messages are recognized.
class _MessageHead(Struct):
    role: Raw = MISSING
    function_call: Raw = MISSING
    tool_calls: Raw = MISSING


_MESSAGE_HEADS = msgspec.json.Decoder(list[_MessageHead])


def is_legacy(body: RequestBody) -> bool:
    """Whether a request is legacy, by its functions or by the calls and outputs in its messages.

    A request with legacy calls in its history may declare no functions.
    """
    fields = body.fields
    if is_present(fields.get("functions", NULL)) or is_present(fields.get("function_call", NULL)):
        return True
    messages = bytes(fields.get("messages", NULL))
    if is_present(fields.get("tools", NULL)) or b'"function' not in messages:
        return False
    try:
        heads = _MESSAGE_HEADS.decode(messages)
    except DECODE_ERRORS:
        return False
    return any(
        bytes(head.role) == b'"function"'
        or (is_present(head.function_call) and not is_present(head.tool_calls))
        for head in heads
    )
