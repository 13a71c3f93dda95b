"""Which tool is which: as the client declared it, and as the backend was told of it."""

from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct

from adapters.ir.types import (
    CallKind,
    CustomTool,
    FunctionTool,
    HostedTool,
    NamedToolChoice,
    ToolCall,
)
from adapters.tool_emulation.names import (
    ToolName,
    qualified_name,
    resolve_hallucinated_name,
)
from adapters.tool_emulation.namespaces import Identity


class RegisteredTool(Struct, frozen=True):
    """One tool that the client runs."""

    kind: CallKind
    name: str
    namespace: str | None
    # As the client declared it, and where.
    tool: FunctionTool | CustomTool | HostedTool
    path: str
    # What the backend knows it as.
    told_kind: CallKind
    backend_name: str
    told_namespace: str | None = None

    @property
    def flat(self) -> str:
        """Give its one name for those who have no namespaces."""
        return qualified_name(self.namespace, self.name)

    @property
    def backend_identity(self) -> Identity:
        """Give how the backend calls it."""
        return self.told_namespace, self.backend_name

    @property
    def is_changed(self) -> bool:
        """Tell whether the backend knows it as something else than it is."""
        own = (self.kind, self.namespace, self.name)
        return (self.told_kind, self.told_namespace, self.backend_name) != own

    @property
    def whole_name(self) -> str:
        """Give its name with that of its namespace, for people."""
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"

    def __str__(self) -> str:
        return f"{self.whole_name} ({self.path})"


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
        return {entry.flat: entry for entry in self.entries}

    @property
    def has_emulated(self) -> bool:
        """Tell whether the backend knows any tool as something else than it is."""
        return any(entry.is_changed for entry in self.entries)

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

    def declared(self, name: str, namespace: str | None = None) -> RegisteredTool | None:
        """Find the tool that a client names; one without namespaces may have joined the two."""
        found = self._declared.get((namespace, name))
        return self._flat.get(name) if found is None and namespace is None else found

    def child(self, name: str) -> RegisteredTool | None:
        """Find the one tool in any namespace that has a name."""
        found = [entry for entry in self.entries if entry.namespace and entry.name == name]
        return found[0] if len(found) == 1 else None

    def named(self, named: NamedToolChoice) -> RegisteredTool | None:
        """Find the tool of a choice; nobody says the namespace of a name that is the only such."""
        found = self.declared(named.name, named.namespace)
        return self.child(named.name) if found is None and named.namespace is None else found

    def is_only(self, entry: RegisteredTool) -> bool:
        """Tell whether no other tool has the name under which the backend knows one."""
        return sum(entry.backend_name == one.backend_name for one in self.entries) == 1

    def of_kind(self, kind: str) -> RegisteredTool | None:
        """Find the tool of a kind that has no names."""
        return next((one for one in self.entries if one.kind == kind and one.name == kind), None)

    def in_namespace(self, namespace: str | None) -> tuple[RegisteredTool, ...]:
        """Find all tools in a namespace; there are none in no namespace."""
        if namespace is None:
            return ()
        return tuple(entry for entry in self.entries if entry.namespace == namespace)
