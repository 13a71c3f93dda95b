"""Calls of tools that have no name, which the client runs: `shell_call` and its like.

Each has an item of its own for the call and one for what it brought. In the hub a call holds, as
JSON, what there is to do; an output holds what was answered, as JSON or as a picture of the screen.
"""

import msgspec
from msgspec import Raw

from adapters.conversation import CallKind, Image, OtherPart, Output, Part, Text
from adapters.extras import left_over
from adapters.fields import Fields, read_fields, text_or_json
from adapters.jsontext import is_complete

Wire = dict[str, object]

_SCREEN = "computer_screenshot"


def is_for_client(fields: Fields, kind: CallKind) -> bool:
    """Tell whether the client runs it: a search for tools may also be run by the server."""
    if kind != "tool_search":
        return True
    return fields.peek("execution") in (None, "client") and fields.has("call_id")


# Calls


def read_arguments(fields: Fields, kind: CallKind) -> str:
    """Read what there is to do."""
    match kind:
        case "shell" | "local_shell":
            return text_or_json(fields.raw("action")) or "{}"
        case "apply_patch":
            return _wrapped("operation", fields.raw("operation"))
        case "computer":
            name = "actions" if fields.has("actions") else "action"
            return _wrapped(name, fields.raw(name))
        case _:
            return text_or_json(fields.raw("arguments")) or "{}"


def _wrapped(name: str, raw: Raw | None) -> str:
    return "{}" if raw is None else f'{{"{name}":{bytes(raw).decode()}}}'


def write_arguments(arguments: str, kind: CallKind) -> Wire:
    """Write what there is to do."""
    match kind:
        case "shell":
            return {"action": _json(arguments)}
        case "local_shell":
            said: Wire = dict(_fields(arguments).rest())
            # The only type, and a variable or none: both have to be said.
            said.setdefault("type", "exec")
            said.setdefault("env", {})
            return {"action": said}
        case "apply_patch":
            return dict(_fields(arguments).rest())
        case "computer":
            return {"pending_safety_checks": (), **dict(_fields(arguments).rest())}
        case _:
            return {"execution": "client", "arguments": _json(arguments)}


def _json(text: str) -> Raw:
    return Raw(text.encode()) if is_complete(text) else Raw(b"{}")


def _fields(text: str) -> Fields:
    return read_fields(_json(text))


# Outputs


def read_output(fields: Fields, kind: CallKind) -> str | tuple[Part, ...]:
    """Read what was answered."""
    match kind:
        case "computer":
            return _read_screen(fields.raw("output"))
        case "apply_patch":
            names = ("status", "output")
            said = {name: fields.raw(name) for name in names if fields.has(name)}
            return msgspec.json.encode(said).decode()
        case "tool_search":
            return text_or_json(fields.raw("tools")) or "[]"
        case _:
            return text_or_json(fields.raw("output"))


def _read_screen(raw: Raw | None) -> tuple[Part, ...]:
    if raw is None:
        return ()
    fields = read_fields(raw, "output")
    kind = fields.text("type") or _SCREEN
    if kind != _SCREEN:
        return (OtherPart("responses", kind, raw),)
    url, file_id = fields.text("image_url"), fields.text("file_id")
    return (Image(url, file_id, fields.text("detail"), extras=left_over(fields, "responses")),)


def write_output(output: Output) -> Wire:
    """Write what was answered; words from elsewhere are put where words belong."""
    text = _text(output.output)
    match output.kind:
        case "shell":
            return {"output": _json(text) if text.startswith("[") else [_shell_output(text)]}
        case "local_shell":
            return {"output": text}
        case "apply_patch":
            whole = is_complete(text) and read_fields(Raw(text.encode())).has("status")
            return dict(_fields(text).rest()) if whole else {"status": "completed", "output": text}
        case "computer":
            return {"output": _write_screen(output.output)}
        case _:
            return {"execution": "client", "tools": _json(text) if text.startswith("[") else ()}


def _shell_output(text: str) -> Wire:
    return {"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}


def _write_screen(output: str | tuple[Part, ...]) -> Wire | Raw:
    """Write the picture; where there is none, there was nothing to see."""
    for part in output:
        if isinstance(part, OtherPart) and part.family == "responses":
            return part.value
        if isinstance(part, Image):
            named = {"image_url": part.url, "file_id": part.file_id, "detail": part.detail}
            said = {name: value for name, value in named.items() if value is not None}
            others = {extra.name: extra.value for extra in part.extras}
            return {"type": _SCREEN, **said, **others}
    return {"type": _SCREEN}


def _text(output: str | tuple[Part, ...]) -> str:
    if isinstance(output, str):
        return output
    return "".join(part.text for part in output if isinstance(part, Text))
