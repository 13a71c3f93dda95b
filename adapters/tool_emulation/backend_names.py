"""The names under which the tools of a request are declared to a backend.

A tool keeps a name that is its own and valid. If several other tools would have the same name, each
of them gets a hash, so that their names do not depend on their order.
"""

from adapters.ir.types import CallKind, CustomTool, Family, FunctionTool, Request, Tool
from adapters.losses import Losses
from adapters.tool_emulation.registry import (
    NAMESPACE,
    Namespace,
    call_kind,
    distinct_name,
    is_valid_name,
    qualified_name,
    read_namespace,
)

# The kind, namespace and name by which a client knows a tool.
Owner = tuple[CallKind, str | None, str]


class BackendNames:
    """The names of the tools of one request."""

    def __init__(self, request: Request, client_family: Family, limit: int, losses: Losses) -> None:
        self._client_family = client_family
        self._limit = limit
        self._losses = losses
        # The tools that have a name, by this name: first those whose own name it is.
        self._owners: dict[str, Owner] = {}
        # The namespaces of the `tools` field by their paths.
        self._namespaces: dict[str, Namespace] = {}
        # The names of renamed tools without a hash, and those that several tools would have.
        self._plain_names: dict[Owner, str] = {}
        self._contested: set[str] = set()
        renamed: dict[str, Owner] = {}
        for tool, path in request.tools_with_paths():
            if isinstance(tool, FunctionTool | CustomTool):
                self._owners.setdefault(tool.name, (call_kind(tool), None, tool.name))
            for owner in self._renamed(tool, path):
                name = self._plain_names[owner] = qualified_name(owner[1], owner[2], limit)
                if renamed.setdefault(name, owner) != owner:
                    self._contested.add(name)

    def _renamed(self, tool: Tool, path: str) -> list[Owner]:
        """Return the tools whose names are not their own."""
        if isinstance(tool, FunctionTool | CustomTool):
            is_valid = is_valid_name(tool.name, self._limit)
            return [] if is_valid else [(call_kind(tool), None, tool.name)]
        if tool.kind != NAMESPACE:
            return []
        namespace = self._namespaces[path] = read_namespace(tool, path, self._client_family)
        return [(call_kind(child), namespace.name, child.name) for child, _ in namespace.tools]

    def namespace(self, path: str) -> Namespace | None:
        """Return the namespace at a path of the `tools` field."""
        return self._namespaces.get(path)

    def name(self, tool: Owner, path: str) -> str:
        """Return a name that no other tool has, and report a changed one."""
        _, namespace, own_name = tool
        plain = self._plain_names.get(tool) or qualified_name(namespace, own_name, self._limit)
        name = plain
        if plain in self._contested and self._owners.get(plain) != tool:
            name = distinct_name(plain, tool, self._limit)
        while self._owners.setdefault(name, tool) != tool:
            name = distinct_name(name, tool, self._limit)
        if name != plain:
            reason = f"several tools would be named {plain}; sent as {name}"
            self._losses.changed(f"{path}.name", reason, "adapted")
        elif name != own_name and namespace is None:
            reason = f"the backend rejects this name; sent as {name}"
            self._losses.changed(f"{path}.name", reason, "adapted")
        return name
