"""Tools in a namespace, one by one: how agents declare every server of tools that they have (P029).

Where a backend has no namespaces, the name of a tool begins with that of its namespace, and what
the namespace is for is said of each of its tools.
"""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.ir.types import CustomTool, FunctionTool, HostedTool, Tool
from adapters.wire.json_object import read_fields
from adapters.wire.tools import read_tools

KIND = "namespace"

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


def identities(tool: Tool, path: str) -> tuple[Identity, ...]:
    """Give how a tool is called, or those in it: each by its name in its namespace."""
    if not isinstance(tool, HostedTool):
        return ((None, tool.name),)
    if tool.kind != KIND:
        return ()
    space = read_namespace(tool, path)
    return tuple((space.name, child.name) for child, _ in space.children)


def without_field(tool: HostedTool, name: str) -> HostedTool:
    """Give a namespace whose tools have not some field, and all else as it was spelled."""
    fields = _OBJECT.decode(tool.value)
    children = [
        {field: value for field, value in child.items() if field != name}
        for child in _OBJECTS.decode(fields["tools"])
    ]
    return replace(tool, value=Raw(msgspec.json.encode({**fields, "tools": children})))
