"""Gives messages the order that strict templates want, as Mistral's (P048).

Two messages of a user in a row become one, an assistant speaks between a tool and a user, and no
assistant speaks last.
"""

from adapters.chat.parts import TEXT_SEPARATOR
from adapters.losses import Losses

Wire = dict[str, object]

# What the assistant says there, for it must say something.
BRIDGE = "Understood."
_ANSWERS = ("tool", "function")


def strict_turns(messages: list[Wire], losses: Losses) -> list[Wire]:
    """Give the messages in an order that such a template takes."""
    kept: list[Wire] = []
    for message in messages:
        before = kept[-1]["role"] if kept else None
        if message["role"] == "user" and before in _ANSWERS:
            losses.invented("items", "an assistant speaks between a tool and a user")
            kept.append({"role": "assistant", "content": BRIDGE})
        if message["role"] == "user" and before == "user":
            losses.changed("items", "two messages of a user in a row become one")
            kept[-1] = _joined(kept[-1], message)
        else:
            kept.append(message)
    if kept and kept[-1]["role"] == "assistant":
        losses.dropped("items", "an assistant cannot speak last here", "capability")
        kept.pop()
    return kept


def _joined(first: Wire, second: Wire) -> Wire:
    one, other = first["content"], second["content"]
    if isinstance(one, str) and isinstance(other, str):
        content: object = one + TEXT_SEPARATOR + other
    else:
        content = [*_parts(one), *_parts(other)]
    return {**second, **first, "content": content}


def _parts(content: object) -> list[object]:
    if isinstance(content, list):
        return [*content]  # pyright: ignore[reportUnknownVariableType] - parts of our own writing
    return [{"type": "text", "text": content}]
