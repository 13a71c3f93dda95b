"""Calls of tools that have no name, which the client runs: `shell_call` and its like.

In the hub a call holds, as JSON, what there is to do. What the tools answered is in
`client_outputs`.
"""

import msgspec
from msgspec import Raw

from adapters.errors import InvalidRequestError
from adapters.ir.types import CallKind, Image, OtherPart, Part, Text, ToolOutput
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.wire.extra_fields import unread_fields
from adapters.wire.json_object import Json, JsonObject, parse, read_fields, string_or_raw_json

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


# What tools that have no name answered, which the client runs: `shell_call_output` and its like.
#
# In the hub an output holds it as JSON, as its item spells it, or as a picture of the screen.
# Clients
# of other dialects answer in words, as to any function: they are put where words belong, and what
# an
# item has to say besides is made up.


_SCREEN = "computer_screenshot"
# What is said of a patch, and how it may have ended.
_PATCH = frozenset(("status", "output"))
_PATCHED = ("completed", "failed")
# How the address of a picture begins.
_ADDRESSES = ("data:image/", "https://", "http://")


# Reading


def read_output(fields: JsonObject, kind: CallKind) -> str | tuple[Part, ...]:
    """Read what was answered."""
    match kind:
        case "computer":
            return _read_screen(fields.raw("output"))
        case "apply_patch":
            names = ("status", "output")
            said = {name: fields.raw(name) for name in names if fields.has(name)}
            return msgspec.json.encode(said).decode()
        case "tool_search":
            return string_or_raw_json(fields.raw("tools")) or "[]"
        case _:
            return string_or_raw_json(fields.raw("output"))


def _read_screen(raw: Raw | None) -> tuple[Part, ...]:
    if raw is None:
        return ()
    fields = read_fields(raw, "output")
    kind = fields.string("type") or _SCREEN
    if kind != _SCREEN:
        return (OtherPart("responses", kind, raw),)
    url, file_id = fields.string("image_url"), fields.string("file_id")
    return (
        Image(url, file_id, fields.string("detail"), extras=unread_fields(fields, "responses")),
    )


# Writing


def write_output(output: ToolOutput, path: str, losses: Losses) -> Wire:
    """Write what was answered."""
    text = _text(output.output)
    match output.kind:
        case "shell":
            return {"output": _write_shell(text, path, losses)}
        case "local_shell":
            return {"output": text}
        case "apply_patch":
            return _write_patch(text, path, losses)
        case "computer":
            return {"output": _write_screen(output.output, path, losses)}
        case _:
            return {"execution": "client", "tools": _write_tools(text, path, losses)}


def _text(output: str | tuple[Part, ...]) -> str:
    if isinstance(output, str):
        return output
    return "".join(part.text for part in output if isinstance(part, Text))


def _said(text: str) -> Json:
    """Give what a text says, if it is JSON; words say nothing."""
    try:
        return parse(text.encode())
    except (InvalidRequestError, UnicodeEncodeError):
        return None


def _write_shell(text: str, path: str, losses: Losses) -> Wire | Raw | list[Wire]:
    said = _said(text)
    if isinstance(said, list) and all(isinstance(one, dict) and "outcome" in one for one in said):
        return Raw(text.encode())
    losses.invented(path, "it does not say how the command ended; it is told as exit code 0")
    return [{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]


def _write_patch(text: str, path: str, losses: Losses) -> Wire:
    said = _said(text)
    if isinstance(said, dict) and said.get("status") in _PATCHED and said.keys() <= _PATCH:
        return dict(said)
    losses.invented(path, "it does not say how the patch ended; it is told as completed")
    return {"status": "completed", "output": text}


def _write_screen(output: str | tuple[Part, ...], path: str, losses: Losses) -> Wire | Raw:
    """Write the picture; where there is none, there was nothing to see."""
    for part in output if not isinstance(output, str) else ():
        if isinstance(part, OtherPart) and part.family == "responses":
            return part.value
        if isinstance(part, Image):
            named = {"image_url": part.url, "file_id": part.file_id, "detail": part.detail}
            said = {name: value for name, value in named.items() if value is not None}
            others = {extra.name: extra.value for extra in part.extras}
            return {"type": _SCREEN, **said, **others}
    return _write_seen(_text(output), path, losses)


def _write_seen(text: str, path: str, losses: Losses) -> Wire | Raw:
    """Write the picture that a text is, or of which it gives the address."""
    match _said(text):
        case {"type": "computer_screenshot"}:
            return Raw(text.encode())
        case _ if text.startswith(_ADDRESSES) and not any(map(str.isspace, text)):
            return {"type": _SCREEN, "image_url": text}
        case _:
            if text:
                why = "a picture of the screen is wanted, and these are words"
                losses.dropped(path, why, "capability")
            return {"type": _SCREEN}


def _write_tools(text: str, path: str, losses: Losses) -> Raw | tuple[()]:
    said = _said(text)
    if isinstance(said, list) and all(isinstance(one, dict) and "type" in one for one in said):
        return Raw(text.encode())
    if text:
        losses.dropped(path, "tools that were found are wanted, and these are words", "capability")
    return ()
