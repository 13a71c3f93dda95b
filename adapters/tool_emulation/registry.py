"""The tools of a request and their names, as the client and as the backend knows them.

Backends refuse names with dots, spaces or colons and names that are too long; see
https://github.com/openai/codex/issues/8694. Such names are replaced by a fixed rule, so that they
are the same in each request of a conversation. If two tools get the same name, one of them gets a
hash at its end.
"""

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
    Extras,
    Family,
    FunctionTool,
    HostedTool,
    NamedToolChoice,
    Request,
    Tool,
    ToolCall,
)
from adapters.wire.json_object import read_fields
from adapters.wire.tools import read_tools

# The limit of Chat Completions and legacy functions.
DEFAULT_MAX_NAME_LENGTH = 64

_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS = 8
# OpenAI's models know functions outside of any namespace under this one. Codex puts its own tools
# in it, and refers to them by their plain names.
_PLAIN_NAMESPACE = "functions"


def is_valid_name(name: str, limit: int = DEFAULT_MAX_NAME_LENGTH) -> bool:
    """Whether every backend accepts a name."""
    return len(name) <= limit and _INVALID_CHARACTER.search(name) is None


def sanitize_name(name: str, limit: int = DEFAULT_MAX_NAME_LENGTH) -> str:
    """Return a valid name; names that are already valid are not changed.

    Punctuation becomes `_`. If letters or the end of a long name are lost, a hash of the original
    name is added to keep it unique.
    """
    valid = _INVALID_CHARACTER.sub("_", name)
    if name.isascii() and len(valid) <= limit:
        return valid
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{valid[: limit - _HASH_DIGITS - 1]}_{digest}"


def distinct_name(name: str, tool: tuple[object, ...], limit: int = DEFAULT_MAX_NAME_LENGTH) -> str:
    """Return a name with a hash of the tool, for a tool whose name another one has."""
    digest = sha256(repr(tool).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{name[: limit - _HASH_DIGITS - 1]}_{digest}"


def qualified_name(namespace: str | None, name: str, limit: int = DEFAULT_MAX_NAME_LENGTH) -> str:
    """Return the name of a tool for clients and backends without namespaces."""
    prefix = "" if namespace in (None, _PLAIN_NAMESPACE) else f"{namespace}__"
    return sanitize_name(prefix + name, limit)


# Namespaces: the form in which Codex declares the tools of every MCP server

NAMESPACE = "namespace"

# The namespace of a tool, and its name in it.
ToolIdentity = tuple[str | None, str]
NamedTool = FunctionTool | CustomTool

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, Raw]])


class Namespace(Struct, frozen=True):
    """A namespace with its tools, each with its path."""

    name: str
    description: str
    tools: tuple[tuple[NamedTool, str], ...]
    # The paths of tools without a name, which cannot be called outside of the namespace.
    unnamed_paths: tuple[str, ...] = ()

    def describe(self, tool: NamedTool) -> NamedTool:
        """Return a tool with the description of its namespace before its own."""
        if not self.description:
            return tool
        own = tool.description
        description = f"{self.description}\n\n{own}" if own else self.description
        return replace(tool, description=description)


def read_namespace(tool: HostedTool, path: str, family: Family = "") -> Namespace:
    """Read a namespace; `family` is the family of the extra fields of its tools."""
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


def tool_identities(tool: Tool, path: str) -> tuple[ToolIdentity, ...]:
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


# Undeclared names in calls

# Separators that models write between a namespace and a name.
_SEPARATORS = re.compile(r"[./:]|__")
_PUNCTUATION = re.compile(r"[\W_]+")
# Prefixes that models write before a name: titles of the tool list in their chat templates.
_LIST_TITLES = frozenset(("functions", "function", "tools", "tool", "default_api"))


class ToolName(Struct, frozen=True):
    """The names by which a declared tool can be called."""

    qualified: str
    name: str
    namespace: str | None = None


def resolve_undeclared_name(called: str, tools: Iterable[ToolName]) -> ToolName | None:
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
    """Whether a title of the tool list is before the name: `functions.exec`."""
    untitled = _without_title(called)
    return untitled != called and _is_similar(untitled, tool)


def _is_in_namespace(called: str, tool: ToolName) -> bool:
    """Whether a tool is called without its namespace."""
    name = _without_title(called)
    return tool.namespace is not None and _normalized(name) == _normalized(tool.name)


def _without_title(called: str) -> str:
    first, *rest = _SEPARATORS.split(called, maxsplit=1)
    return rest[0] if rest and first.casefold() in _LIST_TITLES else called


def _find_prefixed(called: str, declared: tuple[ToolName, ...]) -> ToolName | None:
    """Return the tool with another word before its name: `container.exec`.

    Return None if the word is a namespace or the tool is in one: the call may mean another tool,
    possibly one that is no longer declared.
    """
    prefix, *rest = _SEPARATORS.split(called)
    namespaces = {_normalized(tool.namespace or "") for tool in declared}
    if len(rest) != 1 or _normalized(prefix) in namespaces:
        return None
    matching = [tool for tool in declared if _normalized(tool.name) == _normalized(rest[0])]
    return matching[0] if len(matching) == 1 and matching[0].namespace is None else None


# Tools

_EMPTY_OBJECT = Raw(b"{}")


class BackendToolSupport(Struct, frozen=True):
    """The tools that a backend supports."""

    # Whether it accepts a tool without emulation.
    supports: Callable[[Tool], bool]
    max_name_length: int = DEFAULT_MAX_NAME_LENGTH
    # Whether it accepts `strict` on functions.
    strict: bool = True
    # The maximum number of deferred tools to declare; None for all of them.
    deferred_tools: int | None = None

    def supports_hosted(self, kind: str) -> bool:
        """Whether the backend supports hosted tools, or items, of a kind."""
        return self.supports(HostedTool(kind, _EMPTY_OBJECT))

    def supports_call_kind(self, kind: CallKind) -> bool:
        """Whether the backend accepts a history with calls of a kind."""
        match kind:
            case "function":
                return True
            case "custom":
                return self.supports(CustomTool("any"))
            case _:
                return self.supports_hosted(kind)


def call_kind(tool: NamedTool) -> CallKind:
    """Return the kind of the calls of a tool."""
    return "custom" if isinstance(tool, CustomTool) else "function"


class RegisteredTool(Struct, frozen=True):
    """A tool that the client runs."""

    kind: CallKind
    name: str
    namespace: str | None
    # The declaration of the client, and its path.
    tool: FunctionTool | CustomTool | HostedTool
    path: str
    # The kind, name and namespace that the backend knows.
    backend_kind: CallKind
    backend_name: str
    backend_namespace: str | None = None
    # Whether the backend passes its value in an object.
    is_wrapped: bool = False

    @classmethod
    def unchanged(
        cls, tool: NamedTool, path: str, namespace: str | None = None
    ) -> "RegisteredTool":
        """Return a tool that has the same kind and names for the backend as for the client."""
        kind = call_kind(tool)
        return cls(kind, tool.name, namespace, tool, path, kind, tool.name, namespace)

    @property
    def qualified_name(self) -> str:
        """The name for clients and backends without namespaces."""
        return qualified_name(self.namespace, self.name)

    @property
    def backend_identity(self) -> ToolIdentity:
        """The identity that the backend knows."""
        return self.backend_namespace, self.backend_name

    @property
    def is_emulated(self) -> bool:
        """True if the backend knows the tool under another kind, name or schema."""
        own = (self.kind, self.namespace, self.name)
        known = (self.backend_kind, self.backend_namespace, self.backend_name)
        return self.is_wrapped or known != own

    @property
    def display_name(self) -> str:
        """The name with its namespace, for messages."""
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"

    def __str__(self) -> str:
        return f"{self.display_name} ({self.path})"


class ToolRegistry:
    """The tools of one request."""

    def __init__(
        self, entries: Iterable[RegisteredTool] = (), functions: frozenset[str] = frozenset()
    ) -> None:
        # Read at their first use. Of entries with the same backend identity the last one counts.
        self._unread_entries = entries
        # The names of functions without emulation: their calls are found without reading entries.
        self._functions = functions

    @classmethod
    def of_functions(cls, request: Request, names: frozenset[str]) -> "ToolRegistry":
        """Return the registry of a request that needs no emulation."""
        entries = (
            RegisteredTool.unchanged(tool, path)
            for tool, path in request.tools_with_paths()
            if isinstance(tool, FunctionTool)
        )
        return cls(entries, names)

    def __bool__(self) -> bool:
        return bool(self._functions or self.entries)

    @cached_property
    def _by_backend_identity(self) -> dict[ToolIdentity, RegisteredTool]:
        return {entry.backend_identity: entry for entry in self._unread_entries}

    @cached_property
    def entries(self) -> tuple[RegisteredTool, ...]:
        """The tools, each backend identity once."""
        return tuple(self._by_backend_identity.values())

    @cached_property
    def _by_identity(self) -> dict[ToolIdentity, RegisteredTool]:
        return {(entry.namespace, entry.name): entry for entry in self.entries}

    @cached_property
    def _by_kind(self) -> dict[tuple[CallKind, str | None, str], RegisteredTool]:
        return {(entry.kind, entry.namespace, entry.name): entry for entry in self.entries}

    @cached_property
    def _by_qualified_name(self) -> dict[str, RegisteredTool]:
        return {entry.qualified_name: entry for entry in self.entries}

    @property
    def has_emulated(self) -> bool:
        """True if the backend knows any tool under another kind, name or schema."""
        return not self._functions and any(entry.is_emulated for entry in self.entries)

    def knows_unchanged(self, call: ToolCall) -> bool:
        """Whether a backend calls a function by the name that the client declared."""
        if call.kind != "function":
            return False
        if call.namespace is None and call.name in self._functions:
            return True
        entry = self.by_backend_name(call)
        if entry is None or entry.is_wrapped:
            return False
        own = (entry.kind, entry.namespace, entry.name)
        return own == ("function", call.namespace, call.name)

    def by_backend_name(self, call: ToolCall) -> RegisteredTool | None:
        """Return the tool that a backend calls."""
        return self._by_backend_identity.get((call.namespace, call.name))

    def resolve_unknown(self, call: ToolCall) -> RegisteredTool | None:
        """Return the only tool that a call with an undeclared name can mean."""
        called = call.name if call.namespace is None else f"{call.namespace}.{call.name}"
        declared = {
            ToolName(entry.backend_name, entry.name, entry.namespace): entry
            for entry in self.entries
        }
        name = resolve_undeclared_name(called, declared)
        return None if name is None else declared[name]

    def by_client_name(
        self, name: str, namespace: str | None = None, kind: CallKind | None = None
    ) -> RegisteredTool | None:
        """Return the tool that a client names; the name may be qualified.

        The kind of a call decides between tools with equal names.
        """
        entry = None if kind is None else self._by_kind.get((kind, namespace, name))
        if entry is None:
            entry = self._by_identity.get((namespace, name))
        return self._by_qualified_name.get(name) if entry is None and namespace is None else entry

    def by_choice(self, choice: NamedToolChoice) -> RegisteredTool | None:
        """Return the tool of a choice, which may omit the namespace of a unique name."""
        entry = self.by_client_name(choice.name, choice.namespace, choice.kind)
        if entry is not None or choice.namespace is not None:
            return entry
        entries = [one for one in self.entries if one.namespace and one.name == choice.name]
        return entries[0] if len(entries) == 1 else None

    def has_backend_name(self, name: str) -> bool:
        """Whether the backend knows a tool by this name, outside of namespaces."""
        return (None, name) in self._by_backend_identity

    def has_unique_backend_name(self, entry: RegisteredTool) -> bool:
        """Whether no other tool has the same name at the backend, in any namespace."""
        return sum(entry.backend_name == other.backend_name for other in self.entries) == 1

    def by_kind(self, kind: str) -> RegisteredTool | None:
        """Return the built-in tool of a kind."""
        entries = (entry for entry in self.entries if entry.kind == entry.name == kind)
        return next(entries, None)

    def in_namespace(self, namespace: str | None) -> tuple[RegisteredTool, ...]:
        """Return all tools in a namespace; () for None."""
        if namespace is None:
            return ()
        return tuple(entry for entry in self.entries if entry.namespace == namespace)


# Programs that call tools: written by the model, run by its server

PROGRAMS = "programmatic_tool_calling"
# A field of a call, and a field of a tool with the possible values of that field.
CALLER = "caller"
ALLOWED_CALLERS = "allowed_callers"
_DIRECT, _PROGRAM = b'"direct"', b'"programmatic"'


def is_called_by_program(extras: Extras) -> bool:
    """Whether a program made a call, by the extra fields of the call or its output."""
    return any(extra.name == CALLER and _DIRECT not in bytes(extra.value) for extra in extras)


def allows_programs(allowed_callers: Raw | None) -> bool:
    """Whether programs may call a tool."""
    return allowed_callers is not None and _PROGRAM in bytes(allowed_callers)


def is_for_programs_only(allowed_callers: Raw | None) -> bool:
    """Whether only programs may call a tool, and not the model itself."""
    callers = b"" if allowed_callers is None else bytes(allowed_callers)
    return _PROGRAM in callers and _DIRECT not in callers
