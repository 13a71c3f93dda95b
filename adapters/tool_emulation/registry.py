"""The tools of a request: as the client declared them, and as the backend knows them."""

from collections.abc import Callable, Iterable
from functools import cached_property

from msgspec import Raw, Struct

from adapters.ir.types import (
    CallKind,
    CustomTool,
    FunctionTool,
    HostedTool,
    NamedToolChoice,
    Tool,
    ToolCall,
)
from adapters.tool_emulation.names import (
    DEFAULT_MAX_NAME_LENGTH,
    Identity,
    ToolName,
    qualified_name,
    resolve_hallucinated_name,
)

_EMPTY_OBJECT = Raw(b"{}")


class BackendToolSupport(Struct, frozen=True):
    """What a backend accepts of tools."""

    # Whether it accepts a tool as it is.
    supports: Callable[[Tool], bool]
    max_name_length: int = DEFAULT_MAX_NAME_LENGTH
    # Whether it accepts `strict` on functions.
    strict: bool = True
    # How many deferred tools are declared to it; None for all of them.
    deferred_tools: int | None = None

    def supports_hosted(self, kind: str) -> bool:
        """Whether it has hosted tools, or items, of a kind."""
        return self.supports(HostedTool(kind, _EMPTY_OBJECT))

    def supports_call_kind(self, kind: CallKind) -> bool:
        """Whether its history can hold calls of a kind."""
        match kind:
            case "function":
                return True
            case "custom":
                return self.supports(CustomTool("any"))
            case _:
                return self.supports_hosted(kind)


class RegisteredTool(Struct, frozen=True):
    """A tool that the client runs."""

    kind: CallKind
    name: str
    namespace: str | None
    # As the client declared it, and where.
    tool: FunctionTool | CustomTool | HostedTool
    path: str
    # As the backend knows it.
    backend_kind: CallKind
    backend_name: str
    backend_namespace: str | None = None

    @property
    def qualified_name(self) -> str:
        """The name for those who have no namespaces."""
        return qualified_name(self.namespace, self.name)

    @property
    def backend_identity(self) -> Identity:
        """The identity that the backend knows."""
        return self.backend_namespace, self.backend_name

    @property
    def is_emulated(self) -> bool:
        """True if the backend knows the tool under another kind or name."""
        own = (self.kind, self.namespace, self.name)
        return (self.backend_kind, self.backend_namespace, self.backend_name) != own

    @property
    def display_name(self) -> str:
        """The name with its namespace, for messages."""
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"

    def __str__(self) -> str:
        return f"{self.display_name} ({self.path})"


class ToolRegistry:
    """The tools of one request."""

    def __init__(self, entries: Iterable[RegisteredTool] = ()) -> None:
        # Of entries with the same identity at the backend the last one counts.
        self._by_backend_identity: dict[Identity, RegisteredTool] = {
            (entry.backend_namespace, entry.backend_name): entry for entry in entries
        }
        self.entries = tuple(self._by_backend_identity.values())
        self._by_identity: dict[Identity, RegisteredTool] = {
            (entry.namespace, entry.name): entry for entry in self.entries
        }

    @cached_property
    def _by_qualified_name(self) -> dict[str, RegisteredTool]:
        return {entry.qualified_name: entry for entry in self.entries}

    @property
    def has_emulated(self) -> bool:
        """True if the backend knows any tool under another kind or name."""
        return any(entry.is_emulated for entry in self.entries)

    def by_backend_name(self, call: ToolCall) -> RegisteredTool | None:
        """Return the tool that a backend calls."""
        return self._by_backend_identity.get((call.namespace, call.name))

    def resolve_unknown(self, call: ToolCall) -> RegisteredTool | None:
        """Return the tool that a call of an undeclared name can only mean."""
        called = call.name if call.namespace is None else f"{call.namespace}.{call.name}"
        declared = {
            ToolName(entry.backend_name, entry.name, entry.namespace): entry
            for entry in self.entries
        }
        name = resolve_hallucinated_name(called, declared)
        return None if name is None else declared[name]

    def by_client_name(self, name: str, namespace: str | None = None) -> RegisteredTool | None:
        """Return the tool that a client names; the name may be qualified."""
        entry = self._by_identity.get((namespace, name))
        return self._by_qualified_name.get(name) if entry is None and namespace is None else entry

    def by_choice(self, choice: NamedToolChoice) -> RegisteredTool | None:
        """Return the tool of a choice, which may omit the namespace of a unique name."""
        entry = self.by_client_name(choice.name, choice.namespace)
        if entry is not None or choice.namespace is not None:
            return entry
        entries = [one for one in self.entries if one.namespace and one.name == choice.name]
        return entries[0] if len(entries) == 1 else None

    def has_unique_backend_name(self, entry: RegisteredTool) -> bool:
        """Whether no other tool has the same name at the backend, in any namespace."""
        return sum(entry.backend_name == other.backend_name for other in self.entries) == 1

    def by_kind(self, kind: str) -> RegisteredTool | None:
        """Return the built-in tool of a kind."""
        entries = (entry for entry in self.entries if entry.kind == entry.name == kind)
        return next(entries, None)

    def in_namespace(self, namespace: str | None) -> tuple[RegisteredTool, ...]:
        """Return all tools in a namespace; none for None."""
        if namespace is None:
            return ()
        return tuple(entry for entry in self.entries if entry.namespace == namespace)
