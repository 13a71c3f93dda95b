"""Tool names: which are valid, what they mean in a namespace, and which tool a wrong name means.

Backends refuse names with dots, spaces or colons and names that are too long; see
https://github.com/openai/codex/issues/8694. A fixed rule makes a name valid, so the names in a
history that is sent again are the same. Two tools that would get the same name are an error,
because a call of one could run the other.
"""

import re
from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.ir.types import CustomTool, Family, FunctionTool, HostedTool, Tool
from adapters.wire.json_object import read_fields
from adapters.wire.tools import read_tools

# The limit of Chat Completions and legacy functions.
DEFAULT_MAX_NAME_LENGTH = 64
NAMESPACE_SEPARATOR = "__"

_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS = 8


def is_valid_name(name: str, limit: int = DEFAULT_MAX_NAME_LENGTH) -> bool:
    """Whether every backend accepts a name."""
    return len(name) <= limit and _INVALID_CHARACTER.search(name) is None


def sanitize_name(name: str, limit: int = DEFAULT_MAX_NAME_LENGTH) -> str:
    """Return a valid name; one that is valid stays as it is.

    Punctuation becomes `_`. Where letters or the end of a long name are lost, a hash of the whole
    name is added to keep it unique.
    """
    valid = _INVALID_CHARACTER.sub("_", name)
    if name.isascii() and len(valid) <= limit:
        return valid
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{valid[: limit - _HASH_DIGITS - 1]}_{digest}"


def qualified_name(namespace: str | None, name: str, limit: int = DEFAULT_MAX_NAME_LENGTH) -> str:
    """Return the name of a tool for those who have no namespaces."""
    prefix = "" if namespace is None else namespace + NAMESPACE_SEPARATOR
    return sanitize_name(prefix + name, limit)


# Namespaces: the form in which Codex declares the tools of every MCP server

NAMESPACE = "namespace"

# The namespace of a tool, and its name in it.
Identity = tuple[str | None, str]
NamedTool = FunctionTool | CustomTool

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, Raw]])


class Namespace(Struct, frozen=True):
    """A namespace with its tools, each with its path."""

    name: str
    description: str
    tools: tuple[tuple[NamedTool, str], ...]
    # The paths of tools that have no name, and so cannot be called outside of the namespace.
    unnamed_paths: tuple[str, ...] = ()

    def describe(self, tool: NamedTool) -> NamedTool:
        """Return a tool with the description of its namespace before its own."""
        if not self.description:
            return tool
        own = tool.description
        description = f"{self.description}\n\n{own}" if own else self.description
        return replace(tool, description=description)


def read_namespace(tool: HostedTool, path: str, family: Family = "") -> Namespace:
    """Read a namespace; `family` is the owner of extra fields of its tools."""
    fields = read_fields(tool.value, path)
    tools_path = f"{path}.tools"
    read = read_tools(fields.array("tools"), tools_path, family)
    tools = [(tool, f"{tools_path}[{i}]") for i, tool in enumerate(read)]
    return Namespace(
        fields.string("name") or "",
        (fields.string("description") or "").strip(),
        tuple((tool, at) for tool, at in tools if not isinstance(tool, HostedTool)),
        tuple(at for tool, at in tools if isinstance(tool, HostedTool)),
    )


def tool_identities(tool: Tool, path: str) -> tuple[Identity, ...]:
    """Return the identity of a tool with a name, or of each such tool in a namespace."""
    if not isinstance(tool, HostedTool):
        return ((None, tool.name),)
    if tool.kind != NAMESPACE:
        return ()
    namespace = read_namespace(tool, path)
    return tuple((namespace.name, child.name) for child, _ in namespace.tools)


def without_child_field(tool: HostedTool, name: str) -> HostedTool:
    """Return a namespace with a field removed from each of its tools."""
    fields = _OBJECT.decode(tool.value)
    children = [
        {field: value for field, value in child.items() if field != name}
        for child in _OBJECTS.decode(fields["tools"])
    ]
    return replace(tool, value=Raw(msgspec.json.encode({**fields, "tools": children})))


# Names that a model made up

# What models put between a namespace and a name.
_SEPARATORS = re.compile(r"[./:]|__")
_PUNCTUATION = re.compile(r"[\W_]+")
# What models put before a name, because their chat templates give the list of tools such a title.
_LIST_TITLES = frozenset(("functions", "function", "tools", "tool", "default_api"))


class ToolName(Struct, frozen=True):
    """The names by which a declared tool can be called."""

    qualified: str
    name: str
    namespace: str | None = None


def resolve_hallucinated_name(called: str, tools: Iterable[ToolName]) -> ToolName | None:
    """Return the only tool that an undeclared name can mean; None if several fit.

    In order: other case or punctuation, a title of the tool list before the name, a tool called
    without its namespace, another word before the name.
    """
    declared = tuple(tools)
    rules: tuple[Callable[[str, ToolName], bool], ...] = (_is_similar, _is_titled, _is_in_namespace)
    for matches in rules:
        matching = [tool for tool in declared if matches(called, tool)]
        if matching:
            return matching[0] if len(matching) == 1 else None
    return _find_prefixed(called, declared)


def _normalized(name: str) -> str:
    """Return a name without case and punctuation."""
    return _PUNCTUATION.sub("", name).casefold()


def _is_similar(called: str, tool: ToolName) -> bool:
    """Whether names differ in case or punctuation only: `Get-Weather`, `ns.exec`."""
    joined = (tool.namespace or "") + tool.name
    return _normalized(called) in (_normalized(tool.qualified), _normalized(joined))


def _is_titled(called: str, tool: ToolName) -> bool:
    """Whether a title of the tool list stands before the name: `functions.exec`."""
    untitled = _without_title(called)
    return untitled != called and _is_similar(untitled, tool)


def _is_in_namespace(called: str, tool: ToolName) -> bool:
    """Whether a tool in a namespace is called without it."""
    name = _without_title(called)
    return tool.namespace is not None and _normalized(name) == _normalized(tool.name)


def _without_title(called: str) -> str:
    first, *rest = _SEPARATORS.split(called, maxsplit=1)
    return rest[0] if rest and first.casefold() in _LIST_TITLES else called


def _find_prefixed(called: str, declared: tuple[ToolName, ...]) -> ToolName | None:
    """Return the tool before whose name another word stands: `container.exec`.

    If the word is a namespace, or the tool is in one, the call may mean another tool, possibly one
    that is no longer declared.
    """
    prefix, *rest = _SEPARATORS.split(called)
    namespaces = {_normalized(tool.namespace or "") for tool in declared}
    if len(rest) != 1 or _normalized(prefix) in namespaces:
        return None
    matching = [tool for tool in declared if _normalized(tool.name) == _normalized(rest[0])]
    return matching[0] if len(matching) == 1 and matching[0].namespace is None else None
