"""Writes tools, tool choices and text formats for Chat: everything nested."""

from msgspec import Raw

from adapters.conversation import (
    Allowed,
    Custom,
    Format,
    Function,
    Hosted,
    HostedChoice,
    Mode,
    Named,
    ToolChoice,
)
from adapters.extras import Carrier
from adapters.fields import read_fields
from adapters.loss import Losses, Severity
from adapters.schemas import EMPTY_SCHEMA, is_strict, mended

Wire = dict[str, object]


def write_function(tool: Function, path: str, carrier: Carrier, losses: Losses) -> Wire:
    """Write what Chat and legacy say of a function: its name, its purpose, its schema."""
    wire: Wire = {"name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    schema = EMPTY_SCHEMA if tool.parameters is None else mended(tool.parameters)
    if tool.parameters is not None and schema is not tool.parameters:
        losses.changed(f"{path}.parameters", "nulls that no schema may have are taken out")
    wire["parameters"] = schema
    carrier.carry(tool.extras, wire, path)
    return wire


class ToolWriter:
    """Writes tools, and reports what they cannot keep."""

    def __init__(self, carrier: Carrier, losses: Losses, *, knows_strict: bool) -> None:
        self._carrier = carrier
        self._losses = losses
        self._knows_strict = knows_strict

    def write(self, tool: Function | Custom, path: str) -> Wire:
        """Write one tool."""
        if isinstance(tool, Custom):
            return {"type": "custom", "custom": self._write_custom(tool, path)}
        inner = write_function(tool, path, self._carrier, self._losses)
        if self._is_strict(tool, path):
            inner["strict"] = True
        return {"type": "function", "function": inner}

    def _is_strict(self, tool: Function, path: str) -> bool:
        """Decide `strict`: where nobody said, as the Responses API would have decided."""
        wanted = is_strict(tool.parameters) if tool.strict is None else tool.strict
        if wanted and not self._knows_strict:
            severity: Severity = "hint" if tool.strict is None else "capability"
            self._losses.dropped(f"{path}.strict", "the backend does not know strict", severity)
            return False
        return wanted

    def _write_custom(self, tool: Custom, path: str) -> Wire:
        wire: Wire = {"name": tool.name}
        if tool.description is not None:
            wire["description"] = tool.description
        if tool.definition is not None:
            grammar = {"syntax": tool.syntax, "definition": tool.definition}
            wire["format"] = {"type": "grammar", "grammar": grammar}
        self._carrier.carry(tool.extras, wire, path)
        return wire


def write_choice(choice: ToolChoice) -> str | Wire | Raw:
    """Write a tool choice."""
    match choice:
        case Mode():
            return choice.mode
        case Named():
            return {"type": choice.kind, choice.kind: {"name": choice.name}}
        case Allowed():
            tools = [*map(write_choice, choice.tools), *choice.others]
            return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
        case HostedChoice():
            return choice.value


def write_format(form: Format, carrier: Carrier, path: str) -> Wire:
    """Write the format of the answer's text."""
    if form.kind != "json_schema":
        return {"type": form.kind}
    named = {
        "name": form.name or "response",
        "description": form.description,
        "schema": form.schema,
        "strict": form.strict,
    }
    inner: Wire = {key: value for key, value in named.items() if value is not None}
    carrier.carry(form.extras, inner, path)
    return {"type": "json_schema", "json_schema": inner}


def write_web_search(tool: Hosted) -> Wire:
    """Write a web search as the options that Chat has for it."""
    fields = read_fields(tool.value)
    wire: Wire = {}
    size = fields.text("search_context_size")
    if size is not None:
        wire["search_context_size"] = size
    location = fields.fields("user_location")
    if location is not None:
        location.text("type")
        wire["user_location"] = {"type": "approximate", "approximate": dict(location.rest())}
    return wire
