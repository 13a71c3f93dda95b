"""Which tool is which: as the client declared it, and as the backend was told of it."""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.ir.types import (
    CallKind,
    CustomTool,
    FunctionTool,
    HostedTool,
    NamedToolChoice,
    Tool,
    ToolCall,
)
from adapters.wire.json_object import read_fields
from adapters.wire.tools import read_tools

# Names that every backend takes, and the tool that a model means by a name that nobody declared.
#
# Servers refuse names with dots, spaces or colons, and names that are too long (P019). A name is
# made
# legal by a rule that needs no memory, so a history that is replayed gets the same names again. Two
# tools that would get one name are refused: a call that goes astray is worse than an error.


# What Chat and legacy take.
DEFAULT_MAX_NAME_LENGTH = 64

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS = 8
# What stands between a namespace and a tool, and what models put there instead.
NAMESPACE_SEPARATOR = "__"
_SEPARATORS = re.compile(r"[./:]|__")
_NO_LETTERS = re.compile(r"[\W_]+")
# What models put before a name, because their templates call the list of tools so.
_LISTS = frozenset(("functions", "function", "tools", "tool", "default_api"))


def sanitize_name(name: str, limit: int = DEFAULT_MAX_NAME_LENGTH) -> str:
    """Give a name as servers take it; one that is legal stays as it is.

    Punctuation becomes `_`. Where letters would be lost, or the end of a long name, a hash of the
    whole keeps it apart from others.
    """
    legal = _ILLEGAL.sub("_", name)
    if name.isascii() and len(legal) <= limit:
        return legal
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{legal[: limit - _HASH_DIGITS - 1]}_{digest}"


def is_valid_name(name: str, limit: int = DEFAULT_MAX_NAME_LENGTH) -> bool:
    """Tell whether every server takes a name as it is."""
    return len(name) <= limit and _ILLEGAL.search(name) is None


def qualified_name(namespace: str | None, name: str, limit: int = DEFAULT_MAX_NAME_LENGTH) -> str:
    """Give the one name of a tool where there are no namespaces."""
    return sanitize_name(name if namespace is None else namespace + NAMESPACE_SEPARATOR + name, limit)


class ToolName(Struct, frozen=True):
    """How a declared tool may be called: by its one name, or by its own in its namespace."""

    qualified: str
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
    return _bare(said) in (_bare(tool.qualified), _bare(whole))


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


# What a backend can be told of tools, as far as lowering asks.


_NOTHING = Raw(b"{}")


class BackendToolSupport(Struct, frozen=True):
    """One backend, in its dialect."""

    # Whether it can be told of a tool as it is.
    supports: Callable[[Tool], bool]
    # How long a name may be.
    max_name_length: int = DEFAULT_MAX_NAME_LENGTH
    # Whether it takes `strict` on functions.
    strict: bool = True
    # How many deferred tools it is told of; None: all of them.
    deferred_tools: int | None = None

    def supports_hosted(self, kind: str) -> bool:
        """Tell whether it has tools, or items, of a kind that only one family knows."""
        return self.supports(HostedTool(kind, _NOTHING))

    def supports_call_kind(self, kind: CallKind) -> bool:
        """Tell whether calls of a kind can stand in its history."""
        match kind:
            case "function":
                return True
            case "custom":
                return self.supports(CustomTool("any"))
            case _:
                return self.supports_hosted(kind)


# Tools in a namespace, one by one: how agents declare every server of tools that they have (P029).
#
# Where a backend has no namespaces, the name of a tool begins with that of its namespace, and what
# the namespace is for is said of each of its tools.


NAMESPACE = "namespace"

Child = tuple[FunctionTool | CustomTool, str]
# A tool is known by its name in its namespace.
Identity = tuple[str | None, str]

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, Raw]])


class Namespace(Struct, frozen=True):
    """A namespace, its purpose, and its tools, each with its path."""

    name: str
    purpose: str
    children: tuple[Child, ...]
    # The paths of what is neither a function nor custom, and could not be called by its name.
    others: tuple[str, ...] = ()

    def describe(self, child: FunctionTool | CustomTool) -> FunctionTool | CustomTool:
        """Give a tool with what its namespace is for."""
        if not self.purpose:
            return child
        own = child.description
        return replace(child, description=f"{self.purpose}\n\n{own}" if own else self.purpose)


def read_namespace(tool: HostedTool, path: str) -> Namespace:
    """Read a namespace."""
    fields = read_fields(tool.value, path)
    inner = f"{path}.tools"
    read = read_tools(fields.array("tools"), inner, "responses")
    tools = [(tool, f"{inner}[{i}]") for i, tool in enumerate(read)]
    return Namespace(
        fields.string("name") or "",
        (fields.string("description") or "").strip(),
        tuple((one, at) for one, at in tools if not isinstance(one, HostedTool)),
        tuple(at for one, at in tools if isinstance(one, HostedTool)),
    )


def tool_identities(tool: Tool, path: str) -> tuple[Identity, ...]:
    """Give how a tool is called, or those in it: each by its name in its namespace."""
    if not isinstance(tool, HostedTool):
        return ((None, tool.name),)
    if tool.kind != NAMESPACE:
        return ()
    space = read_namespace(tool, path)
    return tuple((space.name, child.name) for child, _ in space.children)


def without_child_field(tool: HostedTool, name: str) -> HostedTool:
    """Give a namespace whose tools have not some field, and all else as it was spelled."""
    fields = _OBJECT.decode(tool.value)
    children = [
        {field: value for field, value in child.items() if field != name}
        for child in _OBJECTS.decode(fields["tools"])
    ]
    return replace(tool, value=Raw(msgspec.json.encode({**fields, "tools": children})))


class RegisteredTool(Struct, frozen=True):
    """One tool that the client runs."""

    kind: CallKind
    name: str
    namespace: str | None
    # As the client declared it, and where.
    tool: FunctionTool | CustomTool | HostedTool
    path: str
    # What the backend knows it as.
    backend_kind: CallKind
    backend_name: str
    backend_namespace: str | None = None

    @property
    def qualified_name(self) -> str:
        """Give its one name for those who have no namespaces."""
        return qualified_name(self.namespace, self.name)

    @property
    def backend_identity(self) -> Identity:
        """Give how the backend calls it."""
        return self.backend_namespace, self.backend_name

    @property
    def is_emulated(self) -> bool:
        """Tell whether the backend knows it as something else than it is."""
        own = (self.kind, self.namespace, self.name)
        return (self.backend_kind, self.backend_namespace, self.backend_name) != own

    @property
    def display_name(self) -> str:
        """Give its name with that of its namespace, for people."""
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"

    def __str__(self) -> str:
        return f"{self.display_name} ({self.path})"


class ToolRegistry:
    """The tools of one request."""

    def __init__(self, entries: Iterable[RegisteredTool] = ()) -> None:
        self.entries = tuple(entries)
        self._declared: dict[Identity, RegisteredTool] = {
            (entry.namespace, entry.name): entry for entry in self.entries
        }
        self._told = {entry.backend_identity: entry for entry in self.entries}

    @cached_property
    def _flat(self) -> dict[str, RegisteredTool]:
        """Give the tools by their one names; few ask for them so."""
        return {entry.qualified_name: entry for entry in self.entries}

    @property
    def has_emulated(self) -> bool:
        """Tell whether the backend knows any tool as something else than it is."""
        return any(entry.is_emulated for entry in self.entries)

    def by_backend_name(self, call: ToolCall) -> RegisteredTool | None:
        """Find the tool that a backend calls."""
        return self._told.get((call.namespace, call.name))

    def resolve_unknown(self, call: ToolCall) -> RegisteredTool | None:
        """Find the tool that a backend means, though it was told of none by that name."""
        said = call.name if call.namespace is None else f"{call.namespace}.{call.name}"
        known = {
            ToolName(entry.backend_name, entry.name, entry.namespace): entry
            for entry in self.entries
        }
        found = resolve_hallucinated_name(said, known)
        return None if found is None else known[found]

    def by_client_name(self, name: str, namespace: str | None = None) -> RegisteredTool | None:
        """Find the tool that a client names; one without namespaces may have joined the two."""
        found = self._declared.get((namespace, name))
        return self._flat.get(name) if found is None and namespace is None else found

    def child(self, name: str) -> RegisteredTool | None:
        """Find the one tool in any namespace that has a name."""
        found = [entry for entry in self.entries if entry.namespace and entry.name == name]
        return found[0] if len(found) == 1 else None

    def by_choice(self, named: NamedToolChoice) -> RegisteredTool | None:
        """Find the tool of a choice; nobody says the namespace of a name that is the only such."""
        found = self.by_client_name(named.name, named.namespace)
        return self.child(named.name) if found is None and named.namespace is None else found

    def has_unique_backend_name(self, entry: RegisteredTool) -> bool:
        """Tell whether no other tool has the name under which the backend knows one."""
        return sum(entry.backend_name == one.backend_name for one in self.entries) == 1

    def by_kind(self, kind: str) -> RegisteredTool | None:
        """Find the tool of a kind that has no names."""
        return next((one for one in self.entries if one.kind == kind and one.name == kind), None)

    def in_namespace(self, namespace: str | None) -> tuple[RegisteredTool, ...]:
        """Find all tools in a namespace; there are none in no namespace."""
        if namespace is None:
            return ()
        return tuple(entry for entry in self.entries if entry.namespace == namespace)
