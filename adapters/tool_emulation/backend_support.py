"""What a backend can be told of tools, as far as lowering asks."""

from collections.abc import Callable

from msgspec import Raw, Struct

from adapters.ir.types import CallKind, CustomTool, HostedTool, Tool
from adapters.tool_emulation.names import SHORT

_NOTHING = Raw(b"{}")


class BackendToolSupport(Struct, frozen=True):
    """One backend, in its dialect."""

    # Whether it can be told of a tool as it is.
    takes: Callable[[Tool], bool]
    # How long a name may be.
    longest_name: int = SHORT
    # Whether it takes `strict` on functions.
    strict: bool = True
    # How many deferred tools it is told of; None: all of them.
    deferred_tools: int | None = None

    def has(self, kind: str) -> bool:
        """Tell whether it has tools, or items, of a kind that only one family knows."""
        return self.takes(HostedTool(kind, _NOTHING))

    def supports_call_kind(self, kind: CallKind) -> bool:
        """Tell whether calls of a kind can stand in its history."""
        match kind:
            case "function":
                return True
            case "custom":
                return self.takes(CustomTool("any"))
            case _:
                return self.has(kind)
