"""Names that every backend takes, and the tool that a model means by a name that nobody declared.

Servers refuse names with dots, spaces or colons, and names that are too long (P019). A name is made
legal by a rule that needs no memory, so a history that is replayed gets the same names again. Two
tools that would get one name are refused: a call that goes astray is worse than an error.
"""

import re
from collections.abc import Callable, Iterable
from hashlib import sha256

from msgspec import Struct

# What Chat and legacy take.
SHORT = 64

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS = 8
# What stands between a namespace and a tool, and what models put there instead.
SEPARATOR = "__"
_SEPARATORS = re.compile(r"[./:]|__")
_NO_LETTERS = re.compile(r"[\W_]+")
# What models put before a name, because their templates call the list of tools so.
_LISTS = frozenset(("functions", "function", "tools", "tool", "default_api"))


def sanitize_name(name: str, limit: int = SHORT) -> str:
    """Give a name as servers take it; one that is legal stays as it is.

    Punctuation becomes `_`. Where letters would be lost, or the end of a long name, a hash of the
    whole keeps it apart from others.
    """
    legal = _ILLEGAL.sub("_", name)
    if name.isascii() and len(legal) <= limit:
        return legal
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{legal[: limit - _HASH_DIGITS - 1]}_{digest}"


def is_legal(name: str, limit: int = SHORT) -> bool:
    """Tell whether every server takes a name as it is."""
    return len(name) <= limit and _ILLEGAL.search(name) is None


def qualified_name(namespace: str | None, name: str, limit: int = SHORT) -> str:
    """Give the one name of a tool where there are no namespaces."""
    return sanitize_name(name if namespace is None else namespace + SEPARATOR + name, limit)


class ToolName(Struct, frozen=True):
    """How a declared tool may be called: by its one name, or by its own in its namespace."""

    flat: str
    name: str
    namespace: str | None = None


def resolve_hallucinated_name(said: str, tools: Iterable[ToolName]) -> ToolName | None:
    """Find the tool that a model means by a name that nobody declared; None if several fit.

    The nearer a likeness the more it counts: other case or other separators, then the name of the
    list before it, then a tool called without its namespace, then some other word before the name.
    """
    known = tuple(tools)
    for fits in (_is_alike, _is_listed, _is_child):
        found = _fitting(fits, said, known)
        if found:
            return found[0] if len(found) == 1 else None
    return _find_prefixed(said, known)


def _fitting(
    fits: Callable[[str, ToolName], bool], said: str, known: tuple[ToolName, ...]
) -> tuple[ToolName, ...]:
    return tuple(tool for tool in known if fits(said, tool))


def _bare(name: str) -> str:
    """Give a name without case and punctuation."""
    return _NO_LETTERS.sub("", name).casefold()


def _is_alike(said: str, tool: ToolName) -> bool:
    """Tell whether only case or punctuation differ: `Get-Weather`, `ns.exec`."""
    whole = tool.name if tool.namespace is None else tool.namespace + tool.name
    return _bare(said) in (_bare(tool.flat), _bare(whole))


def _is_listed(said: str, tool: ToolName) -> bool:
    """Tell whether the name of the list stands before it: `functions.exec`."""
    first, *rest = _SEPARATORS.split(said, maxsplit=1)
    return first.casefold() in _LISTS and bool(rest) and _is_alike(rest[0], tool)


def _is_child(said: str, tool: ToolName) -> bool:
    """Tell whether a tool in a namespace is called without it."""
    last = _without_list(said)
    return tool.namespace is not None and _bare(last) == _bare(tool.name)


def _without_list(said: str) -> str:
    first, *rest = _SEPARATORS.split(said, maxsplit=1)
    return rest[0] if rest and first.casefold() in _LISTS else said


def _find_prefixed(said: str, known: tuple[ToolName, ...]) -> ToolName | None:
    """Find the tool before whose name some other word stands: `container.exec`.

    The word may not be that of a namespace, nor the name that of a tool in one: then another tool
    may be meant, be it one that is no longer there.
    """
    word, *rest = _SEPARATORS.split(said)
    if len(rest) != 1 or any(_bare(tool.namespace or "") == _bare(word) for tool in known):
        return None
    found = [tool for tool in known if _bare(tool.name) == _bare(rest[0])]
    return found[0] if len(found) == 1 and found[0].namespace is None else None
