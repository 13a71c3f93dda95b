"""Programmatic tool calling: tools called by a program that the model wrote and its server runs."""

from msgspec import Raw

from adapters.ir.types import Extras

PROGRAMS = "programmatic_tool_calling"
# Fields of a call and of a tool: who made the call, and who may.
CALLER = "caller"
ALLOWED_CALLERS = "allowed_callers"
_DIRECT, _PROGRAM = b'"direct"', b'"programmatic"'


def is_called_by_program(extras: Extras) -> bool:
    """Whether the extra fields of a call or of its output say that a program made it."""
    return any(extra.name == CALLER and _DIRECT not in bytes(extra.value) for extra in extras)


def is_for_programs_only(allowed_callers: Raw | None) -> bool:
    """Whether only programs may call a tool, and not the model itself."""
    callers = b"" if allowed_callers is None else bytes(allowed_callers)
    return _PROGRAM in callers and _DIRECT not in callers
