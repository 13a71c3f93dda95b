"""Puts the system messages of a conversation where a backend takes them.

Many templates know one system message and want it first (P070). What is moved to the beginning
holds from there on, which is more than was said, so it is reported as such.
"""

from itertools import takewhile
from typing import Literal

from msgspec.structs import replace

from adapters.ir.types import Item, Message, Part, Request, Text
from adapters.losses import Losses

_SEPARATOR = "\n\n"
Placed = tuple[Item, str]


def merge_system_messages(
    request: Request, which: Literal["merged", "one"], losses: Losses
) -> Request:
    """Give the request with its system messages, those at its beginning or all, made one."""
    placed = request.items_with_paths()
    leading = len(list(takewhile(_is_system, placed)))
    late = [one for one in placed[leading:] if which == "one" and _is_system(one)]
    others = [one for one in placed[leading:] if which != "one" or not _is_system(one)]
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
