"""Reads a request on `/chat/completions`, in the modern or the legacy form."""

import msgspec
from msgspec import Raw

from adapters.chat.messages import read_messages
from adapters.chat.wire import ONLY_HERE
from adapters.conversation import Allowed, Extras, Function, Hosted, Request, Tool, ToolChoice
from adapters.errors import InvalidInput, Refused
from adapters.extras import left_over
from adapters.fields import Fields, decode, read_body
from adapters.loss import Losses
from adapters.settings import read_cache_options
from adapters.tools import read_format, read_tool_choice, read_tools

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
    placed = tuple(read_messages(fields.raws("messages"), losses))
    tools, tool_paths = _read_tools(fields)
    choice_name = "tool_choice" if fields.has("tool_choice") else "function_call"
    options = fields.fields("stream_options") or Fields({})
    parallel = fields.flag("parallel_tool_calls")
    return Request(
        model=fields.text("model"),
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
        logprobs=fields.flag("logprobs"),
        top_logprobs=fields.integer("top_logprobs"),
        format=read_format(fields.fields("response_format"), "completions"),
        verbosity=fields.text("verbosity"),
        effort=fields.text("reasoning_effort"),
        stream=fields.flag("stream"),
        include_usage=options.flag("include_usage"),
        include_obfuscation=options.flag("include_obfuscation"),
        store=fields.flag("store"),
        metadata=fields.raw("metadata"),
        user=fields.text("user"),
        safety_identifier=fields.text("safety_identifier"),
        prompt_cache_key=fields.text("prompt_cache_key"),
        prompt_cache_retention=fields.text("prompt_cache_retention"),
        prompt_cache_options=read_cache_options(fields, "completions"),
        service_tier=fields.text("service_tier"),
        moderation=fields.raw("moderation"),
        extras=_read_extras(fields, options),
    )


def _refuse_mixed(fields: Fields) -> None:
    """Refuse what asks twice: nobody could say which of the two is meant."""
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if fields.has(old) and fields.has(new):
            raise Refused(old, f"`{old}` and `{new}` cannot both be given")


def _refuse_foreign(fields: Fields) -> None:
    """Name the mistake of a request that was meant for another address (P003)."""
    if fields.has("input") and not fields.has("messages"):
        raise InvalidInput("messages", "this is a request of the Responses API: it has `input`")
    if not fields.has("messages"):
        raise InvalidInput("messages", "it is missing")


def _read_tools(fields: Fields) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Read the tools and their paths; a web search is one, though Chat declares it elsewhere."""
    name = "functions" if fields.has("functions") else "tools"
    tools = tuple(map(_strict_said, read_tools(fields.raws(name), name, "completions")))
    paths = tuple(f"{name}[{number}]" for number in range(len(tools)))
    search = fields.fields(_SEARCH_OPTIONS)
    if search is None:
        return tools, paths
    return (*tools, _read_web_search(search)), (*paths, _SEARCH_OPTIONS)


def _strict_said(tool: Tool) -> Tool:
    """Say what Chat means by silence: not strict. Responses would take it for "if possible"."""
    if isinstance(tool, Function) and tool.strict is None:
        return msgspec.structs.replace(tool, strict=False)
    return tool


def _read_web_search(fields: Fields) -> Hosted:
    """Read the search options as the tool that they are; Chat wraps the location once more."""
    search: dict[str, object] = {"type": "web_search"}
    location = fields.fields("user_location")
    if location is not None:
        inner = location.fields("approximate") or location
        where: dict[str, object] = {"type": "approximate"}
        search["user_location"] = where | dict(location.rest()) | dict(inner.rest())
    search.update(fields.rest())
    return Hosted("web_search", Raw(msgspec.json.encode(search)))


def _with_search(choice: ToolChoice | None, paths: tuple[str, ...]) -> ToolChoice | None:
    """Put a search on the list of allowed tools: only here that list is not about it."""
    if isinstance(choice, Allowed) and _SEARCH_OPTIONS in paths:
        return msgspec.structs.replace(choice, others=(*choice.others, _SEARCH))
    return choice


def _read_limit(fields: Fields) -> int | None:
    """Read the limit under its two names."""
    new = fields.integer("max_completion_tokens")
    old = fields.integer("max_tokens")
    if new is not None and old is not None and new != old:
        raise Refused("max_tokens", "`max_tokens` and `max_completion_tokens` differ")
    return old if new is None else new


def _read_stop(fields: Fields) -> tuple[str, ...]:
    raw = fields.raw("stop")
    stop = () if raw is None else decode(raw, _STOP, "stop")
    return tuple(one for one in ((stop,) if isinstance(stop, str) else stop) if one)


def _read_extras(fields: Fields, options: Fields) -> Extras:
    return left_over(fields, "completions", ONLY_HERE) + left_over(
        options, "completions", prefix="stream_options."
    )
