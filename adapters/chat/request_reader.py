"""Reads a request on `/chat/completions`, in the modern or the legacy form."""

import msgspec
from msgspec import Raw

from adapters.chat.message_reader import read_messages
from adapters.chat.wire import CHAT_ONLY_FIELDS
from adapters.errors import InvalidRequestError, UnsupportedRequestError
from adapters.ir.types import (
    AllowedToolsChoice,
    Extras,
    FunctionTool,
    HostedTool,
    Request,
    Tool,
    ToolChoice,
)
from adapters.losses import Losses
from adapters.wire.extra_fields import read_cache_options, unread_fields
from adapters.wire.json_object import JsonObject, decode, read_body
from adapters.wire.tools import read_format, read_tool_choice, read_tools

_SEARCH_OPTIONS = "web_search_options"
# A search, as a list of allowed tools names it.
_SEARCH = Raw(b'{"type":"web_search"}')
_STOP = msgspec.json.Decoder(str | list[str])


def read_request(body: bytes, losses: Losses) -> Request:
    """Read a request."""
    fields = read_body(body)
    _refuse_mixed(fields)
    _refuse_foreign(fields)
    legacy = fields.has("functions")
    placed = tuple(read_messages(fields.array("messages"), losses))
    tools, tool_paths = _read_tools(fields)
    choice_name = "tool_choice" if fields.has("tool_choice") else "function_call"
    options = fields.nested("stream_options") or JsonObject({})
    parallel = fields.boolean("parallel_tool_calls")
    return Request(
        model=fields.string("model"),
        items=tuple(item for item, _ in placed),
        paths=tuple(path for _, path in placed),
        tools=tools,
        tool_paths=tool_paths,
        tool_choice=_with_search(
            read_tool_choice(fields.raw(choice_name), choice_name, tools, losses), tool_paths
        ),
        # A legacy client can take one call.
        parallel_tool_calls=False if legacy else parallel,
        max_output_tokens=_read_limit(fields),
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        presence_penalty=fields.number("presence_penalty"),
        frequency_penalty=fields.number("frequency_penalty"),
        stop=_read_stop(fields),
        choices=fields.integer("n"),
        logprobs=fields.boolean("logprobs"),
        top_logprobs=fields.integer("top_logprobs"),
        format=read_format(fields.nested("response_format"), "completions"),
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
        prompt_cache_options=read_cache_options(fields, "completions"),
        service_tier=fields.string("service_tier"),
        moderation=fields.raw("moderation"),
        extras=_read_extras(fields, options),
    )


def _refuse_mixed(fields: JsonObject) -> None:
    """Refuse what asks twice: nobody could say which of the two is meant."""
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if fields.has(old) and fields.has(new):
            raise UnsupportedRequestError(old, f"`{old}` and `{new}` cannot both be given")


def _refuse_foreign(fields: JsonObject) -> None:
    """Name the mistake of a request that was meant for another address (P003)."""
    if fields.has("input") and not fields.has("messages"):
        raise InvalidRequestError(
            "messages", "this is a request of the Responses API: it has `input`"
        )
    if not fields.has("messages"):
        raise InvalidRequestError("messages", "it is missing")


def _read_tools(fields: JsonObject) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Read the tools and their paths; a web search is one, though Chat declares it elsewhere."""
    name = "functions" if fields.has("functions") else "tools"
    tools = tuple(map(_strict_said, read_tools(fields.array(name), name, "completions")))
    paths = tuple(f"{name}[{number}]" for number in range(len(tools)))
    search = fields.nested(_SEARCH_OPTIONS)
    if search is None:
        return tools, paths
    return (*tools, _read_web_search(search)), (*paths, _SEARCH_OPTIONS)


def _strict_said(tool: Tool) -> Tool:
    """Say what Chat means by silence: not strict. Responses would take it for "if possible"."""
    if isinstance(tool, FunctionTool) and tool.strict is None:
        return msgspec.structs.replace(tool, strict=False)
    return tool


def _read_web_search(fields: JsonObject) -> HostedTool:
    """Read the search options as the tool that they are; Chat wraps the location once more."""
    search: dict[str, object] = {"type": "web_search"}
    location = fields.nested("user_location")
    if location is not None:
        inner = location.nested("approximate") or location
        where: dict[str, object] = {"type": "approximate"}
        search["user_location"] = (
            where | dict(location.take_remaining()) | dict(inner.take_remaining())
        )
    search.update(fields.take_remaining())
    return HostedTool("web_search", Raw(msgspec.json.encode(search)))


def _with_search(choice: ToolChoice | None, paths: tuple[str, ...]) -> ToolChoice | None:
    """Put a search on the list of allowed tools: only here that list is not about it."""
    if isinstance(choice, AllowedToolsChoice) and _SEARCH_OPTIONS in paths:
        return msgspec.structs.replace(choice, others=(*choice.others, _SEARCH))
    return choice


def _read_limit(fields: JsonObject) -> int | None:
    """Read the limit under its two names."""
    new = fields.integer("max_completion_tokens")
    old = fields.integer("max_tokens")
    if new is not None and old is not None and new != old:
        raise UnsupportedRequestError(
            "max_tokens", "`max_tokens` and `max_completion_tokens` differ"
        )
    return old if new is None else new


def _read_stop(fields: JsonObject) -> tuple[str, ...]:
    raw = fields.raw("stop")
    stop = () if raw is None else decode(raw, _STOP, "stop")
    return tuple(one for one in ((stop,) if isinstance(stop, str) else stop) if one)


def _read_extras(fields: JsonObject, options: JsonObject) -> Extras:
    return unread_fields(fields, "completions", CHAT_ONLY_FIELDS) + unread_fields(
        options, "completions", prefix="stream_options."
    )
