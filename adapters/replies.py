"""What every dialect does with the choices of a reply."""

from msgspec.structs import replace

from adapters.conversation import Choice, Finish, FinishReason, Item, Reply, Request

# Of several endings the gravest speaks for all.
_GRAVITY: dict[FinishReason, int] = {"stop": 0, "calls": 1, "filter": 2, "length": 3}

_KNOWN_PREFIXES = ("chatcmpl-", "resp_")
_NAME_LIMIT = 55


def one_choice_asked(request: Request) -> bool:
    """Tell whether the client asked for one answer."""
    return (request.choices or 1) == 1


def merged(reply: Reply) -> Reply:
    """Make one choice of several: servers split text and calls of one answer (P111)."""
    if len(reply.choices) <= 1:
        return reply
    items: tuple[Item, ...] = ()
    for choice in reply.choices:
        items += choice.items
    finishes = tuple(choice.finish for choice in reply.choices if choice.finish is not None)
    return replace(reply, choices=(Choice(items, combined(finishes)),))


def combined(finishes: tuple[Finish, ...]) -> Finish | None:
    """Give the ending that speaks for all."""
    return max(finishes, key=lambda finish: _GRAVITY[finish.reason], default=None)


def renamed(reply_id: str, prefix: str) -> str | None:
    """Give a reply's id under another dialect's prefix, so that it can be found on both sides.

    None where the id is not one that every server would take.
    """
    name = reply_id
    for known in _KNOWN_PREFIXES:
        name = name.removeprefix(known)
    plain = name.replace("-", "").replace("_", "")
    legal = 0 < len(name) <= _NAME_LIMIT and plain.isascii() and plain.isalnum()
    return prefix + name if legal else None
