"""Calls and outputs of tools without a name that the client runs, such as `shell_call`.

In the IR, the arguments of such a call are JSON, and its output is JSON in the form of its item, or
an image. If a client of another dialect sends text as output, the other fields get defaults.
"""

import msgspec
from msgspec import Raw

from adapters.errors import InvalidRequestError
from adapters.ir.types import CallKind, Image, OtherPart, Part, Text, ToolOutput
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.responses.wire import FAMILY, Wire
from adapters.wire.extra_fields import unread_fields
from adapters.wire.json_object import Json, JsonObject, parse, read_fields, string_or_raw_json

_SCREENSHOT = "computer_screenshot"
_PATCH_FIELDS = {"status", "output"}
_IMAGE_URL_PREFIXES = ("data:image/", "https://", "http://")


def runs_on_client(fields: JsonObject, kind: CallKind) -> bool:
    """Whether the client runs a call: all calls except tool searches that the server runs."""
    if kind != "tool_search":
        return True
    return fields.peek("execution") in (None, "client") and fields.has("call_id")


# Calls


def read_arguments(fields: JsonObject, kind: CallKind) -> str:
    """Read the arguments of a call."""
    match kind:
        case "shell" | "local_shell":
            return string_or_raw_json(fields.raw("action")) or "{}"
        case "apply_patch":
            return _read_field(fields, "operation")
        case "computer":
            return _read_field(fields, "actions" if fields.has("actions") else "action")
        case _:
            return string_or_raw_json(fields.raw("arguments")) or "{}"


def _read_field(fields: JsonObject, name: str) -> str:
    """Return an object with one field."""
    raw = fields.raw(name)
    return "{}" if raw is None else f'{{"{name}":{bytes(raw).decode()}}}'


def write_arguments(arguments: str, kind: CallKind) -> Wire:
    """Write the arguments of a call."""
    raw = Raw(arguments.encode()) if is_complete_json(arguments) else Raw(b"{}")
    match kind:
        case "shell":
            return {"action": raw}
        case "local_shell":
            # Both `type`, which has only one value, and `env` are required.
            action: Wire = {**dict(read_fields(raw).take_remaining()), "type": "exec"}
            action.setdefault("env", {})
            return {"action": action}
        case "apply_patch":
            return dict(read_fields(raw).take_remaining())
        case "computer":
            return {"pending_safety_checks": (), **dict(read_fields(raw).take_remaining())}
        case _:
            return {"execution": "client", "arguments": raw}


# Outputs


def read_output(fields: JsonObject, kind: CallKind) -> str | tuple[Part, ...]:
    """Read the output of a call."""
    match kind:
        case "computer":
            return _read_screenshot(fields.raw("output"))
        case "apply_patch":
            given = {name: fields.raw(name) for name in ("status", "output") if fields.has(name)}
            return msgspec.json.encode(given).decode()
        case "tool_search":
            return string_or_raw_json(fields.raw("tools")) or "[]"
        case _:
            return string_or_raw_json(fields.raw("output"))


def _read_screenshot(raw: Raw | None) -> tuple[Part, ...]:
    if raw is None:
        return ()
    fields = read_fields(raw, "output")
    kind = fields.string("type") or _SCREENSHOT
    if kind != _SCREENSHOT:
        return (OtherPart(FAMILY, kind, raw),)
    url, file_id = fields.string("image_url"), fields.string("file_id")
    return (Image(url, file_id, fields.string("detail"), extras=unread_fields(fields, FAMILY)),)


def write_output(output: ToolOutput, path: str, losses: Losses) -> Wire:
    """Write the output of a call."""
    text = _text(output.output)
    match output.kind:
        case "shell":
            return {"output": _write_shell(text, path, losses)}
        case "local_shell":
            return {"output": text}
        case "apply_patch":
            return _write_patch(text, path, losses)
        case "computer":
            return {"output": _write_screenshot(output.output, path, losses)}
        case _:
            return {"execution": "client", "tools": _write_tools(text, path, losses)}


def _text(output: str | tuple[Part, ...]) -> str:
    if isinstance(output, str):
        return output
    return "".join(part.text for part in output if isinstance(part, Text))


def _parse(text: str) -> Json:
    """Parse a text; return None if it is not JSON."""
    try:
        return parse(text.encode())
    except (InvalidRequestError, UnicodeEncodeError):
        return None


def _is_list_with(value: Json, name: str) -> bool:
    """Whether a value is a list of objects that have this field."""
    return isinstance(value, list) and all(isinstance(one, dict) and name in one for one in value)


def _write_shell(text: str, path: str, losses: Losses) -> Raw | list[Wire]:
    if _is_list_with(_parse(text), "outcome"):
        return Raw(text.encode())
    losses.invented(path, "the output has no exit code; sent as exit code 0")
    return [{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]


def _write_patch(text: str, path: str, losses: Losses) -> Wire:
    result = _parse(text)
    ends = ("completed", "failed")
    if isinstance(result, dict) and result.get("status") in ends and result.keys() <= _PATCH_FIELDS:
        return dict(result)
    losses.invented(path, "the output has no status; sent as completed")
    return {"status": "completed", "output": text}


def _write_screenshot(output: str | tuple[Part, ...], path: str, losses: Losses) -> Wire | Raw:
    """Write an image of the output, or a screenshot or image URL in its text."""
    for part in output if not isinstance(output, str) else ():
        if isinstance(part, OtherPart) and part.family == FAMILY:
            return part.value
        if isinstance(part, Image):
            fields = {"image_url": part.url, "file_id": part.file_id, "detail": part.detail}
            given = {name: value for name, value in fields.items() if value is not None}
            extras = {extra.name: extra.value for extra in part.extras}
            return {"type": _SCREENSHOT, **given, **extras}
    text = _text(output)
    match _parse(text):
        case {"type": "computer_screenshot"}:
            return Raw(text.encode())
        case _ if text.startswith(_IMAGE_URL_PREFIXES) and not any(map(str.isspace, text)):
            return {"type": _SCREENSHOT, "image_url": text}
        case _:
            if text:
                losses.dropped(path, "the output must be a screenshot, not text", "capability")
            return {"type": _SCREENSHOT}


def _write_tools(text: str, path: str, losses: Losses) -> Raw | tuple[()]:
    if _is_list_with(_parse(text), "type"):
        return Raw(text.encode())
    if text:
        losses.dropped(path, "the output must be a list of tools, not text", "capability")
    return ()
