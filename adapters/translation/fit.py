"""Fits a request to what a backend takes, as far as that is the same in every dialect."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Literal

import msgspec
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.ir.types import Item, Message, Part, Request, ResponseFormat, Text, ToolCall
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.text_tools.prompt import describe_tools_in_prompt
from adapters.wire.json_schema import to_strict_schema

# Puts the system messages of a conversation where a backend takes them.
#
# Many templates know one system message and want it first (P070). What is moved to the beginning
# holds from there on, which is more than was said, so it is reported as such.


_SEPARATOR = "\n\n"
Placed = tuple[Item, str]


def merge_system_messages(
    request: Request, which: Literal["merge_leading", "single"], losses: Losses
) -> Request:
    """Give the request with its system messages, those at its beginning or all, made one."""
    placed = request.items_with_paths()
    leading = len(list(takewhile(_is_system, placed)))
    late = [one for one in placed[leading:] if which == "single" and _is_system(one)]
    others = [one for one in placed[leading:] if which != "single" or not _is_system(one)]
    if not late and leading + bool(request.instructions) <= 1:
        return request
    for _, path in late:
        losses.changed(path, "it moves to the beginning, where the backend takes it", "capability")
    spoken = placed[:leading] + late
    if len(spoken) + bool(request.instructions) > 1:
        losses.changed("items", "system messages are put together: the backend takes one")
    instructions, first = _merged(request.instructions, spoken, losses)
    kept = [*first, *others]
    return replace(
        request,
        instructions=instructions,
        items=tuple(item for item, _ in kept),
        paths=tuple(path for _, path in kept),
    )


def _is_system(placed: Placed) -> bool:
    item, _ = placed
    return isinstance(item, Message) and item.role in ("system", "developer")


def _merged(
    instructions: str | None, spoken: list[Placed], losses: Losses
) -> tuple[str | None, list[Placed]]:
    """Make one of all that is said: the instructions, where there are any, else a message."""
    messages = [(item, path) for item, path in spoken if isinstance(item, Message)]
    parts: list[Part] = [Text(instructions)] if instructions else []
    for message, _ in messages:
        parts += message.content
    plain = all(_is_plain(part) for part in parts)
    texts = [part.text for part in parts if isinstance(part, Text)]
    # Of what else is said of a message, that of the first can stay.
    for message, path in messages[0 if instructions and plain else 1 :]:
        for extra in message.extras:
            losses.dropped(f"{path}.{extra.name}", "it goes into another message", exact=True)
    if plain and instructions:
        return _SEPARATOR.join(texts), []
    first, path = messages[0]
    content = (Text(_SEPARATOR.join(texts)),) if plain else tuple(parts)
    return None, [(replace(first, content=content), path)]


def _is_plain(part: Part) -> bool:
    return isinstance(part, Text) and part.cache_breakpoint is None and not part.extras


# From none to most.
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def fit_to_capabilities(request: Request, capabilities: Capabilities, losses: Losses) -> Request:
    """Give the request as the backend can take it."""
    if capabilities.tools == "prompted":
        request = describe_tools_in_prompt(request, losses)
    if capabilities.system_messages != "anywhere":
        request = merge_system_messages(request, capabilities.system_messages, losses)
    if capabilities.reasoning_efforts is not None and request.effort is not None:
        effort = _nearest(request.effort, capabilities.reasoning_efforts, losses)
        request = replace(request, effort=effort)
    if capabilities.json_arguments_required:
        request = replace(request, items=tuple(_with_json(request, losses)))
    if capabilities.enforce_strict_schemas:
        tools = (to_strict_schema(tool, path, losses) for tool, path in request.tools_with_paths())
        request = replace(request, tools=tuple(tools))
    if capabilities.json_schema != "native" and request.format is not None:
        request = replace(request, format=_without_schema(request.format, capabilities, losses))
    return request


def _with_json(request: Request, losses: Losses) -> Iterator[Item]:
    """Give the items, each call of a function with arguments that can be parsed."""
    for item, path in request.items_with_paths():
        if isinstance(item, ToolCall) and item.kind == "function" and not _is_object(item):
            losses.changed(f"{path}.arguments", "they are no JSON object; they are wrapped in one")
            arguments = msgspec.json.encode({"arguments": item.arguments}).decode()
            yield replace(item, arguments=arguments)
        else:
            yield item


def _is_object(call: ToolCall) -> bool:
    return call.arguments.lstrip().startswith("{") and is_complete_json(call.arguments)


def _nearest(effort: str, known: tuple[str, ...], losses: Losses) -> str | None:
    """Give the nearest effort that the backend knows; of two, the one that thinks more (P092)."""
    if effort in known or effort not in _EFFORTS:
        return effort
    wanted = _EFFORTS.index(effort)
    ranks = [_EFFORTS.index(word) for word in known if word in _EFFORTS]
    if not ranks:
        losses.dropped("effort", "the backend cannot be told how much to think")
        return None
    nearest = _EFFORTS[min(ranks, key=lambda rank: (abs(rank - wanted), -rank))]
    losses.changed("effort", f"the backend has no effort {effort}; it becomes {nearest}")
    return nearest


def _without_schema(
    form: ResponseFormat, capabilities: Capabilities, losses: Losses
) -> ResponseFormat:
    """Ask for some JSON where the backend cannot be given its schema as such."""
    if form.kind != "json_schema":
        return form
    if capabilities.json_schema == "json_object":
        losses.changed("format", "the backend takes a schema inside json_object only")
        return ResponseFormat("json_object", schema=form.schema, extras=form.extras)
    reason = "the backend takes no schema; it is asked for JSON of any shape"
    losses.changed("format", reason, "capability")
    return ResponseFormat("json_object", extras=form.extras)
