"""Calls of tools that have no name, which the client runs: `shell_call` and its like.

In the hub a call holds, as JSON, what there is to do. What the tools answered is in
`client_outputs`.
"""

from msgspec import Raw

from adapters.ir.types import CallKind
from adapters.json_text import is_complete_json
from adapters.wire.json_object import JsonObject, read_fields, string_or_raw_json

Wire = dict[str, object]


def runs_on_client(fields: JsonObject, kind: CallKind) -> bool:
    """Tell whether the client runs it: a search for tools may also be run by the server."""
    if kind != "tool_search":
        return True
    return fields.peek("execution") in (None, "client") and fields.has("call_id")


def read_arguments(fields: JsonObject, kind: CallKind) -> str:
    """Read what there is to do."""
    match kind:
        case "shell" | "local_shell":
            return string_or_raw_json(fields.raw("action")) or "{}"
        case "apply_patch":
            return _wrapped("operation", fields.raw("operation"))
        case "computer":
            name = "actions" if fields.has("actions") else "action"
            return _wrapped(name, fields.raw(name))
        case _:
            return string_or_raw_json(fields.raw("arguments")) or "{}"


def _wrapped(name: str, raw: Raw | None) -> str:
    return "{}" if raw is None else f'{{"{name}":{bytes(raw).decode()}}}'


def write_arguments(arguments: str, kind: CallKind) -> Wire:
    """Write what there is to do."""
    match kind:
        case "shell":
            return {"action": _json(arguments)}
        case "local_shell":
            said: Wire = dict(_fields(arguments).take_remaining())
            # The only type, and a variable or none: both have to be said.
            said["type"] = "exec"
            said.setdefault("env", {})
            return {"action": said}
        case "apply_patch":
            return dict(_fields(arguments).take_remaining())
        case "computer":
            return {"pending_safety_checks": (), **dict(_fields(arguments).take_remaining())}
        case _:
            return {"execution": "client", "arguments": _json(arguments)}


def _json(text: str) -> Raw:
    return Raw(text.encode()) if is_complete_json(text) else Raw(b"{}")


def _fields(text: str) -> JsonObject:
    return read_fields(_json(text))
