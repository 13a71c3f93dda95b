"""Fit a request to what a backend accepts, as far as that is the same in every dialect."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.ir.types import Item, Message, Part, Request, ResponseFormat, Text, ToolCall
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.text_tools.prompt import describe_tools_in_prompt
from adapters.wire.json_schema import to_strict_schema

ItemWithPath = tuple[Item, str]

_SEPARATOR: Final = "\n\n"
# In ascending order.
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def fit_to_capabilities(request: Request, capabilities: Capabilities, losses: Losses) -> Request:
    """Return the request as the backend accepts it."""
    if capabilities.tools == "prompted":
        request = describe_tools_in_prompt(request, losses)
    if capabilities.system_messages != "anywhere":
        request = merge_system_messages(request, capabilities.system_messages, losses)
    if capabilities.reasoning_efforts is not None and request.effort is not None:
        effort = _nearest_effort(request.effort, capabilities.reasoning_efforts, losses)
        request = replace(request, effort=effort)
    if capabilities.json_arguments_required:
        request = replace(request, items=tuple(_with_json_arguments(request, losses)))
    if capabilities.enforce_strict_schemas:
        tools = (to_strict_schema(tool, path, losses) for tool, path in request.tools_with_paths())
        request = replace(request, tools=tuple(tools))
    if capabilities.json_schema != "native" and request.format is not None:
        request = replace(request, format=_without_schema(request.format, capabilities, losses))
    return request


# System messages


def merge_system_messages(
    request: Request, which: Literal["merge_leading", "single"], losses: Losses
) -> Request:
    """Merge the system messages, those at the beginning or all, into one.

    Many chat templates accept one system message, and only at the beginning
    (https://github.com/BerriAI/litellm/issues/39282). A message that moves there applies to more of
    the conversation than before, which is reported.
    """
    items = request.items_with_paths()
    leading = [*takewhile(_is_system, items)]
    rest = items[len(leading) :]
    late = [item for item in rest if _is_system(item)] if which == "single" else []
    if not late and len(leading) + bool(request.instructions) <= 1:
        return request
    for _, path in late:
        losses.changed(path, "system messages must be at the beginning; moved", "capability")
    system = leading + late
    if len(system) + bool(request.instructions) > 1:
        losses.changed("items", "only one system message is supported; merged")
    instructions, merged = _merge(request.instructions, system, losses)
    others = [item for item in rest if not late or not _is_system(item)]
    items = [*merged, *others]
    return replace(
        request,
        instructions=instructions,
        items=tuple(item for item, _ in items),
        paths=tuple(path for _, path in items),
    )


def _is_system(item_with_path: ItemWithPath) -> bool:
    item, _ = item_with_path
    return isinstance(item, Message) and item.role in ("system", "developer")


def _merge(
    instructions: str | None, system: list[ItemWithPath], losses: Losses
) -> tuple[str | None, list[ItemWithPath]]:
    """Merge messages into the instructions if there are some, or else into the first message."""
    messages = [(item, path) for item, path in system if isinstance(item, Message)]
    parts: list[Part] = [Text(instructions)] if instructions else []
    for message, _ in messages:
        parts += message.content
    plain = all(_is_plain(part) for part in parts)
    texts = [part.text for part in parts if isinstance(part, Text)]
    # Only the first message, if there is one, keeps its other fields.
    for message, path in messages[0 if instructions and plain else 1 :]:
        for extra in message.extras:
            losses.dropped(f"{path}.{extra.name}", "merged into another message", exact=True)
    if plain and instructions:
        return _SEPARATOR.join(texts), []
    first, path = messages[0]
    content = (Text(_SEPARATOR.join(texts)),) if plain else tuple(parts)
    return None, [(replace(first, content=content), path)]


def _is_plain(part: Part) -> bool:
    return isinstance(part, Text) and part.cache_breakpoint is None and not part.extras


# Other capabilities


def _with_json_arguments(request: Request, losses: Losses) -> Iterator[Item]:
    """Yield the items; function arguments that are no JSON object are wrapped in one."""
    for item, path in request.items_with_paths():
        if isinstance(item, ToolCall) and item.kind == "function" and not _has_object(item):
            losses.changed(f"{path}.arguments", "not a JSON object; wrapped in one")
            arguments = msgspec.json.encode({"arguments": item.arguments}).decode()
            yield replace(item, arguments=arguments)
        else:
            yield item


def _has_object(call: ToolCall) -> bool:
    return call.arguments.lstrip().startswith("{") and is_complete_json(call.arguments)


def _nearest_effort(effort: str, accepted: tuple[str, ...], losses: Losses) -> str | None:
    """Return the nearest effort that the backend accepts, of two the higher one.

    Backends reject other values (https://github.com/NousResearch/hermes-agent/issues/9429). A value
    that is not in our table passes, because new ones appear.
    """
    if effort in accepted or effort not in _EFFORTS:
        return effort
    wanted = _EFFORTS.index(effort)
    ranks = [_EFFORTS.index(value) for value in accepted if value in _EFFORTS]
    if not ranks:
        losses.dropped("effort", "the backend does not support reasoning effort")
        return None
    nearest = _EFFORTS[min(ranks, key=lambda rank: (abs(rank - wanted), -rank))]
    losses.changed("effort", f"{effort} is not supported; sent as {nearest}")
    return nearest


def _without_schema(
    response_format: ResponseFormat, capabilities: Capabilities, losses: Losses
) -> ResponseFormat:
    """Return the format for a backend that has no `json_schema`."""
    if response_format.kind != "json_schema":
        return response_format
    extras = response_format.extras
    if capabilities.json_schema == "json_object":
        losses.changed("format", "json_schema is not supported; sent as json_object with a schema")
        return ResponseFormat("json_object", schema=response_format.schema, extras=extras)
    reason = "json_schema is not supported; sent as json_object"
    losses.changed("format", reason, "capability")
    return ResponseFormat("json_object", extras=extras)
